package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// A lane is one strategy on one store. It is a [loadtest.Target] that outlives the faults: it sends requests to
// instances that answer, and reads stock and orders through one that does.
type lane struct {
	strategy, store string
	clients         []*loadtest.Client

	// Random: the customers come at this distance, several at once, and some sales take longer: see hold. 0: neither.
	burst time.Duration
	phase time.Time // of the bursts: those of all lanes at once would be one heavy load

	next atomic.Uint64 // number of the next client that is asked

	mu    sync.Mutex
	busy  []int // requests under way, by client
	asked int
	sold  int
	last  time.Time // when the latest request that sold was sent
}

func newLane(strategy, store string, clients []*loadtest.Client) *lane {
	return &lane{strategy: strategy, store: store, clients: clients, busy: make([]int, len(clients))}
}

func (l *lane) name() string { return l.strategy + "/" + l.store }

func (l *lane) client() *loadtest.Client { return l.clients[l.next.Add(1)%uint64(len(l.clients))] }

// URL implements loadtest.Target.
func (l *lane) URL() string { return l.clients[0].URL() }

// Strategies implements loadtest.Target.
func (l *lane) Strategies(ctx context.Context) (list []loadtest.Strategy, err error) {
	err = l.read(ctx, func(ctx context.Context, c *loadtest.Client) error {
		list, err = c.Strategies(ctx)
		return err
	})
	return list, err
}

// Deduct implements loadtest.Target.
func (l *lane) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	if l.burst > 0 {
		_ = sleep(ctx, l.burst-time.Since(l.phase)%l.burst) // Deduct says what ctx has ended
		r.Lab = hold()
	}
	i := l.least()
	sent := time.Now()
	reply := l.clients[i].Deduct(ctx, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[i]--
	l.asked++
	if reply.Outcome == loadtest.Accepted {
		l.sold++
		if sent.After(l.last) {
			l.last = sent
		}
	}
	return reply
}

// least returns the number of the client with the fewest requests under way, and counts one more. So an instance that
// is frozen has its share of the customers waiting, and not soon all of them.
func (l *lane) least() (i int) {
	first := int(l.next.Add(1)) // the next one of equals
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.busy {
		if other := (first + n) % len(l.busy); n == 0 || l.busy[other] < l.busy[i] {
			i = other
		}
	}
	l.busy[i]++
	return i
}

// hold makes every fourth request stay in the critical section long enough for a fault to hit it there. Half of these
// ignore a lost lease, because requests that heed it rarely give the fence a late write to refuse.
func hold() (o loadtest.LabOptions) {
	if rand.IntN(4) == 0 {
		o.Hold = time.Duration(20+rand.IntN(180)) * time.Millisecond
		o.IgnoreLoss = rand.IntN(2) == 0
	}
	return o
}

// soldSince reports whether a request that was sent after t has sold.
func (l *lane) soldSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.After(t)
}

func (l *lane) progress() (sold, asked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sold, l.asked
}

// askLimit bounds one question to an instance, which may be frozen.
const askLimit = 3 * time.Second

// SetStock implements loadtest.Target. It tries once: an attempt that seems to fail may set the stock when a frozen
// instance resumes, so the name of the SKU must not be used again.
func (l *lane) SetStock(ctx context.Context, store, sku string, quantity int64) (loadtest.Stock, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return l.client().SetStock(ctx, store, sku, quantity)
}

// Stock implements loadtest.Target.
func (l *lane) Stock(ctx context.Context, store, sku string) (stock loadtest.Stock, err error) {
	err = l.read(ctx, func(ctx context.Context, c *loadtest.Client) error {
		stock, err = c.Stock(ctx, store, sku)
		return err
	})
	return stock, err
}

// Orders implements loadtest.Target.
func (l *lane) Orders(ctx context.Context, store, sku string) (list []loadtest.Order, err error) {
	err = l.read(ctx, func(ctx context.Context, c *loadtest.Client) error {
		list, err = c.Orders(ctx, store, sku)
		return err
	})
	return list, err
}

// Settle decides an order whose outcome is unknown.
func (l *lane) Settle(ctx context.Context, store, sku, orderID string) error {
	return l.read(ctx, func(ctx context.Context, c *loadtest.Client) error {
		return c.Settle(ctx, store, sku, orderID)
	})
}

// read asks one instance after the other until one answers. A server may be down for longer than loadtest.Run waits for
// it, and what cannot be read cannot be judged, so the limit is patience, whatever that of ctx.
func (l *lane) read(ctx context.Context, ask func(context.Context, *loadtest.Client) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for {
		within, stop := context.WithTimeout(ctx, askLimit)
		err := ask(within, l.client())
		stop()
		var problem *loadtest.Problem
		if err == nil || errors.As(err, &problem) && problem.Status < 500 || !sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// The load of a lane in turns. A turn has a SKU of its own with few units, and ends when they are sold: the end of a
// stock is tested often, a lost update is searched for among few orders, and it is known soon. Customers come several
// at once to each instance, so that they compete, and merged has requests to merge. The next request of a customer
// follows the reply to the last one: requests at a fixed rate would bury a computer that is busy otherwise.
const (
	turn          = 10 * time.Second
	unitsInTurn   = 120
	burst         = 500 * time.Millisecond
	customersEach = 3 // for each instance
)

// sellInTurns sells one SKU after the other until ctx ends, and calls judged, from any goroutine, with the result of
// each. A SKU is judged while the next one is sold.
func (l *lane) sellInTurns(ctx context.Context, seed uint64, judged func(*loadtest.Result)) {
	var turns sync.WaitGroup
	for n := 1; ctx.Err() == nil; n++ {
		current, soldOut := context.WithTimeout(ctx, turn)
		turns.Go(func() {
			for try := 1; ctx.Err() == nil; try++ {
				sku := fmt.Sprintf("soak-%s-%s-%d-%d", l.strategy, l.store, n, try)
				if result, err := l.sellOne(ctx, sku, seed+uint64(n), soldOut); err == nil {
					judged(result)
					return
				}
				_ = sleep(ctx, 200*time.Millisecond) // the stock could not be set: no server was up
			}
		})
		<-current.Done()
		soldOut()
	}
	turns.Wait()
}

// sellOne sells one SKU for a turn, or until it is sold out, and judges it.
func (l *lane) sellOne(ctx context.Context, sku string, seed uint64, soldOut func()) (*loadtest.Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return loadtest.Run(ctx, l, loadtest.Plan{
		Strategy: l.strategy, Store: l.store, SKU: sku, Stock: unitsInTurn, Quantities: []int64{1, 2, 3}, Seed: seed,
		Duration: turn, Concurrency: customersEach * len(l.clients), Timeout: replyLimit + burst,
		Recheck: new(time.Duration), // nothing here takes an order back
	}, func(p loadtest.Progress) {
		if p.Outcomes[loadtest.SoldOut] > 0 {
			stop()
			soldOut()
		}
	})
}

// rest is how long a stock must stay unchanged before it is judged again: a request that its customer gave up may still
// be running in an instance.
const rest = time.Second

// judgeAgain reads what a turn has sold once more, when all servers are up, and judges it.
func (l *lane) judgeAgain(ctx context.Context, turn *loadtest.Result) error {
	for i := range turn.Accounts {
		a := &turn.Accounts[i]
		stock, err := l.Stock(ctx, l.store, a.Before.SKU)
		for same := false; err == nil && !same; {
			if err := loadtest.Sleep(ctx, rest); err != nil {
				return err
			}
			if a.Orders, err = l.Orders(ctx, l.store, a.Before.SKU); err == nil {
				before := stock
				stock, err = l.Stock(ctx, l.store, a.Before.SKU)
				same = stock.Version == before.Version && stock.Epoch == before.Epoch
			}
		}
		if err != nil {
			return err
		}
		a.After, a.Complete, a.Gap = &stock, true, words.Text{}
	}
	turn.Verdict = loadtest.Judge(loadtest.Evidence{
		Records: turn.Records, Accounts: turn.Accounts, Promise: turn.Strategy.Promise,
	})
	return nil
}
