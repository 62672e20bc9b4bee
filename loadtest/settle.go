package loadtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A settler makes it final whether an order exists. A target that has none is looked at when its stock is at rest, and
// may change its mind later.
type settler interface {
	Settle(ctx context.Context, store, sku, orderID string) error
}

// settleUnknown asks the target to decide every order of which it said that it does not know: what the accounts show of
// these is final then. It asks again while a server is down or nothing is decided, for comeback at most in all. What is
// left open is told by the accounts alone.
func settleUnknown(ctx context.Context, c Target, store string, records []Record) {
	s, can := c.(settler)
	if !can {
		return
	}
	var open []*Record
	for i := range records {
		if r := &records[i]; r.Outcome == Unknown && r.Problem == "outcome_unknown" && r.OrderID != "" {
			open = append(open, r)
		}
	}
	until := time.Now().Add(comeback)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(lookers, len(open)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(open)); i = next.Add(1) - 1 {
				for {
					err := s.Settle(ctx, store, open[i].SKU, open[i].OrderID)
					var problem *Problem
					later := errors.As(err, &problem) &&
						(problem.Name() == "backend_down" || problem.Name() == "undecided")
					if !later || time.Now().After(until) || Sleep(ctx, comeback/20) != nil {
						break
					}
				}
			}
		})
	}
	workers.Wait()
}
