package handler

import (
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// addOrders adds what an order service has: carts, reservations, and the movements of stock.
func (h *handler) addOrders(e *gin.Engine) {
	e.POST("/v1/orders", h.placeOrder)
	get(e, "/v1/orders", h.listOrders)
	get(e, "/v1/orders/:order_id", h.getOrder)
	e.POST("/v1/orders/:order_id/cancel", h.cancelOrder)

	e.POST("/v1/reservations", h.reserve)
	get(e, "/v1/reservations/:reservation_id", h.getReservation)
	e.POST("/v1/reservations/:reservation_id/confirm", h.confirmReservation)
	e.POST("/v1/reservations/:reservation_id/cancel", h.cancelReservation)
	e.POST("/v1/reservations/:reservation_id/extend", h.extendReservation)

	e.POST("/v1/stock/:sku/adjustments", h.adjustStock)
	get(e, "/v1/stock/:sku/movements", h.getMovements)
	e.PUT("/v1/stock/:sku/policy", h.putPolicy)
}

func (h *handler) placeOrder(c *gin.Context) {
	p, ok := h.decodePurchase(c, true)
	if !ok {
		return
	}
	o, replayed, err := h.Orders.Place(c.Request.Context(), p.key, p.customer, p.lines)
	if err != nil {
		h.fail(c, err)
		return
	}
	replay(c, replayed)
	c.Header("Location", "/v1/orders/"+o.ID)
	c.JSON(http.StatusCreated, o)
}

func (h *handler) listOrders(c *gin.Context) {
	p, ok := h.decodePurchase(c, false, "cursor", "limit")
	if !ok {
		return
	}
	limit, err := p.number("limit", 100, 1, service.MaxPage)
	if err != nil {
		h.fail(c, err)
		return
	}
	page, err := h.Orders.Orders(c.Request.Context(), p.customer, p.fields["cursor"], int(limit))
	if err != nil {
		h.fail(c, err)
		return
	}
	if page.Orders == nil {
		page.Orders = []order.Order{}
	}
	linkNext(c, page.Next)
	c.JSON(http.StatusOK, gin.H{"orders": page.Orders, "next": page.Next})
}

// linkNext names the next page in the header Link (RFC 8288).
func linkNext(c *gin.Context, cursor string) {
	if cursor == "" {
		return
	}
	query := c.Request.URL.Query()
	query.Set("cursor", cursor)
	next := url.URL{Path: c.Request.URL.Path, RawQuery: query.Encode()}
	c.Header("Link", "<"+next.String()+`>; rel="next"`)
}

func (h *handler) getOrder(c *gin.Context) {
	p, ok := h.decodePurchase(c, false)
	if !ok {
		return
	}
	o, err := h.Orders.Order(c.Request.Context(), p.customer, c.Param("order_id"))
	if err != nil {
		h.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, o)
}

func (h *handler) cancelOrder(c *gin.Context) {
	h.change(c, func(p purchase) (any, bool, error) {
		return h.Orders.CancelOrder(c.Request.Context(), p.key, p.customer, c.Param("order_id"))
	})
}
