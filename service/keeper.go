package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
)

// recallTimeout is how long the other store has to say what it remembers. It is part of a health probe of this one.
const recallTimeout = 300 * time.Millisecond

// A Seed says what to put in stock at the first start of a demonstration. An empty SKU: nothing.
type Seed struct {
	SKU      SKU
	Quantity int64
}

// A Keeper knows whether one store still has its data, and seeds it at its first start. It is a Dependency of what is
// sold from the store, beside the server: a Redis that came back empty still keeps locks. It is safe for concurrent
// use.
//
// It tells by the store's Origin, which it compares with the one that it has seen before, and with the one that the
// other store remembers. What an instance finds it writes down in the store, so that all instances know, also those
// that remember nothing.
//
// It notices that the store is empty, or has data of an earlier origin, if this instance was running before, or the
// other store remembers. It cannot notice:
//
//   - a part of the data that is missing, while the origin is there: the last second of an append-only file, what a
//     replica had not heard when it was promoted, a backup of the same origin;
//   - a loss of both stores, or of the only one, while no instance was running: what is empty everywhere is a first
//     start, and is seeded. With only one store this is also so for an instance that starts after the loss, until the
//     next Check of one that was running before. Whoever keeps only one store, or starts from backups, sets Seed to
//     nothing;
//   - anything between the loss and the next Check: an empty store answers ErrUnknownSKU then, one with older data
//     sells it.
type Keeper struct {
	name    string // of the store, for people
	place   string // of the store, for the other's memory
	origins Origins
	other   Remembrance
	seed    Seed
	changed func(err error)

	checking chan struct{} // has one place: one Check at a time
	begun    atomic.Uint64 // how many Checks have begun

	mu     sync.Mutex
	known  Origin // the last one that was right
	asked  bool   // the other store has said what it remembers, and knows what we know
	seeded bool   // nothing more to seed
	bad    error  // nil: the store has its data
	good   context.Context
	end    context.CancelCauseFunc
}

// A Remembrance is the other store, and whether it can be asked. With a nil Memory there is none.
type Remembrance struct {
	Name   string
	Memory Memory
	Server Dependency
}

// KeeperConfig is what a Keeper is made of.
type KeeperConfig struct {
	Name string // of the store: "redis"
	// Place tells this store from others that the other store may have been used with, such as its address. What is
	// remembered of one place says nothing of another: a store that is moved to another address and loses its data
	// at the same time is not noticed.
	Place   string
	Origins Origins // of the same store
	Seed    Seed
	Changed func(err error) // is told whenever Err is another than before
}

// NewKeeper makes a Keeper that has not looked yet: Err is not nil until Check has.
func NewKeeper(c KeeperConfig) *Keeper {
	k := &Keeper{
		name: c.Name, place: c.Place, origins: c.Origins, seed: c.Seed, changed: c.Changed,
		bad:      &lock.DownError{Server: c.Name, Reason: "not asked yet"},
		checking: make(chan struct{}, 1),
	}
	k.good, k.end = context.WithCancelCause(context.Background())
	k.end(k.bad)
	return k
}

// Beside makes o the store that remembers. It is called before the first Check.
func (k *Keeper) Beside(o Remembrance) { k.other = o }

// Err is nil if the store has its data; a DataLostError if it has lost them; a lock.DownError as long as that is not
// known.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bad
}

// Up returns a ctx that ends when the store is found without its data, with Err as its cause. It has ended while the
// store is without.
func (k *Keeper) Up() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.good
}

// Again makes the next Check tell the other store once more: it may have forgotten.
func (k *Keeper) Again() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = false
}

// Check looks whether the store has its data, and seeds what is to be seeded. It is part of every health probe. As
// long as nothing has changed it is one round trip. An error is of the store's server; what was found out about the
// data is Err.
func (k *Keeper) Check(ctx context.Context) error {
	k.checking <- struct{}{}
	defer k.free()
	return k.check(ctx)
}

// Look is Check for a store that is known to have lost its data: a person may have set it by another instance since
// the last probe. Of many callers at once one looks, for all who came before that.
func (k *Keeper) Look(ctx context.Context) error {
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

// free ends what has the place in checking.
func (k *Keeper) free() { <-k.checking }

func (k *Keeper) check(ctx context.Context) error {
	k.begun.Add(1)
	// A few tries: several instances may start on an empty store at the same moment, and one of them is first.
	for range 5 {
		now, err := k.origins.Origin(ctx)
		if err != nil {
			return err
		}
		settled, err := k.judge(ctx, now)
		if err != nil || settled {
			return err
		}
	}
	return lock.Down("look at the origin", fmt.Errorf("%s: it changes all the time", k.name))
}

// judge compares now with what is remembered. It is not settled if the record has changed meanwhile.
func (k *Keeper) judge(ctx context.Context, now Origin) (settled bool, err error) {
	unasked := k.recall(ctx)
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	switch {
	case now.Lost:
		if !errors.Is(k.Err(), ErrDataLost) { // which may say more
			k.is(&DataLostError{Store: k.name})
		}
		return true, nil
	case now.None() && known.None() && unasked != nil:
		k.is(unasked)
		return true, nil
	case now.None() && known.None():
		_, err := k.origins.Replace(ctx, now, newOrigin(1, false))
		return false, err
	case now.follows(known):
		k.learn(now)
		return true, k.sow(ctx, now)
	default:
		// It is written down, so that an instance which remembers nothing sells nothing either.
		_, err := k.origins.Replace(ctx, now, newOrigin(max(now.Generation, known.Generation), true))
		return false, err
	}
}

// follows reports whether data with this origin may be there where known was the origin before: it is the same data, or
// that of somebody who set stock since.
func (o Origin) follows(known Origin) bool {
	return !o.None() && (known.None() || o.ID == known.ID || o.Generation > known.Generation)
}

// learn takes o as the origin that is right.
func (k *Keeper) learn(o Origin) {
	k.mu.Lock()
	if o.ID != k.known.ID {
		k.known, k.asked = o, false
	}
	k.mu.Unlock()
	k.is(nil)
}

// is makes err the state.
func (k *Keeper) is(err error) {
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
		k.changed(err)
	}
}

// recall asks the other store what it remembers of this one, and tells it what is known here. Once is enough, until
// something changes. The error says that it could not be asked.
func (k *Keeper) recall(ctx context.Context) error {
	k.mu.Lock()
	known, asked := k.known, k.asked
	k.mu.Unlock()
	if asked || k.other.Memory == nil {
		return nil
	}
	unasked := &lock.DownError{Server: k.name, Reason: fmt.Sprintf(
		"it is empty, and %s, which would know whether it has lost its data, cannot be asked: "+
			"start %s, or set the stock (PUT /v1/stock/{sku}?store=%s)", k.other.Name, k.other.Name, k.name)}
	if k.other.Server.Err() != nil {
		return unasked
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	remembered, err := k.other.Memory.Recall(ctx, k.place)
	if err != nil {
		return unasked
	}
	if !remembered.None() && remembered.Generation >= known.Generation {
		// Also one of the same generation: nobody set the stock in between, so this store has been exchanged.
		known = remembered
	} else if !known.None() && remembered.ID != known.ID {
		if err := k.other.Memory.Remember(ctx, k.place, known); err != nil {
			return unasked
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.asked = known, !known.None()
	return nil
}

// sow seeds, once in the life of a store: a SKU that was seeded and is not there any more was lost, or removed by a
// person. A store that was set by a person after a loss is not seeded at all. Nothing is seeded before the other
// store knows of this one. Each Check tries again until the store has answered: what became of a request whose reply
// was lost is known to the store alone.
func (k *Keeper) sow(ctx context.Context, now Origin) error {
	if k.recall(ctx) != nil {
		return nil
	}
	k.mu.Lock()
	done := k.seeded || k.seed.SKU == "" || now.Generation > 1 || k.known.ID != now.ID
	k.mu.Unlock()
	if done {
		return nil
	}
	if err := k.origins.Seed(ctx, now, k.seed.SKU, k.seed.Quantity); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seeded = true
	return nil
}

// Current names the data that the store has: the id of its origin, "" as long as that is not known.
func (k *Keeper) Current() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known.ID
}

// GoneBack says that the store has an older copy of its data, which the origin does not tell: somebody knows of more
// than is there. It is a loss as any other, which is written down for all instances. Of is what Current said before the
// copy was read: if the data have another origin by now, a person has set stock meanwhile, and nothing is written. It
// returns Err.
func (k *Keeper) GoneBack(ctx context.Context, of string, why error) error {
	k.checking <- struct{}{}
	defer k.free()
	now, err := k.origins.Origin(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	known, bad := k.known, k.bad
	k.mu.Unlock()
	if bad == nil && now == known && known.ID == of {
		done, err := k.origins.Replace(ctx, now, newOrigin(now.Generation, true))
		if err != nil {
			return err
		}
		if done {
			k.is(&DataLostError{k.name, why})
			return k.Err()
		}
	}
	if err := k.check(ctx); err != nil {
		return err
	}
	return k.Err()
}

// Renew says that a person has set the stock. A store without its data has an origin of its own from then on, which
// all instances accept; of one that has its data nothing changes. It is one round trip, three more where the data was
// lost.
func (k *Keeper) Renew(ctx context.Context) error {
	k.checking <- struct{}{}
	defer k.free()
	for range 5 {
		now, err := k.origins.Origin(ctx)
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
			at, err := k.origins.Now(ctx)
			if err != nil {
				return err
			}
			last := max(now.Generation, known.Generation)
			fresh := newOrigin(max(last+1, uint64(at.Unix())), false)
			switch replaced, err := k.origins.Replace(ctx, now, fresh); {
			case err != nil:
				return err
			case !replaced:
				continue
			}
			now = fresh
		}
		k.learn(now)
		_ = k.recall(ctx) // or the next Check tells the other store
		return nil
	}
	return lock.Down("renew the origin", fmt.Errorf("%s: it changes all the time", k.name))
}
