package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"example.com/stock/loadtest"
)

// shelfUnits is how much of one SKU there is. When it is sold out the lane goes on with another, so that the end of
// a stock is seen often, and a lost update is looked for among few orders.
const shelfUnits = 400

// A lane is one strategy on one store.
type lane struct {
	loadtest.Strategy
	store string

	next sync.Mutex // held while stock is put on a new shelf

	mu      sync.Mutex
	shelves []*shelf // the last is sold from
	count   int      // of names that were used
	asked   int
	sold    int
	last    time.Time // when the last request that sold was sent
}

// A shelf is one SKU.
type shelf struct {
	before  loadtest.Stock
	records []loadtest.Record
}

// open asks for the catalogue and makes a lane of every strategy, on every store, whose promise covers what is done
// here.
func (r *run) open(ctx context.Context) error {
	if err := r.fleet.ready(ctx); err != nil {
		return err
	}
	list, err := r.fleet.instances[0].client.Strategies(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		if why := unsuited(s); why != "" {
			r.report.LeftOut = append(r.report.LeftOut, LeftOut{s.Name, why})
			continue
		}
		for _, store := range s.Stores {
			if why := s.DownStores[store]; why != "" {
				return fmt.Errorf("store %s: %s", store, why)
			}
			l := &lane{Strategy: s, store: store}
			if err := r.stock(ctx, l, nil); err != nil {
				return err
			}
			r.lanes = append(r.lanes, l)
		}
	}
	if len(r.lanes) == 0 {
		return fmt.Errorf("no strategy is suited: %v", r.report.LeftOut)
	}
	return nil
}

// unsuited is why a strategy is left out; empty: it is not.
func unsuited(s loadtest.Strategy) string {
	switch {
	case s.Promise.Scope == loadtest.Nowhere:
		return "it promises no exclusion"
	case s.Promise.Scope != loadtest.Cluster:
		return "its promise ends with the process, and here several sell"
	case !s.Promise.Fenced:
		return "it has no fence, so it promises nothing once a holder is paused for longer than its lease"
	case !s.Available:
		return "it is not available: " + s.Reason
	}
	return ""
}

// stock opens a new shelf, unless another has done so since old. A name is used once: an attempt that seemed to
// fail may still set the stock anew when a paused instance goes on.
func (r *run) stock(ctx context.Context, l *lane, old *shelf) error {
	l.next.Lock()
	defer l.next.Unlock()
	if old != nil && l.shelf() != old {
		return nil
	}
	var failed error
	for attempt := 0; ; attempt++ {
		if ctx.Err() != nil {
			return fmt.Errorf("stock a shelf for %s on %s: %w (%v)", l.Name, l.store, context.Cause(ctx), failed)
		}
		l.count++
		sku := fmt.Sprintf("soak-%s-%s-%d", l.Name, l.store, l.count)
		within, cancel := context.WithTimeout(ctx, 3*time.Second)
		stock, err := r.fleet.instances[(l.count+attempt)%len(r.fleet.instances)].client.SetStock(
			within,
			l.store,
			sku,
			shelfUnits,
		)
		cancel()
		if err == nil {
			l.mu.Lock()
			l.shelves = append(l.shelves, &shelf{before: stock})
			l.mu.Unlock()
			return nil
		}
		failed = err
		_ = loadtest.Sleep(ctx, 200*time.Millisecond) // it ends early with ctx, which the caller looks at
	}
}

func (l *lane) shelf() *shelf {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.shelves) == 0 {
		return nil
	}
	return l.shelves[len(l.shelves)-1]
}

func (l *lane) add(s *shelf, record loadtest.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	record.Seq = l.asked
	s.records = append(s.records, record)
	if record.Outcome == loadtest.Accepted {
		l.sold++
		if record.SentAt.After(l.last) {
			l.last = record.SentAt
		}
	}
}

func (l *lane) progress() (sold, asked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sold, l.asked
}

// soldSince reports whether a request that was sent after t has sold.
func (l *lane) soldSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.After(t)
}

func (l *lane) all() []*shelf {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.shelves)
}

// customers is how many ask one instance for one strategy on one store, one request at a time each: two meet inside
// the instance, and they meet those of the others. They stay with their instance, or all of them would soon wait
// for one that is paused.
const customers = 2

// sellAll starts the customers, who ask until ctx ends. Each finishes its request.
func (r *run) sellAll(ctx context.Context, owned *sync.WaitGroup) {
	worker := 0
	for _, l := range r.lanes {
		for _, i := range r.fleet.instances {
			for range customers {
				worker++
				c := &customer{
					run:    r,
					lane:   l,
					from:   i,
					number: worker,
					dice:   rand.New(rand.NewPCG(r.Seed, uint64(worker))),
				}
				owned.Go(func() { c.buy(ctx) })
			}
		}
	}
}

// A customer asks one instance for one strategy on one store.
type customer struct {
	*run
	lane   *lane
	from   *instance
	number int
	dice   *rand.Rand
}

func (c *customer) buy(ctx context.Context) {
	for n := 1; loadtest.Sleep(ctx, time.Duration(100+c.dice.IntN(400))*time.Millisecond) == nil; n++ {
		shelf := c.lane.shelf()
		a := ask{
			endpoint: c.lane.Endpoint,
			store:    c.lane.store,
			sku:      shelf.before.SKU,
			id:       fmt.Sprintf("%x.%d.%d", c.Seed, c.number, n),
			quantity: 1 + c.dice.Int64N(3),
		}
		if c.dice.IntN(4) == 0 {
			// Now and then somebody is in the critical section for long enough to be hit there. Half of them do not
			// notice when the lease is lost: as a rule those who do write nothing too late, and the fence would
			// have nothing to do.
			a.hold = time.Duration(20+c.dice.IntN(180)) * time.Millisecond
			a.heedless = c.dice.IntN(2) == 0
		}
		record := loadtest.Record{
			Worker:    c.number,
			RequestID: a.id,
			Strategy:  c.lane.Name,
			Store:     a.store,
			SKU:       a.sku,
			Quantity:  a.quantity,
			SentAt:    c.now(),
		}
		record.Reply = c.from.seller.sell(context.WithoutCancel(ctx), a)
		record.DoneAt = c.now()
		c.lane.add(shelf, record)
		if record.Outcome == loadtest.SoldOut {
			// The error is ctx's: there is nothing to sell any more.
			_ = c.stock(ctx, c.lane, shelf)
		}
	}
}

// now is the start by the wall clock plus monotonic time, as in every history.
func (c *customer) now() time.Time { return c.began.Add(time.Since(c.began)) }
