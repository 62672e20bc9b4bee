package handler

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"example.com/stock/lock"
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

// livez says that the process runs. It asks no backend: a restart does not mend a database. The probes and the metrics
// ignore unknown parameters: a load balancer may add some.
func (h *handler) livez(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "alive"}) }

// readyz says whether a load balancer should send requests here: not while the instance drains, and not when it cannot
// sell in any way. A backend that is down disables its strategies, not the instance.
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
	canSell := slices.ContainsFunc(h.Strategies, func(s Strategy) bool { return s.err() == nil })
	if h.Profile == Shop {
		canSell = h.Orders != nil && h.Orders.Err() == nil
	}
	status, text := http.StatusOK, "ready"
	switch {
	case h.Draining():
		status, text = http.StatusServiceUnavailable, "draining"
	case !canSell:
		status, text = http.StatusServiceUnavailable, "no strategy is available"
		if h.Profile == Shop {
			text = "orders cannot be sold"
		}
	}
	c.JSON(status, gin.H{"status": text, "instance": h.Instance, "backends": backends})
}

type strategyReply struct {
	Name         string   `json:"name"`
	Endpoint     string   `json:"endpoint"`
	Summary      string   `json:"summary"`
	Stores       []string `json:"stores"`
	DefaultStore string   `json:"default_store"`
	Blocking     bool     `json:"blocking"`
	Available    bool     `json:"available"` // the lock's servers are up, and at least one store
	Reason       string   `json:"reason,omitempty"`
	// DownStores maps those of Stores that cannot be used now to the reason.
	DownStores map[string]string `json:"down_stores,omitempty"`
	Promise    promiseReply      `json:"promise"`
	// RoundTrips is their number to acquire and release the lock, uncontended; 0: there is no server to ask.
	RoundTrips int `json:"round_trips"`
}

type promiseReply struct {
	Exclusive   bool       `json:"exclusive"`
	Scope       lock.Scope `json:"scope"`
	Fenced      bool       `json:"fenced"`
	Fair        bool       `json:"fair"`
	Blocking    bool       `json:"blocking"`
	Reentrant   bool       `json:"reentrant"`
	SignalsLoss bool       `json:"signals_loss"`
	// FreedAfterCrash is the longest time in seconds from a holder's crash to the next holder; null: never.
	FreedAfterCrash *float64 `json:"freed_after_crash_seconds"`
}

// strategies lists the catalogue, weakest first, and says what cannot be used now and why.
func (h *handler) strategies(c *gin.Context) {
	if !h.noFields(c) {
		return
	}
	list := make([]strategyReply, len(h.Strategies))
	for i, s := range h.Strategies {
		list[i] = strategyReply{
			Name: s.Name, Endpoint: s.Endpoint, Summary: s.Summary, DefaultStore: s.Stores[0].Name,
			Blocking: s.Promise.Blocking, Promise: promiseOf(s.Promise), DownStores: make(map[string]string),
			RoundTrips: s.RoundTrips,
		}
		for _, store := range s.Stores {
			list[i].Stores = append(list[i].Stores, store.Name)
			if err := store.Backend.Err(); err != nil {
				list[i].DownStores[store.Name] = err.Error()
			}
		}
		if err := s.err(); err != nil {
			list[i].Reason = err.Error()
		} else {
			list[i].Available = true
		}
	}
	c.JSON(http.StatusOK, gin.H{"strategies": list})
}

func promiseOf(p lock.Promise) promiseReply {
	r := promiseReply{
		Exclusive: p.Exclusive, Scope: p.Scope, Fenced: p.Fenced, Fair: p.Fair,
		Blocking: p.Blocking, Reentrant: p.Reentrant, SignalsLoss: p.SignalsLoss,
	}
	if p.FreedAfterCrash != lock.Forever {
		seconds := p.FreedAfterCrash.Seconds()
		r.FreedAfterCrash = &seconds
	}
	return r
}

// err returns nil if s can sell from at least one store, and otherwise the reason why it cannot.
func (s Strategy) err() error {
	for _, b := range s.Needs {
		if err := b.Err(); err != nil {
			return err
		}
	}
	var err error
	for _, store := range s.Stores {
		if err = store.Backend.Err(); err == nil {
			return nil
		}
	}
	return err
}
