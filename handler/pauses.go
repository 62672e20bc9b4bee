package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// Pauses are the sales that wait at a point of the lab, and let go on from there.
type Pauses interface {
	List() []service.Pause
	Release(requestID string) (service.Pause, error)
}

type pauseReply struct {
	RequestID string      `json:"request_id"`
	Strategy  string      `json:"strategy"`
	SKU       service.SKU `json:"sku"`
	Point     string      `json:"point"`
	Since     time.Time   `json:"since"`
	SinceMS   float64     `json:"since_ms"` // before now
}

// getPauses lists who waits at this instance, oldest first.
func (h *handler) getPauses(c *gin.Context) {
	if !h.admin(c) || !h.plain(c) {
		return
	}
	list := []pauseReply{}
	for _, p := range h.Pauses.List() {
		list = append(list, pauseOf(p))
	}
	c.JSON(http.StatusOK, gin.H{"pauses": list})
}

// deletePause lets one go on, and answers where it was.
func (h *handler) deletePause(c *gin.Context) {
	if !h.admin(c) || !h.plain(c) {
		return
	}
	p, err := h.Pauses.Release(c.Param("request"))
	if err != nil {
		h.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, pauseOf(p))
}

// plain reports whether the request has no fields, and refuses it if it has.
func (h *handler) plain(c *gin.Context) bool {
	_, err := decode(c)
	if err != nil {
		h.refuse(c, err)
	}
	return err == nil
}

func pauseOf(p service.Pause) pauseReply {
	return pauseReply{
		RequestID: p.RequestID, Strategy: p.Strategy, SKU: p.SKU, Point: p.Point.String(),
		Since: p.Since.UTC(), SinceMS: milliseconds(time.Since(p.Since)),
	}
}

// fillPauses takes over what the lab wants of the course of the sale.
func (f fields) fillPauses(req *service.Request) (err error) {
	if f.has("pause") {
		if req.Lab.Pause, err = service.ParsePoints(f["pause"]); err != nil {
			return err
		}
	}
	switch req.Lab.Nested = service.Nesting(f["nested"]); req.Lab.Nested {
	case "", service.NestedHolder, service.NestedStranger:
		return nil
	default:
		return &service.InvalidError{Field: "nested", Reason: "must be holder or stranger"}
	}
}
