package service

import (
	"context"
	"time"

	"example.com/stock/lock"
)

// A Sale is one deduction under way: the order as it fills up, and what happened when.
type Sale struct {
	Order
	lab  Lab
	most time.Duration // longest stay in the critical section

	asked, entered, left time.Time  // left: before the lock is given back, so that the holds of a right lock do not overlap
	fence                lock.Fence // of the holder, also when the write does not carry it
	tries                int        // of ways that may have to begin again; 0: of the others
	written              bool       // the order is in the store
}

// Lab is what lab mode may ask of one sale. The zero value is normal service.
type Lab struct {
	Hold       time.Duration // stay this long between read and write
	Unfenced   bool          // do not give the fence to the write
	IgnoreLoss bool          // work on after the lease is lost, as naive code does
}

// enter marks the start of the critical section and bounds it.
func (s *Sale) enter(ctx context.Context, fence lock.Fence) (context.Context, context.CancelFunc) {
	s.entered = time.Now()
	s.fence = fence
	if !s.lab.Unfenced {
		s.Fence = uint64(fence)
	}
	if s.lab.IgnoreLoss {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, s.most+s.lab.Hold)
}

// leave marks the end of the critical section.
func (s *Sale) leave() { s.left = time.Now() }

// saw records what the read returned. Where the read itself takes the lock, the critical section begins here.
func (s *Sale) saw(stock Stock) {
	if s.entered.IsZero() {
		s.entered = time.Now()
	}
	s.Read, s.Version, s.Epoch = stock.Quantity, stock.Version, stock.Epoch
}

// think stands for what an order service does between read and write: prices, limits, credit. In the lab it takes as long as asked.
func (s *Sale) think(ctx context.Context) error {
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

// receipt is the answer to a sale that was written.
func (s *Sale) receipt(store string, lost bool) Receipt {
	return Receipt{
		Order: s.Order, Store: store, HolderFence: s.fence, LeaseLost: lost,
		Waited: s.entered.Sub(s.asked), Held: s.left.Sub(s.entered),
		AcquiredAt: s.entered, ReleasedAt: s.left, Tries: max(s.tries, 1),
	}
}
