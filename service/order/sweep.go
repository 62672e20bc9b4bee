package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

const (
	// sweepEvery is the pause between two searches for expired reservations. So the units of an expired reservation are
	// for sale again after at most this pause and the time of the steps.
	sweepEvery = 250 * time.Millisecond
	sweepBatch = 250 // reservations that one search returns
	// forgetEvery is the pause between two searches for old idempotency keys.
	forgetEvery = time.Minute
	forgetBatch = 500
	// sweepRest is the pause after an error of the store. It is short, so that units of reservations that expired
	// during an outage are for sale within a second after the outage. A store that is known to be down is not searched.
	sweepRest = 500 * time.Millisecond
)

// Sweep ends expired reservations, and removes keys that are older than KeepKey, until ctx ends. Every instance runs
// it, without a lock: if two instances end the same reservation, the first step ends it and the second changes nothing.
func (s *Service) Sweep(ctx context.Context) {
	var broken error
	forget := time.Now()
	for pause := time.Duration(0); lock.Sleep(ctx, pause) == nil; {
		overdue, err := s.sweep(ctx)
		if s.Swept != nil && (err == nil || overdue > 0) {
			s.Swept(overdue)
		}
		if err == nil && !time.Now().Before(forget) {
			forget = time.Now().Add(forgetEvery)
			err = s.forget(ctx)
		}
		pause = sweepEvery
		if err != nil {
			pause = sweepRest
			if broken == nil && ctx.Err() == nil && s.Log != nil { // log once per outage, not twice a second
				s.Log.Warn("expired reservations cannot be ended", "err", err)
			}
		}
		if err == nil && broken != nil && s.Log != nil {
			s.Log.Info("expired reservations are ended again")
		}
		broken = err
	}
}

// sweep ends all expired reservations. overdue are those that it found and could not end: the next search leaves them
// out, or it would find them again instead of others. err is the reason of the first, or of the search.
func (s *Service) sweep(ctx context.Context) (overdue int, err error) {
	for found := sweepBatch; found == sweepBatch; {
		due, bad := read(ctx, s, func(ctx context.Context) ([]Reservation, error) {
			return s.Store.Due(ctx, overdue, sweepBatch)
		})
		if bad != nil {
			return overdue, bad
		}
		found = len(due)
		for rest := due; len(rest) > 0; {
			n, lines := 1, len(rest[0].Lines)
			for n < len(rest) && lines+len(rest[n].Lines) <= mergeLines {
				lines += len(rest[n].Lines)
				n++
			}
			for i, out := range s.expire(ctx, rest[:n]) {
				if errors.Is(out.Err, lock.ErrDown) || errors.Is(out.Err, lock.ErrOverloaded) || ctx.Err() != nil {
					return overdue, out.Err
				}
				if out.Err != nil { // such as unbalanced books; the other reservations still end
					overdue++
					err = cmp.Or(err, fmt.Errorf("reservation %s: %w", rest[i].ID, out.Err))
				}
			}
			rest = rest[n:]
		}
	}
	return overdue, err
}

// expire ends reservations in one step of the store. It acquires no lock, even if the Service has one, because a step
// is correct without.
func (s *Service) expire(ctx context.Context, due []Reservation) []StepResult {
	steps := make([]Request, len(due))
	for i, r := range due {
		steps[i] = Request{About{Reservation: r.ID, Customer: r.Customer, SKUs: skusOf(r.Lines)}, expire}
		if r.Customer == "" {
			steps[i].Decide = func(State) (Changes, error) { return Changes{}, ErrNotFound }
		}
	}
	outcomes, err := read(ctx, s, func(ctx context.Context) ([]StepResult, error) {
		return s.Store.Batch(ctx, steps), nil
	})
	if err != nil {
		return []StepResult{{Err: err}}
	}
	return outcomes
}

func (s *Service) forget(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := read(ctx, s, func(ctx context.Context) (int, error) {
			return s.Store.Forget(ctx, s.KeepKey, forgetBatch)
		})
		if err != nil || n < forgetBatch {
			return err
		}
	}
	return nil
}
