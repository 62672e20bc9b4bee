// Package orders is the HTTP side of the shop: carts, reservations, and the movements of its stock.
package orders

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// Config holds what New needs.
type Config struct {
	Orders *order.Service
	Store  string // name of the orders' store, for replies
	// SharesStock means that strategies sell, too. Then the Part of the strategies shows and sets the stock.
	SharesStock bool
}

// A Part has the routes of a shop: carts, reservations, and the movements of stock.
type Part struct{ config Config }

func New(c Config) *Part { return &Part{c} }

type shop struct {
	*handler.Base
	Config
}

// Public adds the routes for customers.
func (p *Part) Public(b *handler.Base, e *gin.Engine) {
	h := &shop{b, p.config}
	e.POST("/v1/orders", h.placeOrder)
	handler.Get(e, "/v1/orders", h.listOrders)
	handler.Get(e, "/v1/orders/:order_id", h.getOrder)
	e.POST("/v1/orders/:order_id/cancel", h.cancelOrder)

	e.POST("/v1/reservations", h.reserve)
	handler.Get(e, "/v1/reservations/:reservation_id", h.getReservation)
	e.POST("/v1/reservations/:reservation_id/confirm", h.confirmReservation)
	e.POST("/v1/reservations/:reservation_id/cancel", h.cancelReservation)
	e.POST("/v1/reservations/:reservation_id/extend", h.extendReservation)

	if !h.SharesStock {
		handler.Get(e, "/v1/stock/:sku", h.getStock)
		e.PUT("/v1/stock/:sku", h.putStock)
	}
	e.POST("/v1/stock/:sku/adjustments", h.adjustStock)
	handler.Get(e, "/v1/stock/:sku/movements", h.getMovements)
	e.PUT("/v1/stock/:sku/policy", h.putPolicy)
}

// Admin adds nothing, because operators need only the metrics.
func (*Part) Admin(*handler.Base, *gin.Engine) {}

// Document removes the parameter store of the stock, which the client cannot choose.
func (p *Part) Document(document map[string]any) {
	if p.config.SharesStock {
		return
	}
	stock := handler.Object(document, "paths", "/v1/stock/{sku}")
	parameters, _ := stock["parameters"].([]any)
	stock["parameters"] = slices.DeleteFunc(parameters, func(p any) bool {
		return handler.Object(p)["$ref"] == "#/components/parameters/Store"
	})
}

// Sells returns why no orders can be sold, or "".
func (p *Part) Sells() (map[string]handler.StoreReply, string) {
	if p.config.Orders.Err() != nil {
		return nil, "orders cannot be sold"
	}
	return nil, ""
}

func (h *shop) placeOrder(c *gin.Context) {
	p, ok := h.decodePurchase(c, true)
	if !ok {
		return
	}
	o, replayed, err := h.Orders.Place(c.Request.Context(), p.key, p.customer, p.lines)
	if err != nil {
		h.Fail(c, err)
		return
	}
	handler.Replay(c, replayed)
	c.Header("Location", "/v1/orders/"+o.ID)
	c.JSON(http.StatusCreated, o)
}

func (h *shop) listOrders(c *gin.Context) {
	p, ok := h.decodePurchase(c, false, "cursor", "limit")
	if !ok {
		return
	}
	limit, err := p.Number("limit", 100, 1, service.MaxPage)
	if err != nil {
		h.Fail(c, err)
		return
	}
	page, err := h.Orders.Orders(c.Request.Context(), p.customer, p.Fields["cursor"], int(limit))
	if err != nil {
		h.Fail(c, err)
		return
	}
	if page.Orders == nil {
		page.Orders = []order.Order{}
	}
	handler.LinkNext(c, page.Next)
	c.JSON(http.StatusOK, gin.H{"orders": page.Orders, "next": page.Next})
}

func (h *shop) getOrder(c *gin.Context) {
	p, ok := h.decodePurchase(c, false)
	if !ok {
		return
	}
	o, err := h.Orders.Order(c.Request.Context(), p.customer, c.Param("order_id"))
	if err != nil {
		h.Fail(c, err)
		return
	}
	c.JSON(http.StatusOK, o)
}

func (h *shop) cancelOrder(c *gin.Context) {
	h.change(c, func(p purchase) (any, bool, error) {
		return h.Orders.CancelOrder(c.Request.Context(), p.key, p.customer, c.Param("order_id"))
	})
}
