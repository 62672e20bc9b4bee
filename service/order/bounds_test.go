package order

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A watched is a memory that tells how long each step may take, and holds it up.
type watched struct {
	*memory
	mu    sync.Mutex
	takes []time.Duration // until the deadline of each call; -1: it has none
	hold  chan struct{}   // nil: a step is made at once
}

func (w *watched) Step(ctx context.Context, about About, decide func(State) (Changes, error)) ([]byte, bool, error) {
	w.note(ctx)
	if w.hold != nil {
		<-w.hold
	}
	return w.memory.Step(ctx, about, decide)
}

func (w *watched) Batch(ctx context.Context, steps []Request) []StepResult {
	w.note(ctx)
	return w.memory.Batch(ctx, steps)
}

func (w *watched) note(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := time.Duration(-1)
	if deadline, has := ctx.Deadline(); has {
		left = time.Until(deadline)
	}
	w.takes = append(w.takes, left)
}

// A step may take Work, and as long in the queue in front of the store, whether it is made alone or in a batch.
func TestAStepMayTakeTwiceWork(t *testing.T) {
	for _, merged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := stocked(t)
			w := &watched{memory: m}
			c := Config{Store: w, Needs: up{}, Work: 3 * time.Second}
			if merged {
				c = c.Merged(MergeOptions{})
			}
			if _, _, err := New(c).Place(t.Context(), "", "ann", []Line{{"a", 1}}); err != nil {
				t.Fatal(err)
			}
			if len(w.takes) != 1 || w.takes[0] != 6*time.Second {
				t.Errorf("merged %v: a step may take %v, want 6s", merged, w.takes)
			}
		})
	}
}

// As many requests as Waiting wait or work at a time, and one that is over makes room. 0 is no bound.
func TestRequestsAtATimeAreBounded(t *testing.T) {
	for _, row := range []struct{ waiting, come, refused int }{{2, 4, 2}, {1, 2, 1}, {0, 5, 0}} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := stocked(t)
			w := &watched{memory: m, hold: make(chan struct{})}
			s := New(Config{Store: w, Needs: up{}, Work: time.Minute, Waiting: row.waiting})
			errs := make(chan error, row.come)
			var all sync.WaitGroup
			for range row.come {
				all.Go(func() {
					_, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}})
					errs <- err
				})
			}
			synctest.Wait()
			if got := len(errs); got != row.refused {
				t.Errorf("%d of %d were answered before any could be, want %d", got, row.come, row.refused)
			}
			for range len(errs) {
				if err := <-errs; !errors.Is(err, lock.ErrOverloaded) {
					t.Errorf("one too many: %v", err)
				}
			}
			close(w.hold)
			all.Wait()
			for range len(errs) {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); err != nil {
				t.Errorf("after all were done: %v", err)
			}
		})
	}
}

// A losing lock loses the lease before the step, or after it.
type losing struct{ lose context.CancelCauseFunc }

func (l *losing) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	lease, lose := lock.NewLease(key, 1, func(context.Context) error { return nil })
	l.lose = lose
	return lease, nil
}

// A step whose lease was lost before it is told so. One that was written stands.
func TestALostLeaseOfAStep(t *testing.T) {
	m, s := stocked(t)
	l, gone := &losing{}, errors.New("the lock's server has forgotten it")
	s.Lock, s.Wait = l, time.Second
	type decider = func(State) (Changes, error)
	s.Ledger = stepper(func(ctx context.Context, _ About, _ decider) ([]byte, bool, error) {
		l.lose(gone)
		return nil, false, context.Cause(ctx)
	})
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); !errors.Is(err, lock.ErrLost) {
		t.Errorf("lost before the step: %v, want ErrLost", err)
	}
	s.Ledger = stepper(func(ctx context.Context, about About, decide decider) ([]byte, bool, error) {
		defer l.lose(gone)
		return m.Step(ctx, about, decide)
	})
	o, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}})
	if err != nil || o.ID == "" {
		t.Errorf("lost after the step: %+v, %v", o, err)
	}
	// What failed, and not because of the lease, has failed.
	s.Ledger = stepper(func(context.Context, About, decider) ([]byte, bool, error) {
		return []byte("{}"), false, service.ErrStaleFence
	})
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); !errors.Is(err, service.ErrStaleFence) {
		t.Errorf("a stale fence: %v", err)
	}
}

// A stepper makes steps.
type stepper func(context.Context, About, func(State) (Changes, error)) ([]byte, bool, error)

func (s stepper) Step(
	ctx context.Context, about About, decide func(State) (Changes, error),
) ([]byte, bool, error) {
	return s(ctx, about, decide)
}

// A sweeper that finds as many as it looks for looks again at once, and rests when it has found fewer.
func TestSweeperGoesOnWhileThereAreMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(m)
		if _, _, err := s.Set(t.Context(), "", "a", 1000, service.Condition{}); err != nil {
			t.Fatal(err)
		}
		for range 2*sweepBatch + 1 {
			if _, _, err := s.Reserve(t.Context(), "", "ann", []Line{{"a", 1}}, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		var sweeper sync.WaitGroup
		sweeper.Go(func() { s.Sweep(ctx) })
		synctest.Wait() // the clock stands
		m.mu.Lock()
		if m.looks != 3 || m.levels["a"].Available != 1000 {
			t.Errorf("after %d looks without a rest: %+v", m.looks, m.levels["a"])
		}
		m.mu.Unlock()
		time.Sleep(sweepEvery)
		synctest.Wait()
		m.mu.Lock()
		if m.looks != 4 {
			t.Errorf("%d looks, want one more after a rest", m.looks)
		}
		m.mu.Unlock()
		stop()
		sweeper.Wait()
	})
}

// Where the server is down or full, or the sweeper is stopped, the rest is left for later. Anything else is about one
// reservation.
func TestSweeperLeavesAServerThatCannot(t *testing.T) {
	stopped := errors.New("stopped")
	for _, row := range []struct {
		err   error
		steps int
	}{{lock.ErrDown, 1}, {lock.ErrOverloaded, 1}, {stopped, 1}, {ErrUnbalanced, 3}} {
		synctest.Test(t, func(t *testing.T) {
			m := &counter{memory: newMemory()}
			s := New(Config{Store: m, Needs: up{}, Work: time.Second})
			var cart []Line
			for i := range MaxLines {
				cart = append(cart, Line{service.SKU(fmt.Sprintf("sku-%03d", i)), 1})
				if _, _, err := s.Set(t.Context(), "", cart[i].SKU, 100, service.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 * (mergeLines / MaxLines) {
				if _, _, err := s.Reserve(t.Context(), "", "ann", cart, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			m.during = func(int) error {
				if errors.Is(row.err, stopped) {
					stop()
					return nil
				}
				return row.err
			}
			found, err := s.sweep(ctx)
			if len(m.batches) != row.steps || found != 0 && row.steps == 1 {
				t.Errorf("%v: %d steps, want %d; found %d", row.err, len(m.batches), row.steps, found)
			}
			if !errors.Is(row.err, stopped) && !errors.Is(err, row.err) {
				t.Errorf("error %v, want %v", err, row.err)
			}
		})
	}
}

// A quantity or a page out of bounds is refused before the store is asked, by its name.
func TestNumbersAreBounded(t *testing.T) {
	s := New(Config{Store: nil, Needs: up{}, Work: time.Second})
	for _, quantity := range []int64{-1, service.MaxStock + 1} {
		_, _, err := s.Set(t.Context(), "", "a", quantity, service.Condition{})
		if invalid, ok := errors.AsType[*service.InvalidError](err); !ok || invalid.Field != "quantity" {
			t.Errorf("set to %d: %v", quantity, err)
		}
	}
	for _, limit := range []int{0, service.MaxPage + 1} {
		_, err := s.Orders(t.Context(), "ann", "", limit)
		if invalid, ok := errors.AsType[*service.InvalidError](err); !ok || invalid.Field != "limit" {
			t.Errorf("a page of %d orders: %v", limit, err)
		}
	}
	if _, err := s.Orders(t.Context(), "ann", "?", 1); err == nil {
		t.Error("a cursor that was never made is good")
	}
}

// The totals of a customer are read only for the limits that need them.
func TestWhichLimitsNeedTotals(t *testing.T) {
	for l, want := range map[Limits]string{
		{Open: 1}: "ann", {Units: 1}: "ann", {Share: 50, ExtendEvery: time.Second}: "", {}: "",
	} {
		if got := l.holder("ann"); got != want {
			t.Errorf("%+v: holder %q, want %q", l, got, want)
		}
	}
}
