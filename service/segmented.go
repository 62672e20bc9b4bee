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

// SegmentedOptions configure [Segmented]. The zero value means the defaults.
type SegmentedOptions struct {
	// Segments is how many sales of one SKU can be under way at a time, at most MaxSegments; 0: 8. Processes with
	// different numbers can sell the same SKU.
	Segments int
}

// Segmented splits the stock of a SKU into segments, each with its own lock of l, so that several sales of one hot
// SKU can be in their critical sections at a time. The store must be a [Segmenter].
//
// Requests go to the segments in turn. A segment with too few units takes a share of the reserve: 1/k of the rest, so
// the shares shrink with the reserve, down to single units. When the reserve is empty, the request goes on to a
// segment that has enough. If only several segments together have enough, their units are moved into one segment,
// under the locks of all segments involved.
//
// A sale is refused as sold out only if one read of all parts, at a single moment, shows too few units. There are no
// deadlocks, because the holder of a segment's lock acquires only locks of higher numbers. A move between parts is
// one step of the store, so after a crash every unit is in exactly one place. See docs/adr/README.md#segmented-stock.
//
// Writes compare the version, so a holder that was paused past its lease cannot overwrite a move that it has not
// seen, even if no later holder has written yet. In the lab, "fencing=off" makes the writes blind.
//
// Round trips: those of the lock, Segments and a write, as under a single lock. A share of the reserve takes two
// more, a change to another segment an acquisition and a read, and moving units together an acquisition for each
// segment and two reads.
//
// Requests are served in order only within a segment. After a holder crashes, its segment cannot be sold from until
// the lease expires: a request that needs this segment waits, and may fail with lock.ErrHeld, but never as sold out.
func Segmented(l lock.Locker, o SegmentedOptions) Seller {
	k := min(cmp.Or(o.Segments, 8), MaxSegments)
	var next atomic.Uint32
	next.Store(rand.Uint32()) // so that instances that start together use different segments
	return func(ctx context.Context, store Store, sale *Sale) error {
		parts, err := Capability[Segmenter](store)
		if err != nil {
			return err
		}
		s := segmentedSale{Sale: sale, lock: l, k: k, parts: parts}
		return s.sell(ctx, 1+int(next.Add(1)%uint32(k)))
	}
}

// A segmentedSale is a Sale that may visit several segments.
type segmentedSale struct {
	*Sale
	lock  lock.Locker
	k     int
	parts Segmenter
}

// done is returned instead of the number of the next segment when a sale has ended.
const done = 0

// restarts is how often a sale starts again under one lock before it releases it.
const restarts = 10

// sell visits segments, beginning with at, until the sale is made or refused or the wait ends.
func (s *segmentedSale) sell(ctx context.Context, at int) error {
	wait := WaitOf(ctx)
	for visits := 1; ; visits++ {
		next, err := s.visit(ctx, at)
		switch {
		case s.Options.TryOnce && errors.Is(err, lock.ErrHeld) && visits < s.k:
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
func (s *segmentedSale) visit(ctx context.Context, at int) (next int, err error) {
	err = lock.Do(ctx, s.lock, s.key(at), s.locking(ctx), func(ctx context.Context, fence lock.Fence) error {
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

func (s *segmentedSale) key(segment int) string { return segmentKey(s.SKU, segment) }

// errTooFew reports that a segment has too few units, though the whole stock has enough.
var errTooFew = errors.New("too few units in the segment")

// sellFrom is the critical section of one segment. It returns what it has read.
func (s *segmentedSale) sellFrom(ctx context.Context, fence lock.Fence, at int) (Segments, error) {
	ctx, cancel := s.enter(ctx, fence)
	defer cancel()
	defer s.leave()
	s.tries++
	view, err := s.parts.Segments(ctx, s.SKU)
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
	if err := s.parts.Swap(ctx, s.Order); err != nil {
		return view, conditional(err)
	}
	s.wrote()
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
	fragments, lowest := s.fragments(view, at)
	if fragments == nil {
		return lowest, nil
	}
	return at, s.rebalance(ctx, at, fragments)
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

// fragments returns, in order, the fewest segments above at that together have the missing units. If they have too
// few, above is nil, and the sale must go on from lowest, the first segment that has any units.
func (s *segmentedSale) fragments(view *Segments, at int) (above []int, lowest int) {
	rows := slices.DeleteFunc(
		slices.Clone(view.Rows), func(row Segment) bool { return row.Quantity == 0 || row.Number == at },
	)
	missing := s.Quantity - view.Row(at).Quantity - view.Reserve
	lowest = at
	if len(rows) > 0 {
		lowest = rows[0].Number
	}
	slices.SortFunc(rows, func(a, b Segment) int { return cmp.Compare(b.Quantity, a.Quantity) })
	for _, row := range rows {
		if row.Number > at && missing > 0 {
			above = append(above, row.Number)
			missing -= row.Quantity
		}
	}
	if missing > 0 {
		return nil, lowest
	}
	slices.Sort(above)
	return above, lowest
}

// rebalance moves all units of fragments, which are above at, into segment at. It moves nothing if they have too few
// once it holds their locks.
func (s *segmentedSale) rebalance(ctx context.Context, at int, fragments []int) error {
	// The wait for a lock ends with the request's wait, or when a lock that this sale holds is lost.
	wait, stop := context.WithCancelCause(WaitOf(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	o := s.Options
	o.Wait = wait
	return s.holding(ctx, o, fragments, func(ctx context.Context) error {
		bounded, cancel := context.WithTimeout(ctx, s.most)
		defer cancel()
		view, err := s.parts.Segments(bounded, s.SKU)
		if err != nil {
			return err
		}
		var from []Segment
		missing := s.Quantity - view.Row(at).Quantity - view.Reserve
		for _, number := range fragments {
			row := view.Row(number)
			from = append(from, row)
			missing -= row.Quantity
		}
		if missing > 0 {
			return nil
		}
		return s.move(ctx, &view, at, view.Reserve, from)
	})
}

// holding calls work while it holds the locks of segments, which must be in ascending order.
func (s *segmentedSale) holding(
	ctx context.Context, o lock.Options, segments []int, work func(context.Context) error,
) error {
	if len(segments) == 0 {
		return work(ctx)
	}
	return lock.Do(ctx, s.lock, s.key(segments[0]), o, func(ctx context.Context, _ lock.Fence) error {
		return s.holding(ctx, o, segments[1:], work)
	})
}

// move moves units into segment at. A conflict is not an error, because the caller reads the segments again anyway.
func (s *segmentedSale) move(ctx context.Context, view *Segments, at int, reserve int64, from []Segment) error {
	ctx, cancel := context.WithTimeout(ctx, s.most)
	defer cancel()
	err := s.parts.Refill(ctx, Refill{
		SKU: s.SKU, Epoch: view.Epoch, Strategy: s.Strategy, Into: view.Row(at), Reserve: reserve,
		From: slices.DeleteFunc(from, func(row Segment) bool { return row.Quantity == 0 }),
	})
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrStockReset) {
		return nil
	}
	return err
}
