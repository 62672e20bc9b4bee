package handler

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

type lockReply struct {
	Strategy string         `json:"strategy"`
	Key      string         `json:"key"`
	Scope    driver.Scope   `json:"scope"`
	Segments []segmentReply `json:"segments,omitempty"`
	stateReply
}

type segmentReply struct {
	Segment int    `json:"segment"`
	Key     string `json:"key"`
	stateReply
}

type stateReply struct {
	Holder  *contenderReply  `json:"holder"`
	Waiters []contenderReply `json:"waiters"`
}

// A contenderReply is a holder or a waiter. Unknown members are omitted.
type contenderReply struct {
	Who         string     `json:"who"`
	Instance    string     `json:"instance,omitempty"`
	RequestID   string     `json:"request_id,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	SinceMS     *float64   `json:"since_ms,omitempty"` // how long ago
	RemainingMS *float64   `json:"remaining_ms,omitempty"`
	Fence       lock.Fence `json:"fence,omitempty"`
}

type evictionReply struct {
	Strategy string            `json:"strategy"`
	Key      string            `json:"key"`
	Fence    lock.Fence        `json:"fence"`
	Evicted  *contenderReply   `json:"evicted"`
	Stores   map[string]string `json:"stores"` // "raised", or the type of the problem
}

func (h *handler) getLock(c *gin.Context) error {
	strategy, key := c.Param("strategy"), c.Param("key")
	s, err := h.Service.Lock(c.Request.Context(), strategy, key)
	if err != nil {
		return err
	}
	scope := driver.Cluster
	if s.Local {
		scope = driver.Process
	}
	reply := lockReply{Strategy: strategy, Key: key, Scope: scope, stateReply: stateOf(s.State)}
	for _, part := range s.Segments {
		reply.Segments = append(reply.Segments, segmentReply{part.Segment, part.Key, stateOf(part.State)})
	}
	c.JSON(http.StatusOK, reply)
	return nil
}

func stateOf(s lock.State) stateReply {
	reply := stateReply{Waiters: make([]contenderReply, len(s.Waiters))}
	if s.Holder != nil {
		reply.Holder = contenderOf(*s.Holder)
	}
	for i, w := range s.Waiters {
		reply.Waiters[i] = *contenderOf(w)
	}
	return reply
}

func (h *handler) deleteLock(c *gin.Context) error {
	strategy, key := c.Param("strategy"), c.Param("key")
	e, err := h.Service.Evict(c.Request.Context(), strategy, key)
	if err != nil {
		return err
	}
	reply := evictionReply{Strategy: strategy, Key: key, Fence: e.Fence, Stores: make(map[string]string)}
	who := ""
	if e.Holder != nil {
		reply.Evicted, who = contenderOf(*e.Holder), e.Holder.Who
	}
	for store, err := range e.Stores {
		reply.Stores[store] = "raised"
		if err != nil {
			reply.Stores[store] = h.problemOf(err)
		}
	}
	h.Log.WarnContext(c, "lock holder evicted", "strategy", strategy, "key", key, "who", who, "fence", e.Fence,
		"stores", reply.Stores, "request_id", requestID(c))
	c.JSON(http.StatusOK, reply)
	return nil
}

// longestWho is how many bytes of a holder's name are shown, because any client of the lock server may have written
// it.
const longestWho = 200

func contenderOf(k lock.Contender) *contenderReply {
	who := strings.ToValidUTF8(k.Who[:min(len(k.Who), longestWho)], "")
	r := &contenderReply{Who: who, Fence: k.Fence}
	if at := strings.LastIndexByte(who, '/'); at >= 0 {
		r.Instance, r.RequestID = who[:at], who[at+1:]
	}
	if !k.Since.IsZero() {
		since, age := k.Since.UTC(), milliseconds(max(time.Since(k.Since), 0))
		r.Since, r.SinceMS = &since, &age
	}
	if k.Remaining > 0 && k.Remaining != driver.Forever {
		left := milliseconds(k.Remaining)
		r.RemainingMS = &left
	}
	return r
}
