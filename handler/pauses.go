package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// Pauses are the sales that wait at a pause point of the lab.
type Pauses interface {
	List() []service.Pause
	Release(requestID string) (service.Pause, error)
	Hold(requestID string, points service.Points) error // sets the points of a sale in progress
	HoldAll(points service.Points)                      // sets the points of all sales
	ReleaseAll() int                                    // resumes all, each to its next point
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
func (h *handler) getPauses(c *gin.Context) error {
	list := []pauseReply{}
	for _, p := range h.Pauses.List() {
		list = append(list, pauseOf(p))
	}
	c.JSON(http.StatusOK, gin.H{"pauses": list})
	return nil
}

func (h *handler) deletePause(c *gin.Context) error {
	p, err := h.Pauses.Release(c.Param("request"))
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, pauseOf(p))
	return nil
}

func (h *handler) putPause(c *gin.Context) error {
	f, err := decode(c, "pause")
	if err != nil {
		return err
	}
	points, err := service.ParsePoints(f["pause"])
	if err != nil {
		return err
	}
	if err := h.Pauses.Hold(c.Param("request"), points); err != nil {
		return err
	}
	c.JSON(http.StatusOK, gin.H{"pause": points.String()})
	return nil
}

// putPauses sets the pause points of all sales. An empty list resumes those that wait.
func (h *handler) putPauses(c *gin.Context) error {
	f, err := decode(c, "pause")
	if err != nil {
		return err
	}
	var points service.Points
	if f["pause"] != "" {
		if points, err = service.ParsePoints(f["pause"]); err != nil {
			return err
		}
	}
	h.Pauses.HoldAll(points)
	c.JSON(http.StatusOK, gin.H{"pause": points.String()})
	return nil
}

// deletePauses resumes all sales that wait, each to its next pause point.
func (h *handler) deletePauses(c *gin.Context) error {
	c.JSON(http.StatusOK, gin.H{"released": h.Pauses.ReleaseAll()})
	return nil
}

func pauseOf(p service.Pause) pauseReply {
	return pauseReply{
		RequestID: p.RequestID, Strategy: p.Strategy, SKU: p.SKU, Point: p.Point.String(),
		Since: p.Since.UTC(), SinceMS: milliseconds(time.Since(p.Since)),
	}
}
