package report_test

import (
	"fmt"
	"time"

	"example.com/stock/loadtest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// A stay is one accepted request: when it asked, entered and left, in milliseconds, and the version it read.
type stay struct {
	worker          int
	asked, from, to float64
	version         uint64
	segment         int
	instance        string // empty: app-1, app-2 and app-3 in turn
	batch           *loadtest.Batch
}

// ran returns a run of a strategy with that scope, made of the stays.
func ran(strategy, scope string, exclusive bool, stays ...stay) *loadtest.Result {
	at := func(ms float64) time.Time { return noon.Add(time.Duration(ms * float64(time.Millisecond))) }
	before := loadtest.Stock{SKU: "pen", Store: "redis", Quantity: 1000, Initial: 1000, Version: 1, Epoch: 1}
	h := &loadtest.History{Header: loadtest.Header{
		Format: loadtest.Format, Version: loadtest.Version, Run: "load-x", Target: "http://localhost", StartedAt: noon,
		Before: []loadtest.Stock{before},
		Plan: loadtest.Plan{
			Strategy: strategy, Store: "redis", SKU: "pen", Stock: 1000, Requests: len(stays), Concurrency: 30,
		},
		Strategy: loadtest.Strategy{Name: strategy, Promise: loadtest.Promise{Scope: scope, Exclusive: exclusive}},
	}}
	after := before
	for i, s := range stays {
		if s.instance == "" {
			s.instance = fmt.Sprintf("app-%d", i%3+1)
		}
		read := before.Quantity - int64(s.version-1)
		r := loadtest.Record{
			Seq: i + 1, Worker: s.worker, RequestID: fmt.Sprintf("load-x-%d", i+1), Strategy: strategy, Store: "redis",
			SKU: "pen", Quantity: 1, SentAt: at(s.asked), DoneAt: at(s.to + 0.5),
		}
		r.Outcome, r.Status, r.OrderID, r.Instance = loadtest.Accepted, 200, fmt.Sprintf("o%d", i+1), s.instance
		r.Receipt = &loadtest.Receipt{
			Read: read, Remaining: read - 1, Version: s.version, Epoch: 1, Segment: s.segment, Batch: s.batch,
			WaitedMS: s.from - s.asked, HeldMS: s.to - s.from, AcquiredAt: at(s.from), ReleasedAt: at(s.to),
		}
		h.Records = append(h.Records, r)
		h.Orders = append(h.Orders, loadtest.Order{
			OrderID: r.OrderID, SKU: "pen", Quantity: 1, Read: read, Remaining: read - 1, Version: s.version, Epoch: 1,
			Instance: r.Instance, RequestID: r.RequestID, Segment: s.segment, CreatedAt: r.ReleasedAt,
		})
		after.Quantity, after.Version = read-1, s.version+1
		after.Sold++
	}
	h.End = &loadtest.End{Stocks: []loadtest.Closing{{SKU: "pen", After: &after, Complete: true}}}
	return h.Result()
}

// lossy returns a race of n requests from 30 workers, half of which overwrite another.
func lossy(n int) *loadtest.Result {
	stays := make([]stay, n)
	for i := range stays {
		from := float64(i/2) * 1.5
		stays[i] = stay{
			worker:  i%30 + 1,
			asked:   from - 0.3,
			from:    from + float64(i%2)*0.4,
			to:      from + 1,
			version: uint64(i/2 + 1),
		}
	}
	return ran("none", loadtest.Nowhere, false, stays...)
}
