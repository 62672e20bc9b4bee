package service

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"example.com/stock/lock"
)

// supply fetches units for a segment that has too few, or finds one that has enough. The lock of the segment is held. It returns the
// segment to go on with.
func (s *segmentedSale) supply(ctx context.Context, view *Segments, at int) (next int, err error) {
	own := view.Row(at)
	missing := s.Quantity - own.Quantity
	if view.Reserve >= missing {
		// Guided self-scheduling: the shares of a loop that is split among k workers, 1/k of what is left each time. Few moves while
		// there is much, and no worker with a heap at the end while the others are done.
		share := (view.Reserve + int64(s.k) - 1) / int64(s.k)
		return at, s.gather(ctx, view, at, max(missing, share), nil)
	}
	if next := s.elsewhere(view, at); next != done {
		return next, nil
	}
	fragments, lowest := s.fragments(view, at)
	if fragments == nil {
		return lowest, nil
	}
	return at, s.merge(ctx, at, fragments)
}

// elsewhere finds the next segment after at that has enough, with what the reserve has left. Next and not best: those who look at the same time
// from different segments should not all go to the same.
func (s *segmentedSale) elsewhere(view *Segments, at int) (next int) {
	for _, row := range view.Rows {
		if row.Number == at || row.Quantity+view.Reserve < s.Quantity {
			continue
		}
		if next == done || next < at && row.Number > at {
			next = row.Number
		}
	}
	return next
}

// fragments are the fewest segments above at that have what is missing, by number. If they have not, it is nil, and the
// lowest segment that has anything is the place from where all others are above.
func (s *segmentedSale) fragments(view *Segments, at int) (above []int, lowest int) {
	rows := slices.DeleteFunc(slices.Clone(view.Rows), func(row Segment) bool { return row.Quantity == 0 || row.Number == at })
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

// merge moves all that is in fragments into a segment below them. If there is not enough any more when their locks are held it does
// nothing.
func (s *segmentedSale) merge(ctx context.Context, at int, fragments []int) error {
	// The wait for a lock ends with the request's wait, or when the one that is held already is lost.
	wait, stop := context.WithCancelCause(s.waiting(ctx))
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
		from := make([]Segment, 0, len(fragments))
		missing := s.Quantity - view.Row(at).Quantity - view.Reserve
		for _, number := range fragments {
			row := view.Row(number)
			from = append(from, row)
			missing -= row.Quantity
		}
		if missing > 0 {
			return nil
		}
		return s.gather(ctx, &view, at, view.Reserve, from)
	})
}

// holding works with the locks of segments, which must be in ascending order.
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

// gather moves units. That somebody was quicker is no error: the caller looks again anyway.
func (s *segmentedSale) gather(ctx context.Context, view *Segments, at int, reserve int64, from []Segment) error {
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
