package stock_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// A bareRedis is an empty Redis, and what a person can do to it by hand.
type bareRedis struct {
	sound  *stock.Redis
	direct redis.UniversalClient
}

func bare(t testing.TB, addr string) bareRedis {
	t.Helper()
	c := dialRedis(t, addr)
	return bareRedis{onRedis(c), c}
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
