package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"example.com/stock/loadtest"
)

// A Promise is what a strategy promises, as the service tells it.
type Promise struct {
	loadtest.Promise
	Reentrant       bool     `json:"reentrant"`
	SignalsLoss     bool     `json:"signals_loss"`
	FreedAfterCrash *float64 `json:"freed_after_crash_seconds"` // nil: never
}

// Freed returns the longest time from a holder's crash to the next holder. ok is false if that may never be.
func (p Promise) Freed() (d time.Duration, ok bool) {
	if p.FreedAfterCrash == nil {
		return 0, false
	}
	return time.Duration(*p.FreedAfterCrash * float64(time.Second)), true
}

// A Strategy is one line of the service's catalogue, with all that the promise says.
type Strategy struct {
	loadtest.Strategy
	Promise Promise `json:"promise"`
}

// catalogue asks an instance for its strategies.
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
