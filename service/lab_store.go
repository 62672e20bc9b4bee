package service

import (
	"context"
	"time"

	"example.com/stock/lock"
)

// A labStore is the store of one sale in the lab. It pauses the sale before and after the calls of the store, tells its
// steps, and does what the Lab options say, so that sellers need not know of the lab.
type labStore struct {
	Store
	sale     *Sale
	lab      Lab
	stops    *stops
	lock     lock.Locker // of the strategy; nil: it has none
	readLock bool        // a read acquires the lock, so there is no point between the two
}

// inLab returns the store for a sale, with the lab around it if the sale is watched or has lab options.
func (s *Service) inLab(d *deduction, sale *Sale, stops *stops) Store {
	if stops == nil && sale.watch == nil && d.Lab == (Lab{}) {
		return d.store.Store
	}
	return &labStore{Store: d.store.Store, sale: sale, lab: d.Lab, stops: stops, lock: d.strategy.Lock}
}

// Read passes the point AfterLock, and acquires the lock again if the sale has a Nesting.
func (s *labStore) Read(ctx context.Context, sku SKU) (Stock, error) {
	ctx, cancel := s.heed(ctx)
	defer cancel()
	if err := s.entered(ctx); err != nil {
		return Stock{}, err
	}
	if err := s.nest(ctx); err != nil {
		return Stock{}, err
	}
	return s.Store.Read(ctx, sku)
}

// Segments is like Read.
func (s *labStore) Segments(ctx context.Context, sku SKU) (Segments, error) {
	segmenter, err := Capability[Segmenter](s.Store)
	if err != nil {
		return Segments{}, err
	}
	ctx, cancel := s.heed(ctx)
	defer cancel()
	if err := s.entered(ctx); err != nil {
		return Segments{}, err
	}
	return segmenter.Segments(ctx, sku)
}

func (s *labStore) Refill(ctx context.Context, r Refill) error {
	segmenter, err := Capability[Segmenter](s.Store)
	if err != nil {
		return err
	}
	return segmenter.Refill(ctx, r)
}

// Write passes the points from AfterRead to AfterWrite.
func (s *labStore) Write(ctx context.Context, o Order) error {
	return s.write(ctx, o, s.Store.Write)
}

// Swap is like Write. It writes blindly if the store has no Swap, as writeFenced does, and, without fencing, to a
// segment: other sales under a lock then call Write.
func (s *labStore) Swap(ctx context.Context, o Order) error {
	swapper, compares := s.Store.(Swapper)
	if !compares || s.lab.Unfenced && o.Segment > 0 {
		return s.write(ctx, o, s.Store.Write)
	}
	return s.write(ctx, o, swapper.Swap)
}

func (s *labStore) write(ctx context.Context, o Order, write func(context.Context, Order) error) error {
	ctx, cancel := s.heed(ctx)
	defer cancel()
	if err := s.think(ctx); err != nil {
		return err
	}
	s.sale.tell(Writes)
	err := write(ctx, o)
	if err == nil {
		s.wrote(ctx)
	}
	return err
}

// Deduct passes the points AfterLock and AfterWrite.
func (s *labStore) Deduct(ctx context.Context, o Order) (Order, error) {
	deductor, err := Capability[Deductor](s.Store)
	if err != nil {
		return o, err
	}
	if err := s.entered(ctx); err != nil {
		return o, err
	}
	s.sale.tell(Writes)
	sold, err := deductor.Deduct(ctx, o)
	if err == nil {
		s.sale.Order = sold
		s.wrote(ctx)
	}
	return sold, err
}

// Batch makes labStore a Batcher. Sales are merged below it: see aroundBatch.
func (s *labStore) Batch(ctx context.Context, orders []Order) ([]BatchResult, error) {
	batcher, err := Capability[Batcher](s.Store)
	if err != nil {
		return nil, err
	}
	return batcher.Batch(ctx, orders)
}

// aroundBatch calls sell with the store that the sales of a batch share. A sale in the lab is paused before it joins
// its batch and after the batch, so that the others are not delayed.
func aroundBatch(ctx context.Context, store Store, sell func(Store) error) error {
	s, inLab := store.(*labStore)
	if !inLab {
		return sell(store)
	}
	if err := s.entered(WaitOf(ctx)); err != nil {
		return waitEnded(err)
	}
	err := sell(s.Store)
	if err == nil {
		s.wrote(ctx)
	}
	return err
}

// Transact is like Read and Write, in a transaction.
func (s *labStore) Transact(
	ctx context.Context, about SKU, tryOnce bool, do func(context.Context, Store) error,
) error {
	transactor, err := Capability[Transactor](s.Store)
	if err != nil {
		return err
	}
	return transactor.Transact(ctx, about, tryOnce, func(ctx context.Context, tx Store) error {
		return do(ctx, &labStore{Store: tx, sale: s.sale, lab: s.lab, stops: s.stops, readLock: true})
	})
}

// heed returns ctx, or if the sale ignores the loss of its lease, a ctx that the loss does not end.
func (s *labStore) heed(ctx context.Context) (context.Context, context.CancelFunc) {
	if !s.lab.IgnoreLoss {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), s.sale.bound())
}

// entered is called at the beginning of the critical section. Without fencing, the sale forgets the fence there.
func (s *labStore) entered(ctx context.Context) error {
	if s.lab.Unfenced {
		s.sale.Fence = 0
	}
	if s.readLock {
		return nil
	}
	return s.stops.at(ctx, AfterLock)
}

// think takes as long as the request says. It stands for the work of an order service between read and write: prices,
// limits, credit.
func (s *labStore) think(ctx context.Context) error {
	if err := s.stops.at(ctx, AfterRead); err != nil {
		return err
	}
	s.sale.tell(Thinks)
	if s.lab.Hold > 0 {
		timer := time.NewTimer(s.lab.Hold)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.stops.at(ctx, BeforeWrite)
}

// wrote ignores the end of ctx during its pause, because the order is written. If the lease is lost, the lock reports
// it.
func (s *labStore) wrote(ctx context.Context) {
	s.sale.wrote()
	_ = s.stops.at(ctx, AfterWrite)
}

// A Nesting selects how a sale in the lab acquires the lock that it already holds. Empty means that the sale does not
// acquire it again.
type Nesting string

// The nestings.
const (
	NestedHolder   Nesting = "holder"   // with the holder's ctx: it re-enters, if the lock promises that
	NestedStranger Nesting = "stranger" // with a new ctx, like code that does not pass its ctx on: it waits for itself
)

// nest acquires the lock again, and releases it.
func (s *labStore) nest(ctx context.Context) error {
	if s.lab.Nested == "" || s.lock == nil {
		return nil
	}
	asking := ctx
	if s.lab.Nested == NestedStranger {
		asking = context.Background()
	}
	again := func(context.Context, lock.Fence) error { return nil }
	return lock.Do(asking, s.lock, string(s.sale.SKU), s.sale.locking(ctx), again)
}
