package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/service"
)

// Units whose time is over are for sale within a second, once, however many instances sweep; and the sweepers stop.
func TestSweepersGiveBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := stocked(t)
		ctx, stop := context.WithCancel(t.Context())
		var sweepers sync.WaitGroup
		for range 3 {
			sweepers.Go(func() { open(m).Sweep(ctx) })
		}
		var ids []string
		for i := range 8 {
			r, _, err := s.Reserve(ctx, "", "ann", []Line{{"a", 1}}, time.Duration(1+i%2)*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		time.Sleep(time.Minute + time.Second)
		if l, _ := s.Level(ctx, "a"); l.Available != 6 || l.Reserved != 4 {
			t.Errorf("after a minute: %+v", l)
		}
		if _, _, err := s.Confirm(ctx, "", "ann", ids[1]); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if l, _ := s.Level(ctx, "a"); l.Available != 9 || l.Reserved != 0 || l.Sold != 1 {
			t.Errorf("after two minutes: %+v", l)
		}
		stop()
		sweepers.Wait()
	})
}

// What expires at one moment is ended in a few steps of the store, each about a bounded number of lines.
func TestAThousandEndInAFewSteps(t *testing.T) {
	for _, row := range []struct{ reservations, lines, steps int }{{1000, 1, 4}, {30, 50, 3}} {
		synctest.Test(t, func(t *testing.T) {
			var skus []service.SKU
			for i := range row.lines {
				skus = append(skus, service.SKU(fmt.Sprintf("sku-%02d", i)))
			}
			m := newMemory(skus...)
			s := open(m)
			var cart []Line
			for _, sku := range skus {
				if _, _, err := s.Set(t.Context(), "", sku, 1000, service.Condition{}); err != nil {
					t.Fatal(err)
				}
				cart = append(cart, Line{sku, 1})
			}
			for range row.reservations {
				if _, _, err := s.Reserve(t.Context(), "", "ann", cart, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			for left := row.reservations; left > 0; left -= min(left, sweepBatch) {
				if _, err := s.sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, sku := range skus {
				if l, _ := s.Level(t.Context(), sku); l.Available != 1000 || l.Reserved != 0 {
					t.Errorf("%s: %+v", sku, l)
				}
			}
			if m.batches != row.steps {
				t.Errorf("%d reservations of %d lines: %d steps, want %d", row.reservations, row.lines, m.batches,
					row.steps)
			}
		})
	}
}

// A reservation that cannot be ended does not keep those of the next step.
func TestABadReservationKeepsNoLaterStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cart []Line
		for i := range MaxLines {
			cart = append(cart, Line{service.SKU(fmt.Sprintf("sku-%03d", i)), 1})
		}
		m := newMemory("bad")
		s := open(m)
		for _, l := range append(cart, Line{"bad", 1}) {
			if _, _, err := s.Set(t.Context(), "", l.SKU, 100, service.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 12 { // 512 lines are five of them
			lines := cart
			if i == 0 {
				lines = []Line{{"bad", 1}}
			}
			if _, _, err := s.Reserve(t.Context(), "", "ann", lines, time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		m.levels["bad"] = Level{Received: 100, Available: 100, Number: 2}
		time.Sleep(time.Minute)
		if _, err := s.sweep(t.Context()); !errors.Is(err, ErrUnbalanced) {
			t.Errorf("error %v, want ErrUnbalanced", err)
		}
		if l := m.levels[cart[0].SKU]; l.Reserved != 0 {
			t.Errorf("the others: %+v", l)
		}
	})
}

// A lazy sweeper looks seldom, until the first step.
func TestALazySweeperWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := stocked(t)
		s := New(Config{Store: Lazily(m, time.Hour), Needs: up{}, Work: time.Second, KeepKey: 24 * time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		var sweeper sync.WaitGroup
		sweeper.Go(func() { s.Sweep(ctx) })
		time.Sleep(time.Minute)
		m.mu.Lock()
		if m.looks != 1 {
			t.Errorf("looked %d times in the first minute, want once", m.looks)
		}
		m.mu.Unlock()
		if _, _, err := s.Reserve(ctx, "", "ann", []Line{{"a", 1}}, time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if l, _ := s.Level(ctx, "a"); l.Available != 10 {
			t.Errorf("%+v: a reservation of this instance is not given back", l)
		}
		stop()
		sweeper.Wait()
	})
}

// A reservation that cannot be ended does not keep the others.
func TestSweeperGoesOnPastABadReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(m)
		for _, sku := range []service.SKU{"a", "b"} {
			if _, _, err := s.Set(t.Context(), "", sku, 10, service.Condition{}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Reserve(t.Context(), "", "ann", []Line{{sku, 1}}, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		bad := m.levels["a"]
		bad.Reserved, bad.Available = 0, 10
		m.levels["a"] = bad
		time.Sleep(2 * time.Second)
		if _, err := s.sweep(t.Context()); !errors.Is(err, ErrUnbalanced) {
			t.Errorf("error %v, want ErrUnbalanced", err)
		}
		if l, _ := s.Level(t.Context(), "b"); l.Available != 10 {
			t.Errorf("b: %+v", l)
		}
		// Nor does it make them wait for longer than a second.
		ctx, stop := context.WithCancel(t.Context())
		var sweeper sync.WaitGroup
		sweeper.Go(func() { s.Sweep(ctx) })
		for range 5 {
			if _, _, err := s.Reserve(ctx, "", "ann", []Line{{"b", 1}}, time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if l, _ := s.Level(ctx, "b"); l.Available != 10 {
				t.Errorf("b, a second after its time: %+v", l)
			}
			time.Sleep(300 * time.Millisecond)
		}
		stop()
		sweeper.Wait()
	})
}

// However many reservations cannot be ended, the others end in the same search, and their number is told. When the
// books balance again, so do they.
func TestManyOverdueReservationsKeepNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var told []int
		s := New(Config{
			Store: m, Needs: up{}, Work: time.Second, KeepKey: 24 * time.Hour,
			Swept: func(n int) { told = append(told, n) },
		})
		for _, sku := range []service.SKU{"bad", "b"} {
			if _, _, err := s.Set(t.Context(), "", sku, 1000, service.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		const bad = sweepBatch + 10
		for i := range 2 * bad {
			sku := service.SKU("bad")
			if i >= bad {
				sku = "b"
			}
			if _, _, err := s.Reserve(t.Context(), "", "ann", []Line{{sku, 1}}, time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		right := m.levels["bad"]
		m.levels["bad"] = Level{Received: 1000, Available: 1000, Number: right.Number}
		time.Sleep(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		var sweeper sync.WaitGroup
		sweeper.Go(func() { s.Sweep(ctx) })
		synctest.Wait() // the clock stands
		m.mu.Lock()
		if m.looks != 3 || m.levels["b"].Reserved != 0 || !slices.Equal(told, []int{bad}) {
			t.Errorf("after %d looks: %+v, overdue %v", m.looks, m.levels["b"], told)
		}
		m.levels["bad"] = right
		m.mu.Unlock()
		time.Sleep(sweepRest)
		synctest.Wait()
		m.mu.Lock()
		if m.levels["bad"].Reserved != 0 || !slices.Equal(told, []int{bad, 0}) {
			t.Errorf("when the books balance: %+v, overdue %v", m.levels["bad"], told)
		}
		m.mu.Unlock()
		stop()
		sweeper.Wait()
	})
}

func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := stocked(t)
		ctx, stop := context.WithCancel(t.Context())
		var sweeper sync.WaitGroup
		sweeper.Go(func() { s.Sweep(ctx) })
		if _, _, err := s.Place(ctx, "k", "ann", []Line{{"a", 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		if _, replayed, err := s.Place(ctx, "k", "ann", []Line{{"a", 1}}); err != nil || !replayed {
			t.Errorf("after 23 h: %v, %v", replayed, err)
		}
		time.Sleep(time.Hour + 2*forgetEvery)
		m.mu.Lock()
		if len(m.keys) != 0 {
			t.Errorf("after 24 h there are %d keys", len(m.keys))
		}
		m.mu.Unlock()
		stop()
		sweeper.Wait()
	})
}
