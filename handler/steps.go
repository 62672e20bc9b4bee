package handler

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// A stream sends a comment every stepsAlive, and checks every stepsLook whether the instance is stopping.
const (
	stepsAlive = 15 * time.Second
	stepsLook  = 250 * time.Millisecond
)

type stepsMessage struct {
	Boot    int64       `json:"boot"`    // start of the process that counts the numbers: Unix time in µs
	Dropped uint64      `json:"dropped"` // number of steps discarded before these
	Steps   []stepReply `json:"steps"`
}

type stepReply struct {
	Number    uint64           `json:"number"`
	AtUS      int64            `json:"at_us"` // Unix time in µs
	Kind      service.StepKind `json:"kind"`
	RequestID string           `json:"request_id"`
	Strategy  string           `json:"strategy"`
	SKU       service.SKU      `json:"sku"`
	Quantity  int64            `json:"quantity,omitempty"`
	Read      int64            `json:"read,omitempty"`
	Remaining int64            `json:"remaining,omitempty"`
	Version   uint64           `json:"version,omitempty"`
	Epoch     uint64           `json:"epoch,omitempty"`
	Segment   int              `json:"segment,omitempty"`
	Fence     string           `json:"fence,omitempty"` // a string, because it exceeds JavaScript's integers
	Point     string           `json:"point,omitempty"`
	Outcome   string           `json:"outcome,omitempty"` // of step "ended": accepted, or the name of the problem
	Replayed  bool             `json:"replayed,omitempty"`
	Batch     string           `json:"batch,omitempty"`      // of a merged sale, from "acquired" on
	BatchSize int              `json:"batch_size,omitempty"` // refused sales included
}

// getSteps streams the steps of sales as server-sent events, after the number in "after" or from now on, until the
// client disconnects or the instance stops. Each message has all steps since the previous one. A slow reader misses
// steps; Dropped counts them.
func (h *handler) getSteps(c *gin.Context) error {
	f, err := decode(c, "after")
	if err != nil {
		return err
	}
	after, err := f.number("after", int64(min(h.Steps.Last(), math.MaxInt64)), 0, math.MaxInt64)
	if err != nil {
		return err
	}
	noteOf(c).stream = true
	c.Header("Content-Type", "text/event-stream")
	c.Header("Cache-Control", "no-store")
	c.Header("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	c.Writer.WriteHeaderNow()
	if c.Request.Method != http.MethodHead {
		h.streamSteps(c, uint64(after))
	}
	return nil
}

func (h *handler) streamSteps(c *gin.Context, after uint64) {
	// This bypasses gin's writer, whose Flush panics if the wrapped writer is not a Flusher.
	var writer http.ResponseWriter = c.Writer
	if w, ok := writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		writer = w.Unwrap()
	}
	control := http.NewResponseController(writer)
	_ = control.SetWriteDeadline(time.Time{})
	look := time.NewTicker(stepsLook)
	defer look.Stop()
	var spoke time.Time
	send := func(text string) error {
		spoke = time.Now()
		if _, err := c.Writer.WriteString(text); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := send(": steps of " + h.Instance + "\n\n"); err != nil {
		return
	}
	for !h.Draining() && c.Request.Context().Err() == nil {
		steps, dropped, more := h.Steps.After(after)
		if len(steps) > 0 {
			after = steps[len(steps)-1].Number
			if err := send(h.stepsMessage(steps, dropped)); err != nil {
				return
			}
			continue
		}
		select {
		case <-more:
		case <-c.Request.Context().Done():
		case <-look.C:
			if time.Since(spoke) > stepsAlive {
				if err := send(": alive\n\n"); err != nil {
					return
				}
			}
		}
	}
}

func (h *handler) stepsMessage(steps []service.Step, dropped uint64) string {
	m := stepsMessage{Boot: h.began.UnixMicro(), Dropped: dropped}
	for _, s := range steps {
		reply := stepReply{
			Number: s.Number, AtUS: s.At.UnixMicro(), Kind: s.Kind, RequestID: s.RequestID,
			Strategy: shorten(s.Strategy), SKU: s.SKU, Quantity: s.Quantity, Read: s.Read,
			Remaining: s.Remaining,
			Version:   s.Version, Epoch: s.Epoch, Segment: s.Segment, Point: s.Point.String(), Replayed: s.Replayed,
			Batch: s.Batch.ID, BatchSize: s.Batch.Size,
		}
		if s.Fence != 0 {
			reply.Fence = strconv.FormatUint(uint64(s.Fence), 10)
		}
		if s.Kind == service.Ended {
			reply.Outcome = "accepted"
			if s.Err != nil {
				reply.Outcome = h.problemOf(s.Err)
			}
		}
		m.Steps = append(m.Steps, reply)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return ": internal error\n\n" // no value of a step can make the encoding fail
	}
	return fmt.Sprintf("id: %d\ndata: %s\n\n", steps[len(steps)-1].Number, data)
}
