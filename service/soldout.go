package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
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
	work time.Duration // half of the bound of a read

	mu   sync.Mutex
	last map[stockKey]*soldOutStock
}

type stockKey struct {
	store Store // comparable
	sku   SKU
}

// A soldOutStock is a stock that was too small for a sale.
type soldOutStock struct {
	left int64       // when it was read last
	next *sharedRead // the next read; nil: no sale waits for one
	busy bool        // a read is under way
}

// A sharedRead is one read of a store for all waiting sales. They use its fields after done is closed.
type sharedRead struct {
	done     chan struct{}
	stock    Stock
	err      error
	panicked any
}

// maxLeft is the most stocks that are remembered. If one is forgotten, the strategy refuses its next sale.
const maxLeft = 1024

func newSoldOut(work time.Duration) *soldOut {
	return &soldOut{work: work, last: make(map[stockKey]*soldOutStock)}
}

// refuse returns a SoldOutError, or the error of the read. If it returns nil, the sale must be tried. It also returns
// nil when ctx ends, because the strategy reports that in its own way. The read is canceled when one of needs goes
// down.
func (r *soldOut) refuse(
	ctx context.Context, key stockKey, needs []Dependency, strategy string, quantity int64,
) error {
	l, short := r.join(key, needs, quantity)
	if !short {
		return nil
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil
	}
	switch {
	case l.panicked != nil:
		panic(l.panicked)
	case l.err != nil:
		return overdue(l.err)
	case l.stock.Quantity >= quantity, l.stock.Guard != "" && l.stock.Guard != strategy:
		return nil // if another strategy guards the stock, the store refuses the sale with a GuardError
	}
	return &SoldOutError{l.stock.Quantity}
}

// join returns the next read of a stock. short is false if the stock may have enough; then there is no read.
func (r *soldOut) join(key stockKey, needs []Dependency, quantity int64) (next *sharedRead, short bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.last[key]
	if !known || l.left >= quantity {
		return nil, false
	}
	if l.next == nil {
		l.next = &sharedRead{done: make(chan struct{})}
	}
	next = l.next
	if !l.busy {
		l.busy = true
		go r.serve(key, l, needs) // it ends when no sale waits; each read has a time limit
	}
	return next, true
}

// serve reads as long as sales wait.
func (r *soldOut) serve(key stockKey, l *soldOutStock, needs []Dependency) {
	for {
		r.mu.Lock()
		at := l.next
		l.next, l.busy = nil, at != nil
		r.mu.Unlock()
		if at == nil {
			return
		}
		at.read(key, needs, 2*r.work)
		if at.err == nil && at.panicked == nil {
			r.mu.Lock()
			l.left = at.stock.Quantity
			r.mu.Unlock()
		}
		close(at.done)
	}
}

// read reads the store. Its ctx does not derive from that of a sale, which could end while others wait. After a
// panic, all waiting sales panic.
func (l *sharedRead) read(key stockKey, needs []Dependency, most time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			l.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	ctx, done := While(ctx, needs...)
	defer done()
	l.stock, l.err = key.store.Read(ctx, key.sku)
}

// note remembers that a sale was refused while left units were in stock.
func (r *soldOut) note(key stockKey, left int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, known := r.last[key]; known {
		l.left = left
		return
	}
	if len(r.last) >= maxLeft {
		clear(r.last)
	}
	r.last[key] = &soldOutStock{left: left}
}
