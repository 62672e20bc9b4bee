package selltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/service"
)

// A ledger is what a DataCheck records in a store. It can be lost. See origin_test.go in package repo/stock for what a
// real one does.
type ledger struct {
	origin    service.Origin
	first     map[service.SKU]bool
	seeded    int
	clock     time.Time
	written   []service.Origin // every origin that was written
	lost      string           // what is lost of the next Seed: "request", "reply", or nothing
	meanwhile func()           // happens before the next Replace; nil: nothing
}

func (l *ledger) Origin(context.Context) (service.Origin, error) { return l.origin, nil }

func (l *ledger) Now(context.Context) (time.Time, error) { return l.clock, nil }

func (l *ledger) Replace(_ context.Context, was, is service.Origin) error {
	if f := l.meanwhile; f != nil {
		l.meanwhile = nil
		f()
	}
	if l.origin == was {
		l.origin, l.written = is, append(l.written, is)
	}
	return nil
}

func (l *ledger) Seed(_ context.Context, o service.Origin, sku service.SKU, _ int64) error {
	lost := l.lost
	l.lost = ""
	if lost != "request" && l.origin == o && !l.first[sku] {
		l.first = map[service.SKU]bool{sku: true}
		l.seeded++
	}
	if lost != "" {
		return service.ErrOutcomeUnknown
	}
	return nil
}

// lose empties the store.
func (l *ledger) lose() { *l = ledger{seeded: l.seeded, clock: l.clock} }

// instance is the DataCheck of a new instance, which remembers nothing.
func instance(l *ledger) *service.DataCheck {
	return service.NewDataCheck(service.DataCheckConfig{
		Name: "redis", Origins: l, Seed: "stock", Quantity: 1, Changed: func(error) {},
	})
}

// finds checks, and wants Err to match; nil: the store has its data.
func finds(t *testing.T, what string, k *service.DataCheck, want error) {
	t.Helper()
	if err := k.Check(t.Context()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if err := k.Err(); !errors.Is(err, want) {
		t.Errorf("%s: found %v, want %v", what, err, want)
	}
}

// lostByTwo returns a store that has lost its data, and two instances that have found that out.
func lostByTwo(t *testing.T) (l *ledger, k, other *service.DataCheck) {
	t.Helper()
	l = &ledger{clock: time.Now()}
	k, other = instance(l), instance(l)
	finds(t, "first start", k, nil)
	finds(t, "another instance", other, nil)
	l.lose()
	finds(t, "after a loss", k, service.ErrDataLost)
	finds(t, "another instance after a loss", other, service.ErrDataLost)
	return l, k, other
}

// Two instances are told at the same moment that a person has set the stock: both end with the one new origin.
func TestTwoInstancesRenewAtOnce(t *testing.T) {
	l, k, other := lostByTwo(t)
	written := len(l.written)
	l.meanwhile = func() {
		if err := other.Renew(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := k.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if len(l.written) != written+1 {
		t.Errorf("%d origins were written, want 1", len(l.written)-written)
	}
	for _, i := range []*service.DataCheck{k, other} {
		finds(t, "renewed", i, nil) // not so if it had another one
	}
}

// A person sets the stock before anybody has noticed the loss: that is as good as after.
func TestSetBeforeTheLossIsNoticed(t *testing.T) {
	l := &ledger{clock: time.Now()}
	k, other := instance(l), instance(l)
	finds(t, "first start", k, nil)
	finds(t, "another instance", other, nil)
	l.lose()
	if err := k.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	finds(t, "the one that was told", k, nil)
	finds(t, "another instance after it", other, nil)
}

// When a person has set the stock by another instance, nobody is told afterwards that the data are lost.
func TestDataCheckLooksAgainAfterALoss(t *testing.T) {
	_, k, other := lostByTwo(t)
	if err := k.Look(t.Context()); !errors.Is(err, service.ErrDataLost) {
		t.Errorf("nobody has set the stock: %v", err)
	}
	if err := other.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if err := k.Look(t.Context()); err != nil {
		t.Errorf("set by another instance: %v", err)
	}
}

// As long as the store has not said that it is seeded, each look tries again.
func TestDataCheckSeedsUntilItIsAnswered(t *testing.T) {
	for _, lost := range []string{"request", "reply"} {
		l := &ledger{lost: lost}
		k := instance(l)
		if err := k.Check(t.Context()); !errors.Is(err, service.ErrOutcomeUnknown) {
			t.Errorf("the %s was lost: %v", lost, err)
		}
		finds(t, "asked again", k, nil)
		finds(t, "and again", k, nil)
		if l.seeded != 1 {
			t.Errorf("the %s was lost: seeded %d times", lost, l.seeded)
		}
	}
}

// A store that is empty, or has other data than this instance knows, is not sold from by any instance until a person
// has set the stock. It is not seeded then.
func TestDataCheckNoticesALoss(t *testing.T) {
	for name, happens := range map[string]func(*ledger){
		"empty":                      func(l *ledger) { l.lose() },
		"exchanged, same generation": func(l *ledger) { l.origin = service.Origin{ID: "another", Generation: 5} },
		"exchanged, older":           func(l *ledger) { l.origin = service.Origin{ID: "another", Generation: 4} },
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{clock: time.Now(), origin: service.Origin{ID: "ours", Generation: 5}}
			k := instance(l)
			finds(t, "before", k, nil)
			sale, end := service.While(t.Context(), k)
			defer end()
			happens(l)
			finds(t, "after", k, service.ErrDataLost)
			select {
			case <-sale.Done():
			case <-time.After(time.Minute):
			}
			if !errors.Is(context.Cause(sale), service.ErrDataLost) {
				t.Errorf("a sale under way: %v, want it ended by the loss", context.Cause(sale))
			}
			for _, o := range l.written {
				if !o.Lost {
					t.Errorf("%+v was written: an instance that remembers nothing would have sold", o)
				}
			}
			finds(t, "an instance that remembers nothing", instance(l), service.ErrDataLost)
			if err := k.Renew(t.Context()); err != nil || k.Err() != nil {
				t.Errorf("a person sets the stock: %v, %v", err, k.Err())
			}
			finds(t, "an instance afterwards", instance(l), nil)
			if l.seeded != 0 || l.origin.Generation <= 5 {
				t.Errorf("seeded %d times, origin %+v; want a later one and no seed", l.seeded, l.origin)
			}
		})
	}
}

// The generation of what a person has set is by the clock of the store's server: that of an instance which is behind
// would make one that others remember as older.
func TestDataCheckGoesByTheClockOfTheStore(t *testing.T) {
	clock := time.Now().Add(2 * time.Hour)
	l := &ledger{clock: clock, origin: service.Origin{ID: "lost", Generation: 1, Lost: true}}
	k := instance(l)
	finds(t, "lost", k, service.ErrDataLost)
	if err := k.Renew(t.Context()); err != nil || l.origin.Generation != uint64(clock.Unix()) {
		t.Errorf("%v; origin %+v, want the generation %d", err, l.origin, clock.Unix())
	}
	l.origin.Lost, l.clock = true, time.Unix(0, 0)
	last := l.origin.Generation
	finds(t, "lost again", k, service.ErrDataLost)
	if err := k.Renew(t.Context()); err != nil || l.origin.Generation != last+1 {
		t.Errorf("the clock went back: %v; origin %+v, want the generation %d", err, l.origin, last+1)
	}
}

// A later origin is a person's doing, by another instance.
func TestDataCheckAcceptsALaterOrigin(t *testing.T) {
	l := &ledger{clock: time.Now(), origin: service.Origin{ID: "ours", Generation: 5}}
	k := instance(l)
	finds(t, "before", k, nil)
	l.origin = service.Origin{ID: "set", Generation: 6}
	finds(t, "after", k, nil)
	l.origin = service.Origin{ID: "ours", Generation: 5}
	finds(t, "and back", k, service.ErrDataLost)
}
