package stock_test

import (
	"errors"
	"sync"
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// An origin is recorded where the expected one is, and not otherwise.
func TestOriginIsComparedAndSwapped(t *testing.T) {
	t.Parallel()
	s := realRedis(t).(*stock.Redis)
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
}

func exists(t testing.TB, s shop, sku service.SKU) bool {
	t.Helper()
	_, err := s.Read(short(t), sku)
	if err != nil && !errors.Is(err, service.ErrUnknownSKU) {
		t.Fatal(err)
	}
	return err == nil
}

// A SKU is seeded once with an origin, and only with the one that is there.
func TestSeedIsOnce(t *testing.T) {
	t.Parallel()
	s := realRedis(t).(*stock.Redis)
	seeds := func(want bool, o service.Origin, sku service.SKU) {
		t.Helper()
		if err := s.Seed(short(t), o, sku, 10); err != nil || exists(t, s, sku) != want {
			t.Errorf("Seed(%v, %s): %v; there: %v, want %v", o, sku, err, !want, want)
		}
	}
	one := service.Origin{ID: "one", Generation: 1}
	seeds(false, one, "pen") // there is none
	if err := s.Replace(short(t), service.Origin{}, one); err != nil {
		t.Fatal(err)
	}
	seeds(false, service.Origin{ID: "two", Generation: 1}, "pen")
	seeds(true, one, "pen")
	epoch := mustRead(t, s, "pen").Epoch
	want(t, s, service.Stock{SKU: "pen", Quantity: 10, Initial: 10, Version: 1, Epoch: epoch})
	seeds(true, one, "Pen")
	set := mustSet(t, s, "set", 7)
	seeds(true, one, "set")
	want(t, s, set)
	for _, sku := range []service.SKU{"pen", "set"} {
		removeBooks(t, s, sku, false)
		seeds(false, one, sku)
	}
	lost := service.Origin{ID: "one", Generation: 1, Lost: true}
	if err := s.Replace(short(t), one, lost); err != nil {
		t.Fatal(err)
	}
	seeds(false, lost, "ink")
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
	if err := s.Seed(short(t), "second", 10); err != nil || exists(t, s, "second") {
		t.Errorf("a database with stock is seeded: %v", err)
	}
}
