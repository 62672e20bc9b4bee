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
	TryOnce bool          // it does not wait for a lock
	most    time.Duration // longest time in the critical section, without what the lab adds
	lab     Lab
	stops   *stops        // where the lab makes it wait
	longer  time.Duration // how much longer the lab may make the critical section

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
	return &Sale{
		Order: Order{
			ID: id, SKU: req.SKU, Quantity: req.Quantity, Strategy: req.Strategy, Instance: s.Instance,
			RequestID: req.RequestID, CreatedAt: now, Key: req.Key,
		},
		most: s.Work, lab: req.Lab, stops: stops, longer: req.Lab.Hold + stops.longest(), asked: now, watch: s.Watch,
	}
}

// locking returns the options with which the sale acquires a lock.
func (s *Sale) locking(wait context.Context) lock.Options {
	asked := Request{RequestID: s.RequestID, Strategy: s.Strategy, SKU: s.SKU, Quantity: s.Quantity}
	return lock.Options{TryOnce: s.TryOnce, Wait: wait, Owner: s.Instance + "/" + s.RequestID, OnWake: func() {
		s.wakeups.Add(1)
		if s.watch != nil {
			s.watch.Tell(stepOf(asked, Woken)) // of the request: another goroutine may use the sale
		}
	}}
}

// enter records the start of the critical section, and limits its time. If the sale ignores the loss of its lease,
// neither the loss ends it nor a bound that has passed while its process stood still.
func (s *Sale) enter(ctx context.Context, fence lock.Fence, bound time.Duration) (context.Context, context.CancelFunc) {
	s.entered = time.Now()
	s.fence, s.Fence = fence, uint64(fence)
	s.tell(Acquired)
	if s.lab.IgnoreLoss {
		ctx, bound = context.WithoutCancel(ctx), bound+MaxPause
	}
	return context.WithTimeout(ctx, bound)
}

// bound returns the time limit of the critical section, including the pauses of the lab.
func (s *Sale) bound() time.Duration { return s.most + s.longer }

// queueBound is bound for a seller without a lock, whose sales also wait in the store's queue, for as long again.
func (s *Sale) queueBound() time.Duration { return s.bound() + s.most }

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
	s.readAt, s.wroteAt, s.written = time.Now(), time.Time{}, false // a transaction may run again
	s.tell(ReadIt)
}

// wrote records that the order is in the store. The end of ctx during its pause changes nothing: if the lease is lost,
// the lock reports it.
func (s *Sale) wrote(ctx context.Context) {
	s.written = true
	if s.wroteAt.IsZero() { // else a batch has set it
		s.wroteAt = time.Now()
	}
	s.tell(Wrote)
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
