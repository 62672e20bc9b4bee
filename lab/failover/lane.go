package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// A lane is one strategy on one store, for which requests come at a fixed rate.
type lane struct {
	strategy, store string
	target          *target

	mu     sync.Mutex
	done   bool
	result *loadtest.Result
	err    error
}

// lanes returns the lanes: for each kind of server at least one that needs it.
func lanes() []*lane {
	mysql, redis := string(server.MySQL), string(server.Redis)
	return []*lane{
		{strategy: "atomic", store: mysql},
		{strategy: "zk-sequential", store: mysql},
		{strategy: "atomic", store: redis},
		{strategy: "redis-watchdog", store: redis},
	}
}

// checkoutLane is the name of the shop in reports. Its store is MySQL.
const checkoutLane = "checkout"

func (l *lane) name() string { return l.strategy + "/" + l.store }

// sell sends requests until ctx ends, and judges them.
func (l *lane) sell(ctx context.Context) {
	result, err := loadtest.Run(ctx, l.target, loadtest.Plan{
		Strategy: l.strategy, Store: l.store, SKU: "failover-" + l.strategy, Stock: 1_000_000,
		Duration: 24 * time.Hour, Rate: loadtest.Rate{From: Rate, To: Rate}, Timeout: 10 * time.Second,
	}, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.result, l.err = true, result, err
}

// ended returns an error if the lane has ended.
func (l *lane) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done && l.err == nil {
		return errors.New(l.name() + " has ended early")
	}
	return l.err
}

// A target is a client that remembers when the latest request that sold was sent.
type target struct {
	*loadtest.Client
	mu   sync.Mutex
	last time.Time
}

// Deduct implements loadtest.Target.
func (t *target) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	sent := time.Now()
	reply := t.Client.Deduct(ctx, r)
	if reply.Outcome == loadtest.Accepted {
		t.mu.Lock()
		defer t.mu.Unlock()
		if sent.After(t.last) {
			t.last = sent
		}
	}
	return reply
}

func (t *target) soldSince(since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last.After(since)
}

// An attempt is what the time without sales is computed from.
type attempt struct {
	sent, done            time.Time
	sold, failed, unknown bool
	lost                  bool   // sold, and the store has no order of it
	problem               string // of one that failed
}

func (l *lane) attempts() (list []attempt) {
	orders := make(map[string]bool)
	for _, a := range l.result.Accounts {
		for i := range a.Orders {
			orders[a.Orders[i].OrderID] = true
		}
	}
	for i := range l.result.Records {
		r := &l.result.Records[i]
		a := attempt{
			sent: r.SentAt, done: r.DoneAt, sold: r.Outcome == loadtest.Accepted,
			failed: r.Outcome == loadtest.Failed, unknown: r.Outcome == loadtest.Unknown,
			problem: cmp.Or(r.Problem, r.Error),
		}
		a.lost = a.sold && !orders[r.OrderID]
		list = append(list, a)
	}
	return list
}

// visits returns the attempts of the shop's customers. What was refused for good reason is no failure, and no sale. A
// lost order is the judge's to find.
func visits(records []checkout.Record) (list []attempt) {
	for i := range records {
		r := &records[i]
		list = append(list, attempt{
			sent: r.SentAt, done: r.DoneAt, sold: r.Outcome == checkout.Done,
			failed: r.Outcome == checkout.Busy && r.Status >= 500, unknown: r.Outcome == checkout.Unknown,
			problem: cmp.Or(r.Problem, r.Error),
		})
	}
	return list
}

// during returns what happened between two moments: the longest time between two sales of which a part is in it, and
// the attempts that were sent in it.
func during(list []attempt, from, to time.Time) (g Gap) {
	g.Problems = make(map[string]int)
	var sales []time.Time
	for _, a := range list {
		if a.sold {
			sales = append(sales, a.done)
		}
		if a.sent.Before(from) || !a.sent.Before(to) {
			continue
		}
		g.Requests++
		switch {
		case a.failed:
			g.Failed++
			g.Problems[a.problem]++
		case a.unknown:
			g.Unknown++
			g.Problems[a.problem]++
		case a.lost:
			g.Lost++
		}
	}
	slices.SortFunc(sales, time.Time.Compare)
	for i := 1; i < len(sales); i++ {
		if before, after := sales[i-1], sales[i]; after.After(from) && before.Before(to) {
			g.LongestMS = max(g.LongestMS, ms(after.Sub(before)))
		}
	}
	return g
}
