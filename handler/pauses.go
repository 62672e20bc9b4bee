package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// Pauses lists the sales that wait at a pause point of the lab, and resumes them.
type Pauses interface {
	List() []service.Pause
	Release(requestID string) (service.Pause, error)
}

// Holds sets the pause points of one sale in progress, or of all sales.
type Holds interface {
	Hold(requestID string, points service.Points) error
	HoldAll(points service.Points)
	Step() int
}

type pauseReply struct {
	RequestID string      `json:"request_id"`
	Strategy  string      `json:"strategy"`
	SKU       service.SKU `json:"sku"`
	Point     string      `json:"point"`
	Since     time.Time   `json:"since"`
	SinceMS   float64     `json:"since_ms"` // how long ago
}

// getPauses lists the sales that wait at this instance, oldest first.
func (h *handler) getPauses(c *gin.Context) {
	if !h.noFields(c) {
		return
	}
	list := []pauseReply{}
	for _, p := range h.Pauses.List() {
		list = append(list, pauseOf(p))
	}
	c.JSON(http.StatusOK, gin.H{"pauses": list})
}

func (h *handler) deletePause(c *gin.Context) {
	if !h.noFields(c) {
		return
	}
	p, err := h.Pauses.Release(c.Param("request"))
	if err != nil {
		h.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, pauseOf(p))
}

func (h *handler) putPause(c *gin.Context) {
	points, ok := h.points(c, false)
	if !ok {
		return
	}
	if err := h.Holds.Hold(c.Param("request"), points); err != nil {
		h.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"pause": points.String()})
}

// putPauses sets the pause points of all sales. An empty list resumes those that wait.
func (h *handler) putPauses(c *gin.Context) {
	points, ok := h.points(c, true)
	if !ok {
		return
	}
	h.Holds.HoldAll(points)
	c.JSON(http.StatusOK, gin.H{"pause": points.String()})
}

// deletePauses resumes all sales that wait, each to its next pause point.
func (h *handler) deletePauses(c *gin.Context) {
	if h.noFields(c) {
		c.JSON(http.StatusOK, gin.H{"released": h.Holds.Step()})
	}
}

// points reads the field pause, and replies with a problem if it is invalid.
func (h *handler) points(c *gin.Context, none bool) (points service.Points, ok bool) {
	f, err := decode(c, "pause")
	if text := f["pause"]; err == nil && (text != "" || !none) {
		points, err = service.ParsePoints(text)
	}
	if err != nil {
		h.fail(c, err)
	}
	return points, err == nil
}

func pauseOf(p service.Pause) pauseReply {
	return pauseReply{
		RequestID: p.RequestID, Strategy: p.Strategy, SKU: p.SKU, Point: p.Point.String(),
		Since: p.Since.UTC(), SinceMS: milliseconds(time.Since(p.Since)),
	}
}
