package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"example.com/stock/loadtest"
)

// customers is how many ask one instance for one strategy on one store, one request at a time each: two meet inside the instance, and
// they meet those of the others. They stay with their instance, or all of them would soon wait for one that is paused.
const customers = 2

// sellAll starts the customers, who ask until ctx ends. Each finishes its request.
func (r *run) sellAll(ctx context.Context, owned *sync.WaitGroup) {
	worker := 0
	for _, l := range r.lanes {
		for _, i := range r.stand.instances {
			for range customers {
				worker++
				c := &customer{run: r, lane: l, from: i, number: worker, dice: rand.New(rand.NewPCG(r.Seed, uint64(worker)))}
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
	for n := 1; sleep(ctx, time.Duration(100+c.dice.IntN(400))*time.Millisecond); n++ {
		shelf := c.lane.shelf()
		a := ask{
			endpoint: c.lane.Endpoint, store: c.lane.store, sku: shelf.before.SKU, id: fmt.Sprintf("%x.%d.%d", c.Seed, c.number, n),
			quantity: 1 + c.dice.Int64N(3),
		}
		if c.dice.IntN(4) == 0 {
			// Now and then somebody is in the critical section for long enough to be hit there. Half of them do not notice when the lease is lost:
			// as a rule those who do write nothing too late, and the fence would have nothing to do.
			a.hold = time.Duration(20+c.dice.IntN(180)) * time.Millisecond
			a.heedless = c.dice.IntN(2) == 0
		}
		record := loadtest.Record{
			Worker: c.number, RequestID: a.id, Strategy: c.lane.Name, Store: a.store, SKU: a.sku, Quantity: a.quantity, SentAt: c.now(),
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
