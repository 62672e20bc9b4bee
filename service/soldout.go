package service

import (
	"context"
	"math"
	"time"

	"example.com/stock/internal/batching"
)

// A soldOut refuses sales of SKUs that are sold out, without a lock or a transaction. Waiting sales share one read of
// the store. In a flash sale most requests are of that kind.
//
// It is no cache. What it remembers of a stock is only a hint that a read may be enough; the read that refuses a sale
// begins after the sale has arrived. So a sale that arrives after a restock is made. Refusing without the lock is
// correct, because the stock was too small at a moment during the request, and nothing is written.
//
// A wrong hint costs a read. If the read does not refuse the sale, the strategy decides.
type soldOut struct {
	work  time.Duration                    // half of the bound of a read
	left  *memory[stockKey, int64]         // units, when a sale was refused or the stock was read last
	reads *batching.Queues[stockKey, seen] // each batch of sales shares a read
}

type stockKey struct {
	store Shop // comparable
	sku   SKU
}

// A seen is what a waiting sale gets of the read that it shares.
type seen struct {
	needs []Dependency
	stock Stock
	err   error
}

func newSoldOut(work time.Duration) *soldOut {
	r := &soldOut{work: work, left: newMemory[stockKey, int64](maxSoldOut)}
	r.reads = batching.New(math.MaxInt, math.MaxInt, r.read)
	return r
}

// refuse returns a SoldOutError, or the error of the read. If it returns nil, the sale must be tried. It also returns
// nil when ctx ends, because the strategy reports that in its own way. The read is canceled when the store goes down or
// loses its data.
func (r *soldOut) refuse(ctx context.Context, d *deduction) error {
	left, known := r.left.get(d.stock)
	if !known || left >= d.Quantity {
		return nil
	}
	now, err := r.reads.Do(ctx, d.stock, seen{needs: d.backing})
	switch {
	case err != nil:
		return nil
	case now.err != nil:
		return overdue(now.err)
	}
	if now.stock.Quantity != left {
		r.left.put(d.stock, now.stock.Quantity)
	}
	if now.stock.Quantity >= d.Quantity || now.stock.Guard != "" && now.stock.Guard != d.Strategy {
		return nil // if another strategy guards the stock, the store refuses the sale with a GuardError
	}
	return &SoldOutError{now.stock.Quantity}
}

// read reads the store for all sales that wait. Its ctx does not derive from that of a sale, which could end while
// others wait.
func (r *soldOut) read(of stockKey, waiting []*seen) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*r.work)
	defer cancel()
	ctx, done := While(ctx, waiting[0].needs...)
	defer done()
	stock, err := of.store.Read(ctx, of.sku)
	for _, w := range waiting {
		w.stock, w.err = stock, err
	}
}
