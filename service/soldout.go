package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// A soldOut answers the sales of stocks that was sold out when it was last looked at: with one read of the
// store, which all share that were waiting when it was sent. In a flash sale 99 of 100 requests are of that kind. They
// need no lock, no transaction and no turn.
//
// It is no cache. What was seen last is a hint that a read may do; what a sale is told was read after it came. So
// whoever comes after a restock is sold to. Under a lock, too, stock that reads too little at a moment within the
// request refuses it: a sale that writes nothing disturbs nobody.
//
// A wrong hint costs a read. All other answers are those of the strategy.
type soldOut struct {
	work time.Duration // half of the bound of a read

	mu   sync.Mutex
	last map[stockKey]*lastLeft
}

// A stockKey is a stock of one SKU.
type stockKey struct {
	store Store // comparable
	sku   SKU
}

// A lastLeft is a stock that refused a sale.
type lastLeft struct {
	left int64 // when it was looked at last
	next *look // begins when the one before is over; nil: nobody waits for one
	busy bool  // one is under way
}

// A look is one read of a store, for all who wait for it. Who does reads it after done is closed.
type look struct {
	done     chan struct{}
	stock    Stock
	err      error
	panicked any
}

// maxLeft bounds the stocks that are remembered. One that is forgotten costs a refusal by the strategy.
const maxLeft = 1024

func newSoldOut(work time.Duration) *soldOut {
	return &soldOut{work: work, last: make(map[stockKey]*lastLeft)}
}

// refuse returns a SoldOutError, or why the store could not be read. A nil error says nothing: the sale must be tried.
// That is also so when ctx ends, which the strategy reports in its own words. The read ends when one of needs goes
// down.
func (r *soldOut) refuse(
	ctx context.Context, key stockKey, needs []Dependency, strategy string, quantity int64,
) error {
	l := r.join(key, needs, quantity)
	if l == nil {
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
		return nil // what another strategy guards is for the store to refuse, which says so
	}
	return &SoldOutError{l.stock.Quantity}
}

// join returns the next look at a stock, or nil if it may have enough.
func (r *soldOut) join(key stockKey, needs []Dependency, quantity int64) *look {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.last[key]
	if l == nil || l.left >= quantity {
		return nil
	}
	if l.next == nil {
		l.next = &look{done: make(chan struct{})}
	}
	next := l.next
	if !l.busy {
		l.busy = true
		go r.lead(key, l, needs) // it ends when nobody waits, and each look has a bound
	}
	return next
}

// lead looks for as long as anybody waits.
func (r *soldOut) lead(key stockKey, l *lastLeft, needs []Dependency) {
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

// read is bounded by itself: the ctx of a sale would end it for the others. A panic is that of all who wait.
func (l *look) read(key stockKey, needs []Dependency, most time.Duration) {
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

// note remembers that a sale was refused because so much was left.
func (r *soldOut) note(key stockKey, left int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.last[key]; l != nil {
		l.left = left
		return
	}
	if len(r.last) >= maxLeft {
		clear(r.last)
	}
	r.last[key] = &lastLeft{left: left}
}
