package service

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"example.com/stock/lock/driver"
)

// A DataCheckConfig has the settings of a DataCheck.
type DataCheckConfig struct {
	Name     string // of the store, such as "redis"
	Origins  Origins
	Seed     SKU // created at the first start of the store, for the demonstration; empty: none
	Quantity int64
	Changed  func(err error) // is called whenever Err changes
}

// A DataCheck checks whether a store still has its data, and seeds the store at its first start. Sales depend on it as
// well as on the server, because a Redis that came back empty still serves locks. It is safe for concurrent use.
// It compares the store's Origin with the last one that this instance has seen, and records a loss in the store for
// other instances. It cannot detect a partial loss, or a loss while no instance was running.
type DataCheck struct {
	DataCheckConfig
	checking sync.Mutex // guards known and seeded; held during calls of the store
	known    Origin     // the last origin that was accepted
	seeded   bool
	mu       sync.Mutex
	err      error
	good     context.Context // ends when the data are lost
	end      context.CancelCauseFunc
}

// NewDataCheck returns a DataCheck whose Err is not nil until Check has run.
func NewDataCheck(c DataCheckConfig) *DataCheck {
	k := &DataCheck{DataCheckConfig: c, err: driver.NewDown(c.Name, "not-asked-yet")}
	k.good, k.end = context.WithCancelCause(context.Background())
	k.end(k.err)
	return k
}

func (k *DataCheck) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

func (k *DataCheck) Up() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.good
}

func (k *DataCheck) set(err error) {
	k.mu.Lock()
	before := k.err
	switch {
	case err == nil && before != nil:
		k.good, k.end = context.WithCancelCause(context.Background())
	case err != nil:
		k.end(err)
	}
	k.err = err
	k.mu.Unlock()
	if (err == nil) != (before == nil) || errors.Is(err, ErrDataLost) != errors.Is(before, ErrDataLost) {
		k.Changed(err)
	}
}

func (k *DataCheck) Look(ctx context.Context) error {
	if errors.Is(k.Err(), ErrDataLost) {
		if err := k.Check(ctx); err != nil {
			return err
		}
	}
	return k.Err()
}

// Check also seeds a new store. It takes one round trip if nothing has changed.
func (k *DataCheck) Check(ctx context.Context) error {
	return k.agree(ctx, func(now Origin) (Origin, error) {
		switch {
		case now.Lost, now.follows(k.known):
			return now, nil
		case now.ID == "" && k.known.ID == "":
			return Origin{ID: rand.Text(), Generation: 1}, nil
		}
		// The loss is recorded in the store, so that an instance which remembers nothing sells nothing either.
		return Origin{ID: rand.Text(), Generation: max(now.Generation, k.known.Generation), Lost: true}, nil
	})
}

// Renew gives the store a new origin after a loss, which all instances accept.
func (k *DataCheck) Renew(ctx context.Context) error {
	return k.agree(ctx, func(now Origin) (Origin, error) {
		if !now.Lost && now.follows(k.known) {
			return now, nil
		}
		at, err := k.Origins.Now(ctx)
		next := max(now.Generation+1, k.known.Generation+1, uint64(at.Unix()))
		return Origin{ID: rand.Text(), Generation: next}, err
	})
}

// agree replaces the origin until it is as it should be, and accepts it. If several instances change it at the same
// moment, such as at the first start, all read the one that was first.
func (k *DataCheck) agree(ctx context.Context, should func(now Origin) (Origin, error)) error {
	k.checking.Lock()
	defer k.checking.Unlock()
	for range 5 {
		now, err := k.Origins.Origin(ctx)
		if err != nil {
			return err
		}
		next, err := should(now)
		if err != nil {
			return err
		}
		if next == now {
			return k.accept(ctx, now)
		}
		if err := k.Origins.Replace(ctx, now, next); err != nil {
			return err
		}
	}
	return driver.Down("check the origin", errors.New("it keeps changing"))
}

// accept seeds a new store, before the first request could miss the SKU, but none in which a person has set stock after
// a loss.
func (k *DataCheck) accept(ctx context.Context, now Origin) error {
	if now.Lost {
		k.set(&DataLostError{Store: k.Name})
		return nil
	}
	k.known = now
	if !k.seeded && k.Seed != "" && now.Generation == 1 {
		if err := k.Origins.Seed(ctx, now, k.Seed, k.Quantity); err != nil {
			return err
		}
		k.seeded = true
	}
	k.set(nil)
	return nil
}
