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

func (h *handler) version(c *gin.Context) error {
	c.JSON(http.StatusOK, h.Version)
	return nil
}

type backendReply struct {
	Up        bool    `json:"up"`
	Reason    string  `json:"reason,omitempty"`
	Warning   string  `json:"warning,omitempty"`
	Server    string  `json:"server,omitempty"`
	LatencyMS float64 `json:"latency_ms"`
}

// A storeReply has the number of strategies that can sell from a store now.
type storeReply struct {
	Sells      bool   `json:"sells"`
	Strategies int    `json:"strategies"`
	Of         int    `json:"of"`
	Reason     string `json:"reason,omitempty"`
	// Denied maps each strategy that a server does not permit to what it does not permit.
	Denied map[string]string `json:"denied,omitempty"`
}

// livez reports that the process runs. It checks no backend, because a restart does not repair a database. The probes
// and the metrics ignore unknown parameters, which load balancers may add.
func (h *handler) livez(c *gin.Context) error {
	c.JSON(http.StatusOK, gin.H{"status": "alive"})
	return nil
}

// readyz reports whether a load balancer should send requests here. It fails while the instance drains, and while it
// cannot sell to a request that names no store. A backend that is down makes its strategies unusable, not the whole
// instance.
func (h *handler) readyz(c *gin.Context) error {
	backends := make(map[string]backendReply)
	for _, server := range h.Backends {
		reply := backendReply{Up: true, Server: server.Server(), LatencyMS: milliseconds(server.Latency())}
		if err := server.Err(); err != nil {
			reply.Up, reply.Reason = false, words.Of(err, Said).EN
		} else if warning := server.Warning(); warning != nil {
			reply.Warning = warning.Error()
		}
		backends[server.Name()] = reply
	}
	status, text := http.StatusOK, "ready"
	stores, reason := h.unready()
	if reason != "" {
		status, text = http.StatusServiceUnavailable, reason
	}
	c.JSON(status, gin.H{"status": text, "instance": h.Instance, "backends": backends, "stores": stores})
	return nil
}

// unready returns what can be sold from each store, and why the instance is not ready, or "".
func (h *handler) unready() (stores map[string]storeReply, why string) {
	stores, why = h.sells()
	if h.Draining() {
		why = "draining"
	}
	return stores, why
}

// metrics replies with the metrics. Prometheus asks here and not at /readyz, so the reply also says whether the
// instance is ready.
func (h *handler) metrics(c *gin.Context) error {
	_, why := h.unready()
	h.Meter.Ready(why == "")
	h.Metrics.ServeHTTP(c.Writer, c.Request)
	return nil
}

// servers returns what servers report about themselves, by name of the server, without those that report nothing.
func (h *handler) servers() map[string]string {
	servers := make(map[string]string)
	for _, server := range h.Backends {
		if about := server.Server(); about != "" {
			servers[server.Name()] = about
		}
	}
	return servers
}

// milliseconds returns d in milliseconds, with three decimals.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
