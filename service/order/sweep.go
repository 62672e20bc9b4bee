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
	// sweepEvery is the pause between looks for reservations whose time is over. Their units are for sale again after
	// so long at most, and the time of the steps.
	sweepEvery = 250 * time.Millisecond
	sweepBatch = 250 // reservations that one look finds, and that are ended together
	// forgetEvery is the pause between looks for idempotency keys that need not be remembered any more.
	forgetEvery = time.Minute
	forgetBatch = 500
	// sweepRest is the pause after an error of the store. It is short, so that what became due while the store was away
	// is for sale within a second of its return. A store that is known to be down is not asked.
	sweepRest = 500 * time.Millisecond
)

// Sweep ends reservations whose time is over, and forgets keys that are older than KeepKey, until ctx ends. Every
// instance does so, without a lock: the step that ends a reservation decides, and the others find that it has ended.
func (s *Service) Sweep(ctx context.Context) {
	var broken error
	forget := time.Now()
	for pause := time.Duration(0); lock.Sleep(ctx, pause) == nil; {
		found, err := s.sweep(ctx)
		if err == nil && !time.Now().Before(forget) {
			forget = time.Now().Add(forgetEvery)
			err = s.forget(ctx)
		}
		switch {
		case err != nil:
			pause = sweepRest
			if broken == nil && ctx.Err() == nil && s.Log != nil { // once, not twice a second
				s.Log.Warn("reservations that have expired are not given back", "err", err)
			}
		case found == sweepBatch:
			pause = 0 // there are more
		default:
			pause = sweepEvery
		}
		if err == nil && broken != nil && s.Log != nil {
			s.Log.Info("reservations that have expired are given back again")
		}
		broken = err
	}
}

// sweep ends one batch of reservations whose time is over, and returns how many it found.
func (s *Service) sweep(ctx context.Context) (found int, err error) {
	due, err := read(ctx, s, func(ctx context.Context) ([]Reservation, error) { return s.Store.Due(ctx, sweepBatch) })
	if err != nil {
		return 0, err
	}
	for rest := due; len(rest) > 0; {
		n, lines := 1, len(rest[0].Lines)
		for n < len(rest) && lines+len(rest[n].Lines) <= mergeLines {
			lines += len(rest[n].Lines)
			n++
		}
		var one error
		for i, out := range s.expire(ctx, rest[:n]) {
			if errors.Is(out.Err, lock.ErrDown) || errors.Is(out.Err, lock.ErrOverloaded) || ctx.Err() != nil {
				return 0, out.Err
			}
			if out.Err != nil { // of this one alone, such as books that do not balance: the others are to be ended
				one = fmt.Errorf("reservation %s: %w", rest[i].ID, out.Err)
			}
		}
		err, rest = cmp.Or(err, one), rest[n:]
	}
	return len(due), err
}

// expire ends reservations in one step of the store. It takes no lock, whatever the Service does: the step alone keeps
// the books right. Where others sweep, too, the store lets one of them be first, and the rest find nothing to do.
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

// forget removes keys that nobody will send again.
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
