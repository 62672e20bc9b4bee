package selltest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// A ledger is what a DataCheck records in a store, and its store's memory of another. It can be lost. See
// origin_test.go in package repo for what the real ones do.
type ledger struct {
	origin     service.Origin
	first      map[service.SKU]bool
	seeded     int
	remembered service.Origin
	clock      time.Time
	written    []service.Origin // every origin that was written
	lost       string           // what is lost of the next Seed: "request", "reply", or nothing
	meanwhile  func()           // happens before the next Replace; nil: nothing
}

func (l *ledger) Origin(context.Context) (service.Origin, error) { return l.origin, nil }

func (l *ledger) Now(context.Context) (time.Time, error) { return l.clock, nil }

func (l *ledger) Replace(_ context.Context, was, is service.Origin) (bool, error) {
	if f := l.meanwhile; f != nil {
		l.meanwhile = nil
		f()
	}
	if l.origin != was {
		return false, nil
	}
	l.origin, l.written = is, append(l.written, is)
	return true, nil
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

func (l *ledger) Recall(context.Context, string) (service.Origin, error) { return l.remembered, nil }

func (l *ledger) Remember(_ context.Context, _ string, o service.Origin) error {
	if o.Generation > l.remembered.Generation {
		l.remembered = o
	}
	return nil
}

// lose empties the store.
func (l *ledger) lose() { *l = ledger{seeded: l.seeded, remembered: l.remembered} }

// instance is the DataCheck of a new instance, which remembers nothing. other may be nil.
func instance(l, other *ledger, server service.Dependency) *service.DataCheck {
	k := service.NewDataCheck(service.DataCheckConfig{
		Name: "redis", Place: "here", Origins: l, Seed: service.Seed{SKU: "stock", Quantity: 1},
		Changed: func(error) {},
	})
	if other != nil {
		k.RememberIn(service.OtherStore{Name: "mysql", Memory: other, Server: server})
	}
	return k
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

// Two instances are told at the same moment that a person has set the stock: both end with the one new origin.
func TestTwoInstancesRenewAtOnce(t *testing.T) {
	l := &ledger{}
	k, other := instance(l, nil, nil), instance(l, nil, nil)
	finds(t, "first start", k, nil)
	finds(t, "another instance", other, nil)
	l.lose()
	finds(t, "after a loss", k, service.ErrDataLost)
	finds(t, "another instance after a loss", other, service.ErrDataLost)
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

// A slowLedger says what is recorded when it is let: what it is asked waits for next.
type slowLedger struct {
	*ledger
	asked, next chan struct{}
}

func (l slowLedger) Origin(ctx context.Context) (service.Origin, error) {
	l.asked <- struct{}{}
	<-l.next
	return l.ledger.Origin(ctx)
}

// When a person has set the stock by another instance, nobody is told afterwards that the data are lost: neither who
// looks, nor who comes while another looks. One look is for all who came before it.
func TestDataCheckLooksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slowLedger{&ledger{}, make(chan struct{}, 100), make(chan struct{}, 100)}
		k := service.NewDataCheck(service.DataCheckConfig{
			Name: "redis", Place: "here", Origins: l, Changed: func(error) {},
		})
		for range 10 {
			l.next <- struct{}{}
		}
		finds(t, "first start", k, nil)
		l.lose()
		finds(t, "lost", k, service.ErrDataLost)
		for len(l.next) > 0 {
			<-l.next
		}
		for len(l.asked) > 0 {
			<-l.asked
		}
		var all sync.WaitGroup
		look := func(want error) {
			all.Go(func() {
				if err := k.Look(t.Context()); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			})
		}
		look(service.ErrDataLost)
		synctest.Wait()
		for range 50 {
			look(nil) // came after the look had begun: it may not know yet
		}
		synctest.Wait()
		l.next <- struct{}{}
		<-l.asked
		<-l.asked // by the first of the others
		l.origin = service.Origin{ID: "set by a person", Generation: 5}
		l.next <- struct{}{}
		all.Wait()
		if len(l.asked) > 0 {
			t.Errorf("%d looks too many", len(l.asked))
		}
	})
}

func TestDataCheckSeedsOnce(t *testing.T) {
	l := &ledger{}
	k := instance(l, nil, nil)
	if !errors.Is(k.Err(), lock.ErrDown) {
		t.Errorf("before it has looked: %v, want down", k.Err())
	}
	finds(t, "first start", k, nil)
	finds(t, "again", k, nil)
	finds(t, "a second instance", instance(l, nil, nil), nil)
	if l.seeded != 1 || l.origin.Generation != 1 || l.origin.Lost {
		t.Errorf("seeded %d times, origin %+v; want once, of generation 1", l.seeded, l.origin)
	}
}

// As long as the store has not said that it is seeded, each look tries again.
func TestDataCheckSeedsUntilItIsAnswered(t *testing.T) {
	for _, lost := range []string{"request", "reply"} {
		l := &ledger{lost: lost}
		k := instance(l, nil, nil)
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

// A store is open for sale only once it is seeded: else the first customer would be told that there is no such SKU.
func TestDataCheckSeedsBeforeItOpens(t *testing.T) {
	l := &ledger{lost: "request"}
	seededAt := -1
	k := service.NewDataCheck(service.DataCheckConfig{
		Name: "redis", Origins: l, Seed: service.Seed{SKU: "stock", Quantity: 1},
		Changed: func(err error) {
			if err == nil {
				seededAt = l.seeded
			}
		},
	})
	if err := k.Check(t.Context()); !errors.Is(err, service.ErrOutcomeUnknown) || k.Err() == nil {
		t.Errorf("the seed was lost: %v, and the store is open: %v", err, k.Err() == nil)
	}
	finds(t, "asked again", k, nil)
	if seededAt != 1 {
		t.Errorf("it opened with %d seeds, want 1", seededAt)
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
			l := &ledger{origin: service.Origin{ID: "ours", Generation: 5}}
			k := instance(l, nil, nil)
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
			finds(t, "an instance that remembers nothing", instance(l, nil, nil), service.ErrDataLost)
			if err := k.Renew(t.Context()); err != nil || k.Err() != nil {
				t.Errorf("a person sets the stock: %v, %v", err, k.Err())
			}
			finds(t, "an instance afterwards", instance(l, nil, nil), nil)
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
	k := instance(l, nil, nil)
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
	l := &ledger{origin: service.Origin{ID: "ours", Generation: 5}}
	k := instance(l, nil, nil)
	finds(t, "before", k, nil)
	l.origin = service.Origin{ID: "set", Generation: 6}
	finds(t, "after", k, nil)
	l.origin = service.Origin{ID: "ours", Generation: 5}
	finds(t, "and back", k, service.ErrDataLost)
}

// What an instance cannot remember the other store does, and without that it is not known.
func TestDataCheckAsksTheOtherStore(t *testing.T) {
	server := newSwitched(t, "mysql")
	down := &driver.DownError{Server: "mysql", Reason: "the test says so"}
	l, other := &ledger{}, &ledger{}

	server.turn(t, down)
	finds(t, "empty, and the other is down", instance(l, other, server), lock.ErrDown)
	l.origin = service.Origin{ID: "ours", Generation: 1}
	k := instance(l, other, server)
	finds(t, "data, and the other is down", k, nil)
	if l.seeded != 0 {
		t.Error("it was seeded before the other store knew of it")
	}
	server.turn(t, nil)
	finds(t, "the other is up", k, nil)
	if l.seeded != 1 || other.remembered != l.origin {
		t.Errorf("seeded %d times, remembered %+v; want once, and %+v", l.seeded, other.remembered, l.origin)
	}

	l.lose()
	finds(t, "empty, and the other remembers", instance(l, other, server), service.ErrDataLost)
	l.lose()
	l.origin = service.Origin{ID: "another", Generation: 1}
	finds(t, "exchanged, and the other remembers", instance(l, other, server), service.ErrDataLost)
	server.turn(t, down)
	l.origin = service.Origin{ID: "a third", Generation: 1}
	k = instance(l, other, server)
	finds(t, "exchanged, and the other is down", k, nil)
	server.turn(t, nil)
	finds(t, "exchanged, and the other is up", k, service.ErrDataLost)
	if l.seeded != 1 {
		t.Errorf("seeded %d times, want once", l.seeded)
	}
}

// What has lost its data answers nothing, because "absent" would mean nothing. Setting the stock opens it again.
func TestAStoreThatLostItsDataSellsNothing(t *testing.T) {
	l := &ledger{}
	k := instance(l, nil, nil)
	finds(t, "first start", k, nil)
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t), func(c *service.Config) {
		here := c.Stores["here"]
		here.Data = k
		c.Stores["here"] = here
	})
	if _, err := s.sell(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.lose()
	finds(t, "lost", k, service.ErrDataLost)
	for what, err := range map[string]error{
		"sell":   second(s.sell(t.Context())),
		"stock":  second(s.Stock(t.Context(), "", s.sku)),
		"orders": second(s.Orders(t.Context(), "", s.sku, "", 1)),
		"settle": second(s.Settle(t.Context(), "here", s.sku, "01890a5d-ac96-774b-bcce-b302099a8057")),
	} {
		if !errors.Is(err, service.ErrDataLost) {
			t.Errorf("%s: %v, want it lost", what, err)
		}
	}
	if _, err := s.SetStock(t.Context(), "", s.sku, initial); err != nil {
		t.Errorf("set by a person: %v", err)
	}
	if _, err := s.sell(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	s.sold(t, 1)
}
