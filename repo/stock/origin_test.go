package stock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
)

// A bareStore is a store behind a proxy, and what a person can do to it by hand.
type bareStore struct {
	p             proxy
	broken, sound shop
	remove        func(t testing.TB, sku service.SKU) // the row or key of the stock alone
	clear         func(t testing.TB)
}

// bare opens an empty store on a server or database of its own.
func bare(t testing.TB, name string) (s bareStore) {
	t.Helper()
	if name != "mysql" {
		addr := miniAddr(t)
		if name == "redis" {
			addr = servertest.Redis(t).Addr
		}
		s.p = newProxy(t, addr, wire.Redis())
		direct := dialRedis(t, addr)
		through := redis.NewClient(&redis.Options{ // as an instance has it
			Addr: s.p.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		})
		t.Cleanup(func() { _ = through.Close() })
		s.broken, s.sound = onRedis(through), onRedis(direct)
		s.remove = func(t testing.TB, sku service.SKU) {
			done(t, direct.Del(short(t), "stock:{"+string(sku)+"}").Err())
		}
		s.clear = func(t testing.TB) { done(t, direct.FlushDB(short(t)).Err()) }
		return s
	}
	dsn := database(t)
	_, rest, _ := strings.Cut(dsn, "(")
	addr, _, _ := strings.Cut(rest, ")")
	s.p = newProxy(t, addr, wire.MySQL())
	db := openMySQL(t, dsn)
	s.broken, s.sound = onMySQL(openMySQL(t, strings.Replace(dsn, addr, s.p.Addr(), 1))), onMySQL(db)
	s.remove = func(t testing.TB, sku service.SKU) {
		done(t, db.Exec("DELETE FROM stock WHERE sku = ?", string(sku)).Error)
	}
	s.clear = func(t testing.TB) {
		for _, table := range []string{"stock", "orders", "origins"} {
			done(t, db.Exec("DELETE FROM "+table).Error)
		}
	}
	return s
}

func done(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorders runs check on every store.
func recorders(t *testing.T, check func(t *testing.T, s recorder)) {
	stores(t, func(t *testing.T, s bareStore) { check(t, s.sound.(recorder)) })
}

// stores runs check on every store.
func stores(t *testing.T, check func(t *testing.T, s bareStore)) {
	for _, name := range []string{"redis", "miniredis", "mysql"} {
		t.Run(name, func(t *testing.T) { check(t, bare(t, name)) })
	}
}

// An origin is recorded where the expected one is, and not otherwise.
func TestOriginIsComparedAndSwapped(t *testing.T) {
	t.Parallel()
	recorders(t, func(t *testing.T, s recorder) {
		none := service.Origin{}
		one, two := service.Origin{ID: "one", Generation: 1}, service.Origin{ID: "two", Generation: 1_800_000_000}
		lost := service.Origin{ID: "lost", Generation: 1, Lost: true}
		for _, step := range []struct {
			was, is, now service.Origin
			done         bool
		}{
			{one, two, none, false},
			{none, one, one, true},
			{none, two, one, false},
			{service.Origin{ID: "one", Generation: 2}, two, one, false},
			{service.Origin{ID: "one", Generation: 1, Lost: true}, two, one, false},
			{one, lost, lost, true},
			{one, two, lost, false},
			{lost, two, two, true},
		} {
			done, err := s.Replace(short(t), step.was, step.is)
			now, failed := s.Origin(short(t))
			if err != nil || failed != nil || done != step.done || now != step.now {
				t.Errorf("Replace(%v, %v): %v, %v; now %v, %v; want %v, %v",
					step.was, step.is, done, err, now, failed, step.done, step.now)
			}
		}
	})
}

// Of many who find no origin one records his.
func TestOneOriginOfMany(t *testing.T) {
	t.Parallel()
	recorders(t, func(t *testing.T, s recorder) {
		var done sync.WaitGroup
		var mu sync.Mutex
		var winners []string
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			done.Go(func() {
				won, err := s.Replace(short(t), service.Origin{}, service.Origin{ID: id, Generation: 1})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if won {
					winners = append(winners, id)
				}
			})
		}
		done.Wait()
		if now, err := s.Origin(short(t)); err != nil || len(winners) != 1 || now.ID != winners[0] {
			t.Errorf("winners %v, recorded %v, %v", winners, now, err)
		}
	})
}

// in returns what is in stock; nil: there is no such SKU.
func in(t testing.TB, s shop, sku service.SKU) (quantity *int64) {
	t.Helper()
	stock, err := s.Read(short(t), sku)
	switch {
	case err == nil:
		return &stock.Quantity
	case !errors.Is(err, service.ErrUnknownSKU):
		t.Fatal(err)
	}
	return nil
}

// A SKU is seeded once with an origin, and only with the one that is there.
func TestSeedIsOnce(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, store bareStore) {
		s, there := store.sound.(recorder), store.sound
		seeds := func(want bool, o service.Origin, sku service.SKU) {
			t.Helper()
			if err := s.Seed(short(t), o, sku, 10); err != nil || (in(t, there, sku) != nil) != want {
				t.Errorf("Seed(%v, %s): %v; there: %v, want %v", o, sku, err, in(t, there, sku) != nil, want)
			}
		}
		one := service.Origin{ID: "one", Generation: 1}
		seeds(false, one, "pen") // there is none
		if _, err := s.Replace(short(t), service.Origin{}, one); err != nil {
			t.Fatal(err)
		}
		seeds(false, service.Origin{ID: "two", Generation: 1}, "pen")
		seeds(true, one, "pen")
		epoch := mustRead(t, there, "pen").Epoch
		want(t, there, service.Stock{SKU: "pen", Quantity: 10, Initial: 10, Version: 1, Epoch: epoch})
		seeds(true, one, "Pen")
		set := mustSet(t, there, "set", 7)
		seeds(true, one, "set")
		want(t, there, set)
		for _, sku := range []service.SKU{"pen", "set"} {
			store.remove(t, sku)
			seeds(false, one, sku)
		}
		for _, quantity := range []int64{-1, service.MaxStock + 1} {
			if err := s.Seed(short(t), one, "odd", quantity); invalid(err) != repotest.ErrInvalid {
				t.Errorf("%d units: %v", quantity, err)
			}
		}
		lost := service.Origin{ID: "one", Generation: 1, Lost: true}
		if _, err := s.Replace(short(t), one, lost); err != nil {
			t.Fatal(err)
		}
		seeds(false, lost, "ink")
	})
}

// A lost request or reply does not keep a store unseeded, and nothing is seeded twice: neither what a person has
// removed since, nor what a store has lost.
func TestALostReplyLeavesNoStoreUnseeded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "mysql"} {
		for _, fault := range []wire.Action{wire.Cut, wire.CutReply} {
			t.Run(fmt.Sprint(name, "/", fault), func(t *testing.T) {
				t.Parallel()
				s := bare(t, name)
				n := 0
				for n < 50 && seededAfter(t, s, fault, n) {
					n++
				}
				if n < 5 || n == 50 {
					t.Errorf("%d requests: the faults were elsewhere", n)
				}
			})
		}
	}
}

// seededAfter makes a first start with that fault at request n, and reports whether there were so many requests. Then
// the SKU is removed, and must stay away: from the instance that seeded it, and from another.
func seededAfter(t *testing.T, s bareStore, fault wire.Action, n int) bool {
	t.Helper()
	s.clear(t)
	instance := func() *service.DataCheck {
		return service.NewDataCheck(service.DataCheckConfig{
			Name: "store", Place: "here", Origins: s.broken.(recorder), Changed: func(error) {},
			Seed: service.Seed{SKU: "first", Quantity: 10},
		})
	}
	check := func(k *service.DataCheck) {
		t.Helper()
		servertest.Eventually(t, time.Minute, "the store is up", func() (bool, string) {
			ctx, cancel := contextOf(t, 20*time.Second)
			defer cancel()
			err := k.Check(ctx)
			return err == nil && k.Err() == nil, fmt.Sprint(err, k.Err())
		})
	}
	k := instance()
	snare := s.p.Set(wire.Trap{On: wire.ToServer, Skip: n, Do: fault})
	// If it is there, and the instance does not know that, it is removed at once.
	early := k.Check(short(t)) != nil && in(t, s.sound, "first") != nil
	if early {
		s.remove(t, "first")
	}
	check(k)
	select {
	case <-snare.Sprung():
	default:
		return false
	}
	if got := in(t, s.sound, "first"); !early && (got == nil || *got != 10) {
		t.Errorf("request %d: %v units in a store that is up, want 10", n, got)
	}
	if !early {
		s.remove(t, "first")
		check(k)
	}
	check(instance())
	if got := in(t, s.sound, "first"); got != nil {
		t.Errorf("request %d: what was removed is there again, with %d units", n, *got)
	}
	return true
}

// Of what is remembered the latest is kept, for each store by itself.
func TestRememberKeepsTheLatest(t *testing.T) {
	t.Parallel()
	recorders(t, func(t *testing.T, s recorder) {
		recalls := func(store string, want service.Origin) {
			t.Helper()
			if got, err := s.Recall(short(t), store); err != nil || got != want {
				t.Errorf("Recall(%s): %v, %v; want %v", store, got, err, want)
			}
		}
		const here, there = "redis  127.0.0.1:6379/0", "redis  127.0.0.1:6380/0"
		recalls(here, service.Origin{})
		late := service.Origin{ID: "late", Generation: 1_800_000_000}
		for _, o := range []service.Origin{
			{ID: "early", Generation: 5},
			late,
			{ID: "before", Generation: 6},
			{ID: "same", Generation: late.Generation},
		} {
			if err := s.Remember(short(t), here, o); err != nil {
				t.Fatal(err)
			}
		}
		recalls(here, late)
		recalls(there, service.Origin{})
	})
}
