package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/internal/words"
)

// Version is the reply of /version.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Instance string `json:"instance"`
}

func (h *handler) version(c *gin.Context) {
	if h.noFields(c) {
		c.JSON(http.StatusOK, h.Version)
	}
}

type backendReply struct {
	Up        bool    `json:"up"`
	Reason    string  `json:"reason,omitempty"`
	Warning   string  `json:"warning,omitempty"`
	LatencyMS float64 `json:"latency_ms"`
}

// A storeReply says how many strategies can sell from a store now.
type storeReply struct {
	Sells      bool   `json:"sells"`
	Strategies int    `json:"strategies"`
	Of         int    `json:"of"`
	Reason     string `json:"reason,omitempty"`
}

// livez says that the process runs. It asks no backend: a restart does not mend a database. The probes and the metrics
// ignore unknown parameters: a load balancer may add some.
func (h *handler) livez(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "alive"}) }

// readyz says whether a load balancer should send requests here: not while the instance drains, and not while it cannot
// sell what a request without a choice asks for. A backend that is down disables its strategies, not the instance.
func (h *handler) readyz(c *gin.Context) {
	backends := make(map[string]backendReply)
	for _, b := range h.Backends {
		reply := backendReply{Up: true, LatencyMS: milliseconds(b.Latency())}
		if err := b.Err(); err != nil {
			reply.Up, reply.Reason = false, words.Of(err, Said).EN
		} else if warning := b.Warning(); warning != nil {
			reply.Warning = warning.Error()
		}
		backends[b.Name()] = reply
	}
	status, text := http.StatusOK, "ready"
	stores, reason := h.sells()
	if h.Draining() {
		status, text = http.StatusServiceUnavailable, "draining"
	} else if reason != "" {
		status, text = http.StatusServiceUnavailable, reason
	}
	reply := gin.H{"status": text, "instance": h.Instance, "backends": backends}
	if stores != nil {
		reply["stores"] = stores
	}
	c.JSON(status, reply)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
