package orders

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/service/order"
)

// ttl returns the lifetime of a reservation. It is required, because clients would forget a default.
func (p purchase) ttl() (time.Duration, error) {
	if !p.Has("ttl") {
		return 0, handler.Missing("ttl")
	}
	return order.ParseTTL(p.Fields["ttl"])
}

func (h *shop) reserve(c *gin.Context) {
	p, ok := h.decodePurchase(c, true, "ttl")
	if !ok {
		return
	}
	ttl, err := p.ttl()
	if err != nil {
		h.Fail(c, err)
		return
	}
	r, replayed, err := h.Orders.Reserve(c.Request.Context(), p.key, p.customer, p.lines, ttl)
	if err != nil {
		h.Fail(c, err)
		return
	}
	handler.Replay(c, replayed)
	c.Header("Location", "/v1/reservations/"+r.ID)
	c.JSON(http.StatusCreated, r)
}

func (h *shop) getReservation(c *gin.Context) {
	p, ok := h.decodePurchase(c, false)
	if !ok {
		return
	}
	r, err := h.Orders.Reservation(c.Request.Context(), p.customer, c.Param("reservation_id"))
	if err != nil {
		h.Fail(c, err)
		return
	}
	c.JSON(http.StatusOK, r)
}

// confirmReservation replies 200, not 201, because a repeated confirmation gets the same reply. The body has the order.
func (h *shop) confirmReservation(c *gin.Context) {
	h.change(c, func(p purchase) (any, bool, error) {
		o, replayed, err := h.Orders.Confirm(c.Request.Context(), p.key, p.customer, c.Param("reservation_id"))
		if err == nil {
			c.Header("Content-Location", "/v1/orders/"+o.ID)
		}
		return o, replayed, err
	})
}

func (h *shop) cancelReservation(c *gin.Context) {
	h.change(c, func(p purchase) (any, bool, error) {
		return h.Orders.CancelReservation(c.Request.Context(), p.key, p.customer, c.Param("reservation_id"))
	})
}

func (h *shop) extendReservation(c *gin.Context) {
	h.change(c, func(p purchase) (any, bool, error) {
		ttl, err := p.ttl()
		if err != nil {
			return nil, false, err
		}
		return h.Orders.Extend(c.Request.Context(), p.key, p.customer, c.Param("reservation_id"), ttl)
	}, "ttl")
}
