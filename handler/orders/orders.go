// Package orders is the HTTP side of the shop: carts, reservations, and the movements of its stock.
package orders

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
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

// Public returns the routes for customers.
func (p *Part) Public(b *handler.Base) []handler.Route {
	h := &shop{b, p.config}
	on := handler.NewRoute
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	own := handler.Needs(access.OrdersOwn, access.OrdersAny)
	read, write := handler.Needs(access.StockRead), handler.Needs(access.StockWrite)
	routes := []handler.Route{
		on(post, "/v1/orders", own, h.placeOrder),
		on(get, "/v1/orders", own, h.listOrders),
		on(get, "/v1/orders/:order_id", own, h.getOrder),
		on(post, "/v1/orders/:order_id/cancel", own, h.cancelOrder),

		on(post, "/v1/reservations", own, h.reserve),
		on(get, "/v1/reservations/:reservation_id", own, h.getReservation),
		on(post, "/v1/reservations/:reservation_id/confirm", own, h.confirmReservation),
		on(post, "/v1/reservations/:reservation_id/cancel", own, h.cancelReservation),
		on(post, "/v1/reservations/:reservation_id/extend", own, h.extendReservation),

		on(post, "/v1/stock/:sku/adjustments", write, h.adjustStock),
		on(get, "/v1/stock/:sku/movements", read, h.getMovements),
		on(put, "/v1/stock/:sku/policy", write, h.putPolicy),
	}
	if h.SharesStock {
		return routes
	}
	return append(routes,
		on(get, "/v1/stock/:sku", read, h.getStock),
		on(put, "/v1/stock/:sku", write, h.putStock),
	)
}

// Admin returns nothing, because operators need only the metrics.
func (*Part) Admin(*handler.Base) []handler.Route { return nil }

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
