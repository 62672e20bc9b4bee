package service

import (
	"context"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
)

// A Sale is one deduction under way: the order as it fills up, and what happened when.
type Sale struct {
	Order
	Options lock.Options // how it asks for locks, but for the wait: see locking
	lab     Lab
	stops   *stops        // nil: it waits nowhere
	most    time.Duration // longest stay in the critical section

	// left: before the lock is given back, so that the holds of a right lock do not overlap
	asked, entered, left time.Time
	// when the value was in hand, and when the write was known to be done; of the last try
	readAt, wroteAt time.Time
	fence           lock.Fence // of the holder, also when the write does not carry it
	tries           int        // of ways that may have to begin again; 0: of the others
	written         bool       // the order is in the store
	batch           *InBatch   // nil: it is not merged with others
	wakeups         atomic.Int64
	watch           Watcher // nil: nobody is told the steps
}

// sale returns the sale of req that has not begun.
func (s *Service) sale(id string, req Request, stops *stops) *Sale {
	now := time.Now()
	sale := &Sale{
		Order: Order{
			ID: id, SKU: req.SKU, Quantity: req.Quantity, Strategy: req.Strategy, Instance: s.Instance,
			RequestID: req.RequestID, CreatedAt: now, Key: req.Key,
		},
		lab: req.Lab, stops: stops, most: s.Work, asked: now, watch: s.Watch,
	}
	sale.Options = lock.Options{Owner: s.Instance + "/" + req.RequestID, OnWake: func() { sale.wakeups.Add(1) }}
	return sale
}

// locking returns the sale's options with the wait of ctx.
func (s *Sale) locking(ctx context.Context) lock.Options {
	o := s.Options
	o.Wait = WaitOf(ctx)
	return o
}

// enter marks the start of the critical section and bounds it.
func (s *Sale) enter(ctx context.Context, fence lock.Fence) (context.Context, context.CancelFunc) {
	return s.enterFor(ctx, fence, s.bound())
}

func (s *Sale) enterFor(
	ctx context.Context, fence lock.Fence, bound time.Duration,
) (context.Context, context.CancelFunc) {
	s.entered = time.Now()
	s.fence = fence
	if !s.lab.Unfenced {
		s.Fence = uint64(fence)
	}
	if s.lab.IgnoreLoss {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	s.tell(Acquired)
	// An error here is ctx's, which fails the read.
	_ = s.stops.at(ctx, AfterLock)
	return ctx, cancel
}

// enterQueue is enter for a seller without a lock, whose requests all go to the store. It allows as long again for
// the queue in front of the store, which leaves half of the time for the store itself.
func (s *Sale) enterQueue(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.enterFor(ctx, lock.NoFence, s.bound()+s.most)
}

// bound is the longest stay in the critical section, with what the lab asks for on top.
func (s *Sale) bound() time.Duration { return s.most + s.lab.Hold + s.stops.longest() }

// leave marks the end of the critical section.
func (s *Sale) leave() {
	s.left = time.Now()
	s.tell(Released)
}

// saw records what the read returned. Where the read itself takes the lock, the critical section begins here.
func (s *Sale) saw(stock Stock) {
	if s.entered.IsZero() {
		s.entered = time.Now()
		s.tell(Acquired)
	}
	s.Read, s.Version, s.Epoch = stock.Quantity, stock.Version, stock.Epoch
	s.readAt, s.wroteAt = time.Now(), time.Time{} // a transaction may run again
	s.tell(ReadIt)
}

// think stands for what an order service does between read and write: prices, limits, credit. In the lab it takes
// as long as asked.
func (s *Sale) think(ctx context.Context) error {
	if err := s.stops.at(ctx, AfterRead); err != nil {
		return err
	}
	s.tell(Thinks)
	if err := s.hold(ctx); err != nil {
		return err
	}
	return s.stops.at(ctx, BeforeWrite)
}

func (s *Sale) hold(ctx context.Context) error {
	if s.lab.Hold <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(s.lab.Hold)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// wrote marks that the order is in the store.
func (s *Sale) wrote(ctx context.Context) {
	s.written = true
	if s.wroteAt.IsZero() { // a batch has noted it
		s.wroteAt = time.Now()
	}
	s.tell(Wrote)
	// Whether ctx ended while it waited is for the lock to say: the order stands.
	_ = s.stops.at(ctx, AfterWrite)
}

// receipt is the answer to a sale that was written.
func (s *Sale) receipt(store string, lost bool) Receipt {
	readAt := s.readAt
	if readAt.IsZero() {
		readAt = s.wroteAt // the store read and wrote in one step
	}
	return Receipt{
		Order: s.Order, Store: store, HolderFence: s.fence, LeaseLost: lost,
		Waited: s.entered.Sub(s.asked), Held: s.left.Sub(s.entered),
		AcquiredAt: s.entered, ReadAt: readAt, WrittenAt: s.wroteAt, ReleasedAt: s.left,
		Tries: max(s.tries, 1), Wakeups: int(s.wakeups.Load()),
		Batch: s.batch,
	}
}

// InBatch is the place of a sale in a batch. It is told to who buys, and is not kept in the store.
type InBatch struct {
	ID    string // the order id of the first sale of the batch, whatever became of that one
	Place int    // in the order of arrival, from 1
	Size  int    // how many sales the batch has, with those that were refused
}
