package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// unitsPerSKU is the stock of one SKU. When it is sold out, the subject continues with a new SKU. So the end of a stock
// is tested often, and a lost update is searched for among few orders.
const unitsPerSKU = 400

// A subject is one strategy on one store, which the soak tests.
type subject struct {
	loadtest.Strategy
	store string

	next sync.Mutex // held while a new item is stocked

	mu    sync.Mutex
	items []*item // the last one is for sale
	count int     // number of SKU names used
	asked int
	sold  int
	last  time.Time // when the latest request that sold was sent
}

// An item is one SKU.
type item struct {
	before  loadtest.Stock
	records []loadtest.Record
}

// open reads the catalogue, and makes a subject of every strategy and store whose promise covers the faults of the
// soak.
func (r *run) open(ctx context.Context) error {
	if err := r.fleet.ready(ctx); err != nil {
		return err
	}
	list, err := r.fleet.instances[0].client.Strategies(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		if why := unsuited(s); why != (words.Text{}) {
			r.report.LeftOut = append(r.report.LeftOut, LeftOut{s.Name, why})
			continue
		}
		for _, store := range s.Stores {
			if why := s.DownStores[store]; why != "" {
				return fmt.Errorf("store %s: %s", store, why)
			}
			l := &subject{Strategy: s, store: store}
			if err := r.stock(ctx, l, nil); err != nil {
				return err
			}
			r.subjects = append(r.subjects, l)
		}
	}
	if len(r.subjects) == 0 {
		return fmt.Errorf("no strategy is suited: %v", r.report.LeftOut)
	}
	return nil
}

// unsuited returns why a strategy is left out, or an empty text if it is tested.
func unsuited(s loadtest.Strategy) words.Text {
	switch {
	case s.Promise.Scope == loadtest.Nowhere:
		return say("unsuited.no-exclusion")
	case s.Promise.Scope != loadtest.Cluster:
		return say("unsuited.process")
	case !s.Promise.Fenced:
		return say("unsuited.unfenced")
	case !s.Available:
		return say("unsuited.absent", "why", s.Reason)
	}
	return words.Text{}
}

// stock puts a new item in stock, unless another customer has done so since old. It uses each SKU name once, because an
// attempt that seemed to fail may still set the stock when a paused instance resumes.
func (r *run) stock(ctx context.Context, l *subject, old *item) error {
	l.next.Lock()
	defer l.next.Unlock()
	if old != nil && l.current() != old {
		return nil
	}
	var failed error
	for attempt := 0; ; attempt++ {
		if ctx.Err() != nil {
			return fmt.Errorf("put an item in stock for %s on %s: %w (%v)", l.Name, l.store, context.Cause(ctx), failed)
		}
		l.count++
		sku := fmt.Sprintf("soak-%s-%s-%d", l.Name, l.store, l.count)
		within, cancel := context.WithTimeout(ctx, 3*time.Second)
		stock, err := r.fleet.instances[(l.count+attempt)%len(r.fleet.instances)].client.SetStock(
			within, l.store, sku, unitsPerSKU,
		)
		cancel()
		if err == nil {
			l.mu.Lock()
			l.items = append(l.items, &item{before: stock})
			l.mu.Unlock()
			return nil
		}
		failed = err
		_ = loadtest.Sleep(ctx, 200*time.Millisecond) // returns early if ctx ends, which the caller checks
	}
}

func (l *subject) current() *item {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.items) == 0 {
		return nil
	}
	return l.items[len(l.items)-1]
}

func (l *subject) add(s *item, record loadtest.Record) {
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

func (l *subject) progress() (sold, asked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sold, l.asked
}

// soldSince reports whether a request that was sent after t has sold.
func (l *subject) soldSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.After(t)
}

func (l *subject) all() []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

// customers is the number of customers of each instance for each subject. They compete with each other and with those
// of the other instances. Each sends one request at a time, and sometimes a family of them. A customer keeps its
// instance; otherwise all would soon wait for a paused one.
const customers = 2

// family is the number of requests that a customer sometimes sends at once, so that merged has requests to
// merge.
const family = 5

// sellAll starts the customers, which buy until ctx ends and then finish their requests.
func (r *run) sellAll(ctx context.Context, owned *sync.WaitGroup) {
	worker := 0
	for _, l := range r.subjects {
		for _, i := range r.fleet.instances {
			for range customers {
				worker++
				c := &customer{
					run:     r,
					subject: l,
					from:    i,
					number:  worker,
					dice:    rand.New(rand.NewPCG(r.Seed, uint64(worker))),
				}
				owned.Go(func() { c.buy(ctx) })
			}
		}
	}
}

// A customer buys one subject from one instance.
type customer struct {
	*run
	subject *subject
	from    *instance
	number  int
	dice    *rand.Rand
}

func (c *customer) buy(ctx context.Context) {
	for n := 1; loadtest.Sleep(ctx, time.Duration(100+c.dice.IntN(400))*time.Millisecond) == nil; {
		item, most := c.subject.current(), 1
		if c.dice.IntN(8) == 0 {
			most = family
		}
		var all sync.WaitGroup
		var soldOut atomic.Bool
		for ; most > 0; most-- {
			a := c.request(item, n)
			n++
			all.Go(func() {
				if c.send(ctx, item, a) == loadtest.SoldOut {
					soldOut.Store(true)
				}
			})
		}
		all.Wait()
		if soldOut.Load() {
			// It fails only if ctx has ended, and then the sale is over.
			_ = c.stock(ctx, c.subject, item)
		}
	}
}

// request returns the n-th request of the customer.
func (c *customer) request(item *item, n int) loadtest.Request {
	a := loadtest.Request{
		Endpoint:  c.subject.Endpoint,
		Store:     c.subject.store,
		SKU:       item.before.SKU,
		RequestID: fmt.Sprintf("%x.%d.%d", c.Seed, c.number, n),
		Quantity:  1 + c.dice.Int64N(3),
	}
	if c.dice.IntN(4) == 0 {
		// Sometimes a request stays in the critical section long enough for a fault to hit it there. Half of these
		// ignore a lost lease, because requests that heed it rarely give the fence a late write to refuse.
		a.Lab.Hold = time.Duration(20+c.dice.IntN(180)) * time.Millisecond
		a.Lab.IgnoreLoss = c.dice.IntN(2) == 0
	}
	return a
}

// send sends a request, and records the result.
func (c *customer) send(ctx context.Context, item *item, a loadtest.Request) loadtest.Outcome {
	record := loadtest.Record{
		Worker:    c.number,
		RequestID: a.RequestID,
		Strategy:  c.subject.Name,
		Store:     a.Store,
		SKU:       a.SKU,
		Quantity:  a.Quantity,
		SentAt:    c.now(),
	}
	record.Reply = c.ask(context.WithoutCancel(ctx), a)
	record.DoneAt = c.now()
	c.subject.add(item, record)
	return record.Outcome
}

// replyLimit is how long a customer waits for a reply. It exceeds the wait and work limits of the instances and most
// pauses.
const replyLimit = 12 * time.Second

func (c *customer) ask(ctx context.Context, r loadtest.Request) loadtest.Reply {
	ctx, cancel := context.WithTimeoutCause(ctx, replyLimit, fmt.Errorf("nothing came for %v", replyLimit))
	defer cancel()
	return c.from.client.Deduct(ctx, r)
}

// now returns the wall clock at the start plus the monotonic time since then, as in every history.
func (c *customer) now() time.Time { return c.began.Add(time.Since(c.began)) }
