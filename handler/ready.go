package handler

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"
)

// Version is what /version tells of the binary.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Instance string `json:"instance"`
}

func (h *handler) version(c *gin.Context) {
	if h.plain(c) {
		c.JSON(http.StatusOK, h.Version)
	}
}

type backendReply struct {
	Up        bool    `json:"up"`
	Reason    string  `json:"reason,omitempty"`
	Warning   string  `json:"warning,omitempty"`
	LatencyMS float64 `json:"latency_ms"`
}

// livez says that the process runs. It asks no backend: a restart does not mend a database. The probes and the metrics
// let unknown parameters pass: who asks them may be a load balancer that adds some.
func (h *handler) livez(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "alive"}) }

// readyz says whether a load balancer should send requests here: not while draining, and not when nothing at all could be sold.
// A backend that is down disables its strategies, not the instance.
func (h *handler) readyz(c *gin.Context) {
	backends := make(map[string]backendReply)
	for _, b := range h.Backends {
		reply := backendReply{Up: true, LatencyMS: milliseconds(b.Latency())}
		if err := b.Err(); err != nil {
			reply.Up, reply.Reason = false, err.Error()
		} else if warning := b.Warning(); warning != nil {
			reply.Warning = warning.Error()
		}
		backends[b.Name()] = reply
	}
	able := slices.ContainsFunc(h.Strategies, func(s Strategy) bool { return s.err() == nil })
	status, text := http.StatusOK, "ready"
	switch {
	case h.Draining():
		status, text = http.StatusServiceUnavailable, "draining"
	case !able:
		status, text = http.StatusServiceUnavailable, "no strategy is available"
	}
	c.JSON(status, gin.H{"status": text, "instance": h.Instance, "backends": backends})
}
