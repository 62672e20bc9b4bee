package order

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
)

const (
	// sweepEvery is the pause between looks for reservations whose time is over. Their units are for sale again after
	// so long at most, and the time of the steps.
	sweepEvery = 250 * time.Millisecond
	sweepBatch = 100 // reservations that one look finds
	// forgetEvery is the pause between looks for idempotency keys that need not be remembered any more.
	forgetEvery = time.Minute
	forgetBatch = 500
	// sweepRest is the pause after an error.
	sweepRest = 2 * time.Second
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
			if broken == nil && ctx.Err() == nil && s.Log != nil { // once, not every 2 s
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
	ids, err := read(ctx, s, func(ctx context.Context) ([]string, error) { return s.Store.Due(ctx, sweepBatch) })
	if err != nil {
		return 0, err
	}
	// Several instances find the same ones at the same time. In another order they are in each other's way less.
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		one := s.expire(ctx, id)
		if errors.Is(one, lock.ErrDown) || errors.Is(one, lock.ErrOverloaded) || ctx.Err() != nil {
			return 0, one
		}
		if one != nil { // of this one alone, such as books that do not balance: the others are to be ended
			err = fmt.Errorf("reservation %s: %w", id, one)
		}
	}
	return len(ids), err
}

// expire ends one reservation. It takes no lock, whatever the Service does: the step alone keeps the books right.
func (s *Service) expire(ctx context.Context, id string) error {
	_, err := read(ctx, s, func(ctx context.Context) (struct{}, error) {
		r, err := s.Store.Reservation(ctx, id)
		if err != nil {
			return struct{}{}, err
		}
		_, _, err = s.Store.Step(ctx, About{Reservation: id, Customer: r.Customer}, expire)
		return struct{}{}, err
	})
	return err
}

// forget removes keys that nobody will send again.
func (s *Service) forget(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := read(ctx, s, func(ctx context.Context) (int, error) {
			return s.Store.Forget(ctx, time.Now().Add(-s.KeepKey), forgetBatch)
		})
		if err != nil || n < forgetBatch {
			return err
		}
	}
	return nil
}
