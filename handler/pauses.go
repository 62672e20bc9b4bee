package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// Pauses lists the sales that wait at a pause point of the lab, and lets them go on.
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

// getPauses lists the sales that wait at this instance, oldest first.
func (h *handler) getPauses(c *gin.Context) {
	if !h.admin(c) || !h.noFields(c) {
		return
	}
	list := []pauseReply{}
	for _, p := range h.Pauses.List() {
		list = append(list, pauseOf(p))
	}
	c.JSON(http.StatusOK, gin.H{"pauses": list})
}

// deletePause lets one sale go on, and answers where it was.
func (h *handler) deletePause(c *gin.Context) {
	if !h.admin(c) || !h.noFields(c) {
		return
	}
	p, err := h.Pauses.Release(c.Param("request"))
	if err != nil {
		h.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, pauseOf(p))
}

func pauseOf(p service.Pause) pauseReply {
	return pauseReply{
		RequestID: p.RequestID, Strategy: p.Strategy, SKU: p.SKU, Point: p.Point.String(),
		Since: p.Since.UTC(), SinceMS: milliseconds(time.Since(p.Since)),
	}
}
