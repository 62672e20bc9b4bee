package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// A Promise is what a strategy promises, as the service tells it.
type Promise struct {
	Exclusive       bool     `json:"exclusive"`
	Scope           string   `json:"scope"` // none, process, cluster
	Fenced          bool     `json:"fenced"`
	Fair            bool     `json:"fair"`
	Blocking        bool     `json:"blocking"`
	Reentrant       bool     `json:"reentrant"`
	SignalsLoss     bool     `json:"signals_loss"`
	FreedAfterCrash *float64 `json:"freed_after_crash_seconds"` // nil: never
}

// The scopes.
const (
	nowhere = "none"
	process = "process"
	cluster = "cluster"
)

// Freed is the longest time from a holder's crash to the next holder. ok is false if that may never be.
func (p Promise) Freed() (d time.Duration, ok bool) {
	if p.FreedAfterCrash == nil {
		return 0, false
	}
	return time.Duration(*p.FreedAfterCrash * float64(time.Second)), true
}

// A Strategy is one line of the service's catalogue.
type Strategy struct {
	Name         string            `json:"name"`
	Endpoint     string            `json:"endpoint"`
	Stores       []string          `json:"stores"`
	DefaultStore string            `json:"default_store"`
	Available    bool              `json:"available"`
	Reason       string            `json:"reason"`
	DownStores   map[string]string `json:"down_stores"`
	Promise      Promise           `json:"promise"`
}

// catalogue asks an instance what there is.
func catalogue(ctx context.Context, url string) (map[string]Strategy, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/strategies", http.NoBody)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var reply struct{ Strategies []Strategy }
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return nil, fmt.Errorf("decode /v1/strategies: %w", err)
	}
	byName := make(map[string]Strategy)
	for _, s := range reply.Strategies {
		byName[s.Name] = s
	}
	return byName, nil
}

// excludes is the forecast for two buyers of the last unit on two instances: it follows from how far exclusion reaches.
func excludes(p Promise, otherwise Outcome) Forecast {
	if p.Scope == cluster {
		return Forecast{Outcome: otherwise, From: "scope: cluster"}
	}
	return Forecast{Outcome: Oversells, From: "scope: " + p.Scope}
}
