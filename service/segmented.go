package service

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"example.com/stock/lock"
)

// MaxSegments is the largest number of segments of a stock. Every sale reads all of them.
const MaxSegments = 64

// Segmented splits the stock of a SKU into k segments, each with its own lock of l, so that k sales of one hot SKU can
// be in their critical sections at a time. k is at most MaxSegments; 0: 8. Processes with different numbers can sell
// the same SKU.
//
// Requests go to the segments in turn. A segment with too few units takes a share of the reserve: 1/k of the rest, so
// the shares shrink with the reserve, down to single units. When the reserve is empty, the request goes on to a
// segment that has enough. If only several segments together have enough, their units are moved into its own.
//
// A sale is refused as sold out only if one read of all parts, at a single moment, shows too few units. A move between
// parts is one step of the store, so after a crash every unit is in exactly one place. See
// docs/adr/README.md#segmented-stock.
//
// Writes and moves compare the versions that were read. So a sale holds the lock of its own segment alone, also while
// it moves units out of others: the holder of another one finds that the version has changed, and begins again. A
// holder that was paused past its lease cannot overwrite a move either. In the lab, "fencing=off" makes the writes
// blind.
//
// Round trips: those of the lock, Segments and a write, as under a single lock. A move takes two more, and a change to
// another segment an acquisition and a read.
//
// Requests are served in order only within a segment. After a holder crashes, nobody enters its segment until the lease
// expires: a request that must, because it is its turn or no other has as many units, waits, and may fail with
// lock.ErrHeld, but never as sold out.
func Segmented(l lock.Locker, k int) Seller {
	k = min(cmp.Or(k, 8), MaxSegments)
	var next atomic.Uint32
	next.Store(rand.Uint32()) // so that instances that start together use different segments
	return func(ctx context.Context, store Shop, sale *Sale) error {
		s := segmentedSale{Sale: sale, lock: l, k: k, store: store}
		return s.sell(ctx, 1+int(next.Add(1)%uint32(k)))
	}
}

// A segmentedSale is a Sale that may visit several segments.
type segmentedSale struct {
	*Sale
	lock  lock.Locker
	k     int
	store Shop
}

// done is returned instead of the number of the next segment when a sale has ended.
const done = 0

// restarts is how often a sale starts again under one lock before it releases it.
const restarts = 10

// sell visits segments, beginning with at, until the sale is made or refused or the wait ends.
func (s *segmentedSale) sell(ctx context.Context, at int) error {
	wait, ended := Waiting(ctx)
	defer ended()
	o := s.locking(wait)
	for visits := 1; ; visits++ {
		next, err := s.visit(ctx, o, at)
		switch {
		case o.TryOnce && errors.Is(err, lock.ErrHeld) && visits < s.k:
			next = at%s.k + 1 // try each segment once, and fail only if all are held
		case err != nil || next == done:
			return err
		}
		if wait.Err() != nil {
			return errors.Join(lock.ErrHeld, context.Cause(wait))
		}
		at = next
	}
}

// visit sells from a segment under its lock, or returns the segment to visit next.
func (s *segmentedSale) visit(ctx context.Context, o lock.Options, at int) (next int, err error) {
	err = lock.Do(ctx, s.lock, segmentKey(s.SKU, at), o, func(ctx context.Context, fence lock.Fence) error {
		ctx = Begin(ctx)
		for range restarts {
			view, err := s.sellFrom(ctx, fence, at)
			switch {
			case errors.Is(err, ErrConflict): // another sale has written without the lock
				continue
			case !errors.Is(err, errTooFew):
				next = done
				return err
			}
			next, err = s.refill(ctx, &view, at)
			if err != nil || next != at {
				return err
			}
		}
		next = at
		return nil
	})
	return next, err
}

// errTooFew reports that a segment has too few units, though the whole stock has enough.
var errTooFew = errors.New("too few units in the segment")

// sellFrom is the critical section of one segment. It returns what it has read.
func (s *segmentedSale) sellFrom(ctx context.Context, fence lock.Fence, at int) (Segments, error) {
	ctx, cancel := s.enter(ctx, fence, s.bound())
	defer cancel()
	defer s.leave()
	s.tries++
	if err := s.begin(ctx); err != nil {
		return Segments{}, err
	}
	view, err := s.store.Segments(ctx, s.SKU)
	if err != nil {
		return view, err
	}
	own := view.Row(at)
	switch {
	case view.Quantity < s.Quantity:
		return view, &SoldOutError{view.Quantity}
	case own.Quantity < s.Quantity:
		return view, errTooFew
	}
	s.Segment = at
	s.saw(Stock{Quantity: own.Quantity, Version: own.Version, Epoch: view.Epoch})
	s.Remaining = own.Quantity - s.Quantity
	if err := s.think(ctx); err != nil {
		return view, err
	}
	write := s.store.Swap
	if s.lab.Unfenced {
		write = s.store.Write // blind, as of other sales under a lock
	}
	if err := write(ctx, s.Order); err != nil {
		return view, conditional(err)
	}
	s.wrote(ctx)
	return view, nil
}

// refill moves units into segment at, whose lock is held, or finds another segment that has enough. It returns the
// segment from which to sell.
func (s *segmentedSale) refill(ctx context.Context, view *Segments, at int) (next int, err error) {
	own := view.Row(at)
	missing := s.Quantity - own.Quantity
	if view.Reserve >= missing {
		// As in guided self-scheduling of a loop among k workers, a share is 1/k of the rest. So there are few moves
		// while the reserve is large, and at the end no segment has many units while the others are empty.
		share := (view.Reserve + int64(s.k) - 1) / int64(s.k)
		return at, s.move(ctx, view, at, max(missing, share), nil)
	}
	if next := s.elsewhere(view, at); next != done {
		return next, nil
	}
	return at, s.move(ctx, view, at, view.Reserve, s.fragments(view, at))
}

// elsewhere returns the next segment after at that has enough units, together with the reserve, or done. It does not
// choose the fullest segment, so that concurrent requests do not all go to the same one.
func (s *segmentedSale) elsewhere(view *Segments, at int) (next int) {
	for _, row := range view.Rows {
		if row.Quantity+view.Reserve < s.Quantity { // such as at: refill found too few there
			continue
		}
		if next == done || next < at && row.Number > at {
			next = row.Number
		}
	}
	return next
}

// fragments returns the fewest other segments that together with segment at and the reserve have enough units.
func (s *segmentedSale) fragments(view *Segments, at int) []Segment {
	rows := slices.DeleteFunc(
		slices.Clone(view.Rows), func(row Segment) bool { return row.Quantity == 0 || row.Number == at },
	)
	slices.SortFunc(rows, func(a, b Segment) int { return cmp.Compare(b.Quantity, a.Quantity) })
	missing := s.Quantity - view.Row(at).Quantity - view.Reserve
	for i, row := range rows {
		if missing <= 0 {
			return rows[:i]
		}
		missing -= row.Quantity
	}
	return rows
}

// move moves units into segment at. A conflict is not an error, because the caller reads the segments again anyway.
func (s *segmentedSale) move(ctx context.Context, view *Segments, at int, reserve int64, from []Segment) error {
	ctx, cancel := context.WithTimeout(ctx, s.most)
	defer cancel()
	err := s.store.Refill(ctx, Refill{
		SKU: s.SKU, Epoch: view.Epoch, Strategy: s.Strategy, Into: view.Row(at), Reserve: reserve, From: from,
	})
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrStockReset) {
		return nil
	}
	return err
}
