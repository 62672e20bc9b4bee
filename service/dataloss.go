package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/lock/driver"
)

// Data loss: a store that comes back empty, or with older data, must not be sold from. This file decides whether a
// store still has its data. The other parts are elsewhere:
//
//   - The records that a store keeps of its own origin and of the other store's: repo/stock, files named origin.
//   - The probe that runs the check, and its log and metric: app/store.go.
//   - The error: DataLostError, which DataCheck.Err returns and every use case passes on.

// An Origin identifies the data of a store. It distinguishes a store that has lost its data from one that never had
// any. It is recorded in the store itself, before the first stock, and is lost with the data. See
// docs/adr/0007-a-store-that-lost-its-data.md.
type Origin struct {
	ID string // random; empty: the store has no origin, so this service has put no data into it
	// Generation orders the origins of one store. The first is 1. When a person sets the stock of a store that has
	// lost its data, the next generation is the time of the store's server in seconds, or the last generation plus 1
	// if that is larger. The clock of an instance is not used, because the clock of another instance may be ahead.
	Generation uint64
	Lost       bool // the data were lost: nothing is sold until a person sets the stock
}

// None reports whether o is the zero Origin.
func (o Origin) None() bool { return o.ID == "" }

func newOrigin(generation uint64, lost bool) Origin {
	return Origin{ID: rand.Text(), Generation: generation, Lost: lost}
}

// Origins is a store's record of its own origin. Errors match lock.ErrDown or ErrOutcomeUnknown. Every method is
// idempotent.
type Origins interface {
	// Origin returns the recorded origin, or the zero Origin if there is none.
	Origin(ctx context.Context) (Origin, error)
	// Now returns the time of the store's server.
	Now(ctx context.Context) (time.Time, error)
	// Replace replaces the recorded origin by is, if it equals was, in one step. Otherwise it changes nothing and
	// returns false.
	Replace(ctx context.Context, was, is Origin) (bool, error)
	// Seed puts quantity units of sku in stock, once for each SKU and origin, if o is recorded and not lost. It does
	// nothing if the SKU exists or has existed. After an error the outcome is unknown: call Seed again until it
	// returns nil.
	Seed(ctx context.Context, o Origin, sku SKU, quantity int64) error
}

// A Memory is a store that remembers the origins of other stores, by name.
type Memory interface {
	// Recall returns the last origin that was remembered for the store, or the zero Origin if there is none.
	Recall(ctx context.Context, store string) (Origin, error)
	// Remember keeps o, unless it remembers an origin of the same or a later generation.
	Remember(ctx context.Context, store string, o Origin) error
}

// recallTimeout limits a request to the other store, because the request is part of a health probe of this store.
const recallTimeout = 300 * time.Millisecond

// A Seed is the initial stock of a demonstration. If SKU is empty, nothing is seeded.
type Seed struct {
	SKU      SKU
	Quantity int64
}

// A DataCheck checks whether one store still has its data, and seeds the store at its first start. Sales depend on it
// as well as on the server, because a Redis that came back empty still serves locks. It is safe for concurrent use.
//
// It compares the store's Origin with the last one that this instance has seen, and with the one that the other store
// remembers. It records a loss in the store, so that every instance sees it, even one that has just started.
//
// It detects that the store is empty or has data of an earlier origin if this instance was running before, or if the
// other store remembers the origin. It cannot detect these losses:
//
//   - A partial loss with the origin intact: the last second of an append-only file, writes that a promoted replica
//     had not received, or a backup of the same origin.
//   - A loss of both stores, or of the only one, while no instance was running. If all stores are empty, it looks like
//     a first start, and they are seeded. With a single store an instance that starts after the loss is also misled,
//     until an instance that was running before has run Check. With a single store, or before a start from backups,
//     leave Seed empty.
//   - A new loss, until the next Check has run. Until then an empty store returns ErrUnknownSKU, and older data are
//     sold.
type DataCheck struct {
	DataCheckConfig
	other OtherStore

	checking chan struct{} // has room for one: one Check at a time
	begun    atomic.Uint64 // the number of Checks that have begun

	mu     sync.Mutex
	known  Origin // the last origin that was accepted
	asked  bool   // the other store has answered, and remembers known
	seeded bool   // nothing is left to seed
	bad    error  // nil: the store has its data
	good   context.Context
	end    context.CancelCauseFunc
}

// An OtherStore remembers the origin of this store. With a nil Memory there is none.
type OtherStore struct {
	Name   string
	Memory Memory
	Server Dependency
}

// DataCheckConfig has the settings of a DataCheck.
type DataCheckConfig struct {
	Name string // the name of the store, such as "redis"
	// Place identifies this store among those that the other store has been used with, for example by its address.
	// The other store remembers one origin for each place. So a store that moves to another address and loses its
	// data at the same time is not noticed.
	Place   string
	Origins Origins // of the same store
	Seed    Seed
	Changed func(err error) // is called whenever Err changes
}

// NewDataCheck returns a DataCheck whose Err is not nil until Check has run.
func NewDataCheck(c DataCheckConfig) *DataCheck {
	k := &DataCheck{
		DataCheckConfig: c, bad: driver.NewDown(c.Name, "not-asked-yet"),
		checking: make(chan struct{}, 1),
	}
	k.good, k.end = context.WithCancelCause(context.Background())
	k.end(k.bad)
	return k
}

// RememberIn sets the store that remembers the origin of this one. Call it before the first Check.
func (k *DataCheck) RememberIn(o OtherStore) { k.other = o }

// Err returns nil if the store has its data, a DataLostError if it has lost them, and a driver.DownError while neither
// is known.
func (k *DataCheck) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bad
}

// Up returns a ctx that ends, with Err as its cause, when Check finds that the store has lost its data. While the
// data are lost, Up returns a ctx that has ended.
func (k *DataCheck) Up() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.good
}

// RememberAgain makes the next Check ask the other store and report to it again, because the other store may have
// lost what it remembered.
func (k *DataCheck) RememberAgain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = false
}

// Check checks whether the store has its data, and seeds the store if it is new. Every health probe calls it. It takes
// one round trip if nothing has changed. Check returns only errors of the store's server; call Err for the result.
func (k *DataCheck) Check(ctx context.Context) error {
	k.checking <- struct{}{}
	defer k.free()
	return k.check(ctx)
}

// Look runs Check if the store is known to have lost its data, because a person may have set stock through another
// instance since the last probe. Concurrent callers share a check, but only one that began after they called.
func (k *DataCheck) Look(ctx context.Context) error {
	if err := k.Err(); !errors.Is(err, ErrDataLost) {
		return err
	}
	before := k.begun.Load()
	select {
	case k.checking <- struct{}{}:
	case <-ctx.Done():
		return k.Err()
	}
	defer k.free()
	if k.begun.Load() == before {
		if err := k.check(ctx); err != nil {
			return err
		}
	}
	return k.Err()
}

func (k *DataCheck) free() { <-k.checking }

func (k *DataCheck) check(ctx context.Context) error {
	k.begun.Add(1)
	// Several instances may start on an empty store at the same moment. The first records an origin; Replace fails for
	// the others, so they read it in the next round.
	for range 5 {
		now, err := k.Origins.Origin(ctx)
		if err != nil {
			return err
		}
		settled, err := k.judge(ctx, now)
		if err != nil || settled {
			return err
		}
	}
	return driver.Down("check the origin", fmt.Errorf("%s: it keeps changing", k.Name))
}

// judge compares the current origin with the remembered one. settled is false if the record changed in between.
func (k *DataCheck) judge(ctx context.Context, now Origin) (settled bool, err error) {
	unasked := k.recall(ctx)
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	switch {
	case now.Lost:
		if !errors.Is(k.Err(), ErrDataLost) { // otherwise Err may already have the reason
			k.set(&DataLostError{Store: k.Name})
		}
		return true, nil
	case now.None() && known.None() && unasked != nil:
		k.set(unasked)
		return true, nil
	case now.None() && known.None():
		_, err := k.Origins.Replace(ctx, now, newOrigin(1, false))
		return false, err
	case now.follows(known):
		k.know(now)
		if err := k.seedOnce(ctx, now); err != nil {
			return true, err
		}
		k.set(nil) // not before it is seeded: the first request would find no SKU
		return true, nil
	default:
		// The loss is recorded in the store, so that an instance which remembers nothing sells nothing either.
		_, err := k.Origins.Replace(ctx, now, newOrigin(max(now.Generation, known.Generation), true))
		return false, err
	}
}

// follows reports whether a store with the origin known may have the origin o later: the data are the same, or a person
// has set stock in between.
func (o Origin) follows(known Origin) bool {
	return !o.None() && (known.None() || o.ID == known.ID || o.Generation > known.Generation)
}

// know records the origin of data that are accepted.
func (k *DataCheck) know(o Origin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.ID != k.known.ID {
		k.known, k.asked = o, false
	}
}

// set sets the error that Err returns.
func (k *DataCheck) set(err error) {
	k.mu.Lock()
	before := k.bad
	switch {
	case err == nil && before != nil:
		k.good, k.end = context.WithCancelCause(context.Background())
	case err != nil:
		k.end(err)
	}
	k.bad = err
	k.mu.Unlock()
	if (err == nil) != (before == nil) || err != nil && err.Error() != before.Error() {
		k.Changed(err)
	}
}

// recall asks the other store which origin of this store it remembers, and reports to it the origin that is known here.
// It does both once, and again after a change. It returns an error if the other store did not answer.
func (k *DataCheck) recall(ctx context.Context) error {
	k.mu.Lock()
	known, asked := k.known, k.asked
	k.mu.Unlock()
	if asked || k.other.Memory == nil {
		return nil
	}
	unasked := driver.NewDown(k.Name, "empty-store", "other", k.other.Name, "again", k.other.Name,
		"request", "PUT /v1/stock/{sku}?store="+k.Name)
	if k.other.Server.Err() != nil {
		return unasked
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	remembered, err := k.other.Memory.Recall(ctx, k.Place)
	if err != nil {
		return unasked
	}
	if !remembered.None() && remembered.Generation >= known.Generation {
		// The same generation with another id means that no person has set the stock: the store was exchanged.
		known = remembered
	} else if !known.None() && remembered.ID != known.ID {
		if err := k.other.Memory.Remember(ctx, k.Place, known); err != nil {
			return unasked
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.asked = known, !known.None()
	return nil
}

// seedOnce creates the initial stock, once per store. A SKU that was seeded and no longer exists was lost, or a person
// removed it, so it is not seeded again. A store in which a person has set stock after a loss is not seeded either.
// seedOnce does nothing until the other store remembers this one. Each Check tries again until the store has answered,
// because after a lost reply only the store knows the outcome.
func (k *DataCheck) seedOnce(ctx context.Context, now Origin) error {
	if k.recall(ctx) != nil {
		return nil
	}
	k.mu.Lock()
	done := k.seeded || k.Seed.SKU == "" || now.Generation > 1 || k.known.ID != now.ID
	k.mu.Unlock()
	if done {
		return nil
	}
	if err := k.Origins.Seed(ctx, now, k.Seed.SKU, k.Seed.Quantity); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seeded = true
	return nil
}

// Renew records that a person has set the stock. If the store had lost its data, it gets a new origin, which all
// instances accept; otherwise nothing changes. It takes one round trip, and three more after a loss.
func (k *DataCheck) Renew(ctx context.Context) error {
	k.checking <- struct{}{}
	defer k.free()
	for range 5 {
		now, err := k.Origins.Origin(ctx)
		if err != nil {
			return err
		}
		k.mu.Lock()
		known, bad := k.known, k.bad
		k.mu.Unlock()
		fine := !now.Lost && now.follows(known)
		if fine && bad == nil && now.ID == known.ID {
			return nil
		}
		if !fine {
			at, err := k.Origins.Now(ctx)
			if err != nil {
				return err
			}
			last := max(now.Generation, known.Generation)
			fresh := newOrigin(max(last+1, uint64(at.Unix())), false)
			switch replaced, err := k.Origins.Replace(ctx, now, fresh); {
			case err != nil:
				return err
			case !replaced:
				continue
			}
			now = fresh
		}
		k.know(now)
		k.set(nil)
		_ = k.recall(ctx) // after an error the next Check reports to the other store
		return nil
	}
	return driver.Down("renew the origin", fmt.Errorf("%s: it keeps changing", k.Name))
}
