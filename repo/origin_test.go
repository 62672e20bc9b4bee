package repo_test

import (
	"sync"
	"testing"

	"example.com/stock/service"
)

// A recorder is what both stores are for a service.Keeper.
type recorder interface {
	service.Origins
	service.Memory
}

// recorders runs check on every store.
func recorders(t *testing.T, check func(t *testing.T, s recorder)) {
	for _, store := range []struct {
		name string
		open func(t testing.TB) shop
	}{{"redis", realRedis}, {"miniredis", miniRedis}, {"mysql", realMySQL}} {
		t.Run(store.name, func(t *testing.T) { check(t, store.open(t).(recorder)) })
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

// A SKU is seeded once with an origin, and only with the one that is there.
func TestFirstIsOnce(t *testing.T) {
	t.Parallel()
	recorders(t, func(t *testing.T, s recorder) {
		first := func(want bool, o service.Origin, sku service.SKU) {
			t.Helper()
			if got, err := s.First(short(t), o, sku); err != nil || got != want {
				t.Errorf("First(%v, %s): %v, %v; want %v", o, sku, got, err, want)
			}
		}
		one := service.Origin{ID: "one", Generation: 1}
		first(false, one, "pen") // there is none
		if _, err := s.Replace(short(t), service.Origin{}, one); err != nil {
			t.Fatal(err)
		}
		first(false, service.Origin{ID: "two", Generation: 1}, "pen")
		first(true, one, "pen")
		first(false, one, "pen")
		first(true, one, "Pen")
		lost := service.Origin{ID: "one", Generation: 1, Lost: true}
		if _, err := s.Replace(short(t), one, lost); err != nil {
			t.Fatal(err)
		}
		first(false, lost, "ink")
	})
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
