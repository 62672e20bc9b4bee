package lab

import (
	"time"

	"example.com/stock/loadtest"
)

// A StrategyPromise is what a strategy promises, as the service reports it.
type StrategyPromise struct {
	loadtest.Promise
	Reentrant       bool     `json:"reentrant"`
	SignalsLoss     bool     `json:"signals_loss"`
	FreedAfterCrash *float64 `json:"freed_after_crash_seconds"` // nil: never
}

// Freed returns the longest time from a holder's crash to the next holder. ok is false if there is no limit.
func (p StrategyPromise) Freed() (d time.Duration, ok bool) {
	if p.FreedAfterCrash == nil {
		return 0, false
	}
	return time.Duration(*p.FreedAfterCrash * float64(time.Second)), true
}

// A Strategy is one entry of the service's catalogue, with its whole promise.
type Strategy struct {
	loadtest.Strategy
	Promise StrategyPromise `json:"promise"`
}
