package service

import (
	"context"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
)

// A Sale is one deduction under way: its order, and the times of its steps.
type Sale struct {
	Order
	Options lock.Options // without Wait: see locking
	lab     Lab
	stops   *stops        // nil: it does not pause
	most    time.Duration // longest time in the critical section

	// left is set before the lock is released, so that the times of two holders of a correct lock do not overlap
	asked, entered, left time.Time
	readAt, wroteAt      time.Time  // when the replies to the read and to the write arrived; of the last try
	fence                lock.Fence // of the holder, also when the write does not carry it
	tries                int        // of sellers that may have to begin again; 0: the seller does not
	written              bool       // the order is in the store
	batch                *InBatch   // nil: it is not merged with others
	wakeups              atomic.Int64
	watch                Watcher // nil: there is none
}

// sale returns the sale of req that has not begun.
func (s *Service) sale(id string, req Request, stops *stops) *Sale {
	now := time.Now()
	sale := &Sale{
		Order: Order{
			ID: id, SKU: req.SKU, Quantity: req.Quantity, Strategy: req.Strategy, Instance: s.Instance,
			RequestID: req.RequestID, CreatedAt: now, Key: req.Key,
		},
		lab: req.Lab, stops: stops, most: s.Work, asked: now,
		watch: both(s.Watch, req.Watch),
	}
	sale.Options = lock.Options{Owner: s.Instance + "/" + req.RequestID, OnWake: func() { sale.wakeups.Add(1) }}
	return sale
}

// locking returns the sale's lock options, with the wait of ctx.
func (s *Sale) locking(ctx context.Context) lock.Options {
	o := s.Options
	o.Wait = WaitOf(ctx)
	return o
}

// enter records the start of the critical section, and limits its time.
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
	// An error means that ctx has ended, so the read fails.
	_ = s.stops.at(ctx, AfterLock)
	return ctx, cancel
}

// enterQueue is enter for a seller without a lock. Its sales wait in the store's queue, so it allows twice most: once
// for the queue and once for the store.
func (s *Sale) enterQueue(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.enterFor(ctx, lock.NoFence, s.bound()+s.most)
}

// bound returns the time limit of the critical section, including the pauses of the lab.
func (s *Sale) bound() time.Duration { return s.most + s.lab.Hold + s.stops.longest() }

// leave records the end of the critical section.
func (s *Sale) leave() {
	s.left = time.Now()
	s.tell(Released)
}

// saw records the stock that was read. If the read itself takes the lock, the critical section begins here.
func (s *Sale) saw(stock Stock) {
	if s.entered.IsZero() {
		s.entered = time.Now()
		s.tell(Acquired)
	}
	s.Read, s.Version, s.Epoch = stock.Quantity, stock.Version, stock.Epoch
	s.readAt, s.wroteAt = time.Now(), time.Time{} // a transaction may run again
	s.tell(ReadIt)
}

// think stands for the work of an order service between read and write: prices, limits, credit. In the lab it takes
// as long as the request says.
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

// wrote records that the order is in the store.
func (s *Sale) wrote(ctx context.Context) {
	s.written = true
	if s.wroteAt.IsZero() { // else a batch has set it
		s.wroteAt = time.Now()
	}
	s.tell(Wrote)
	// The order is written even if ctx ends during the pause. If the lease is lost, the lock reports it.
	_ = s.stops.at(ctx, AfterWrite)
}

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

// InBatch is the place of a sale in its batch. It is part of the reply, and not stored.
type InBatch struct {
	ID    string // the order id of the first sale of the batch, even if that sale was refused
	Place int    // in the order of arrival, from 1
	Size  int    // the number of sales in the batch, refused ones included
}
