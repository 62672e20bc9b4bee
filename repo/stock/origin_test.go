package stock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// A bareRedis is an empty Redis behind a proxy, and what a person can do to it by hand.
type bareRedis struct {
	p             proxy
	broken, sound *stock.Redis
	direct        redis.UniversalClient
}

func bare(t testing.TB, addr string) (s bareRedis) {
	t.Helper()
	s.p = newProxy(t, addr, wire.Redis())
	s.direct = dialRedis(t, addr)
	through := redis.NewClient(&redis.Options{ // as an instance has it
		Addr: s.p.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = through.Close() })
	s.broken, s.sound = stock.NewRedis(repo.NewRedis(through)), stock.NewRedis(repo.NewRedis(s.direct))
	return s
}

// remove deletes the key of the stock alone.
func (s bareRedis) remove(t testing.TB, sku service.SKU) {
	t.Helper()
	if err := s.direct.Del(short(t), "stock:{"+string(sku)+"}").Err(); err != nil {
		t.Fatal(err)
	}
}

// onBare runs check on an empty Redis, and on an empty miniredis.
func onBare(t *testing.T, check func(t *testing.T, s bareRedis)) {
	t.Run("redis", func(t *testing.T) { check(t, bare(t, servertest.Redis(t).Addr)) })
	t.Run("miniredis", func(t *testing.T) { check(t, bare(t, miniAddr(t))) })
}

// An origin is recorded where the expected one is, and not otherwise.
func TestOriginIsComparedAndSwapped(t *testing.T) {
	t.Parallel()
	onBare(t, func(t *testing.T, bare bareRedis) {
		s := bare.sound
		none := service.Origin{}
		one, two := service.Origin{ID: "one", Generation: 1}, service.Origin{ID: "two", Generation: 1_800_000_000}
		lost := service.Origin{ID: "lost", Generation: 1, Lost: true}
		for _, step := range []struct {
			was, is, now service.Origin
		}{
			{one, two, none},
			{none, one, one},
			{none, two, one},
			{service.Origin{ID: "one", Generation: 2}, two, one},
			{service.Origin{ID: "one", Generation: 1, Lost: true}, two, one},
			{one, lost, lost},
			{one, two, lost},
			{lost, two, two},
		} {
			err := s.Replace(short(t), step.was, step.is)
			now, failed := s.Origin(short(t))
			if err != nil || failed != nil || now != step.now {
				t.Errorf("Replace(%v, %v): %v; now %v, %v; want %v", step.was, step.is, err, now, failed, step.now)
			}
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
	onBare(t, func(t *testing.T, store bareRedis) {
		s, there := store.sound, store.sound
		seeds := func(want bool, o service.Origin, sku service.SKU) {
			t.Helper()
			if err := s.Seed(short(t), o, sku, 10); err != nil || (in(t, there, sku) != nil) != want {
				t.Errorf("Seed(%v, %s): %v; there: %v, want %v", o, sku, err, in(t, there, sku) != nil, want)
			}
		}
		one := service.Origin{ID: "one", Generation: 1}
		seeds(false, one, "pen") // there is none
		if err := s.Replace(short(t), service.Origin{}, one); err != nil {
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
		if err := s.Replace(short(t), one, lost); err != nil {
			t.Fatal(err)
		}
		seeds(false, lost, "ink")
	})
}

// A lost request or reply does not keep a store unseeded, and nothing is seeded twice: neither what a person has
// removed since, nor what a store has lost.
func TestALostReplyLeavesNoStoreUnseeded(t *testing.T) {
	t.Parallel()
	for _, fault := range []wire.Action{wire.Cut, wire.CutReply} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			t.Parallel()
			s := bare(t, servertest.Redis(t).Addr)
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

// seededAfter makes a first start with that fault at request n, and reports whether there were so many requests. Then
// the SKU is removed, and must stay away: from the instance that seeded it, and from another.
func seededAfter(t *testing.T, s bareRedis, fault wire.Action, n int) bool {
	t.Helper()
	if err := s.direct.FlushDB(short(t)).Err(); err != nil {
		t.Fatal(err)
	}
	instance := func() *service.DataCheck {
		return service.NewDataCheck(service.DataCheckConfig{
			Name: "store", Origins: s.broken, Changed: func(error) {}, Seed: "first", Quantity: 10,
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

// A database is seeded once, while it has no stock.
func TestADatabaseIsSeededOnce(t *testing.T) {
	t.Parallel()
	s := stock.NewMySQL(repo.NewMySQL(openMySQL(t, database(t))))
	var instances sync.WaitGroup
	for range 4 {
		instances.Go(func() {
			if err := s.Seed(short(t), "first", 10); err != nil {
				t.Error(err)
			}
		})
	}
	instances.Wait()
	first := mustRead(t, s, "first")
	want(t, s, service.Stock{SKU: "first", Quantity: 10, Initial: 10, Version: 1, Epoch: first.Epoch})
	if err := s.Seed(short(t), "second", 10); err != nil || in(t, s, "second") != nil {
		t.Errorf("a database with stock is seeded: %v", err)
	}
	if err := s.Seed(short(t), "odd", -1); invalid(err) != repotest.ErrInvalid {
		t.Error(err)
	}
}
