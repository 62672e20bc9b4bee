package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"example.com/stock/lock"
)

// A ring of keys hands out leases that the test can take away, and records who asked for what.
type ring struct {
	queue lock.Queue

	mu    sync.Mutex
	asked []string
	freed []string
	lose  map[string]context.CancelCauseFunc
	fence lock.Fence
}

func (r *ring) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	r.mu.Lock()
	r.asked = append(r.asked, key)
	r.mu.Unlock()
	if err := r.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence++
	lease, lose := lock.NewLease(key, r.fence, func(context.Context) error {
		r.mu.Lock()
		r.freed = append(r.freed, key)
		r.mu.Unlock()
		r.queue.Leave(key)
		return nil
	})
	if r.lose == nil {
		r.lose = make(map[string]context.CancelCauseFunc)
	}
	r.lose[key] = lose
	return lease, nil
}

func TestAllSortsAndReleasesBackwards(t *testing.T) {
	r := &ring{}
	err := lock.All(t.Context(), r, []string{"c", "a", "b", "a"}, lock.Options{},
		func(_ context.Context, fences map[string]lock.Fence) error {
			if len(fences) != 3 || fences["a"] != 1 || fences["b"] != 2 || fences["c"] != 3 {
				t.Errorf("fences %v, want those of a, b and c", fences)
			}
			if len(r.freed) != 0 {
				t.Errorf("freed %v before the work was done", r.freed)
			}
			return nil
		})
	if want := []string{"a", "b", "c"}; err != nil || !slices.Equal(r.asked, want) {
		t.Errorf("asked for %v, %v, want %v", r.asked, err, want)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(r.freed, want) {
		t.Errorf("freed %v, want %v", r.freed, want)
	}
}

func TestAllReleasesWhatItHasIfOneCannotBeHad(t *testing.T) {
	r := &ring{}
	if _, err := r.Acquire(t.Context(), "b", lock.Options{}); err != nil {
		t.Fatal(err)
	}
	err := lock.All(t.Context(), r, []string{"a", "b", "c"}, lock.Options{TryOnce: true},
		func(context.Context, map[string]lock.Fence) error {
			t.Error("work began without b")
			return nil
		})
	if !errors.Is(err, lock.ErrHeld) {
		t.Errorf("err = %v, want ErrHeld", err)
	}
	if !slices.Equal(r.freed, []string{"a"}) || slices.Contains(r.asked, "c") {
		t.Errorf("freed %v, asked for %v: want a freed, and c not asked for", r.freed, r.asked)
	}
}

func TestOneLossEndsTheWorkOfAll(t *testing.T) {
	for _, key := range []string{"a", "b", "c"} {
		r := &ring{}
		reason := errors.New("session expired")
		err := lock.All(t.Context(), r, []string{"a", "b", "c"}, lock.Options{},
			func(ctx context.Context, _ map[string]lock.Fence) error {
				r.lose[key](reason)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, reason) {
			t.Errorf("loss of %s: %v", key, err)
		}
		if len(r.freed) != 3 {
			t.Errorf("loss of %s: freed %v, want all", key, r.freed)
		}
	}
}

// A loss ends the wait for the next key, also if the caller bounds its waits by Options.Wait.
func TestALossEndsTheWaitOfAll(t *testing.T) {
	for name, o := range map[string]lock.Options{"ctx": {}, "Wait": {Wait: t.Context()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &ring{}
				if _, err := r.Acquire(t.Context(), "b", lock.Options{}); err != nil {
					t.Fatal(err)
				}
				if o.Wait != nil {
					o.Wait = t.Context()
				}
				ended := make(chan error)
				go func() {
					ended <- lock.All(t.Context(), r, []string{"a", "b"}, o,
						func(context.Context, map[string]lock.Fence) error { return nil })
				}()
				synctest.Wait()
				r.mu.Lock()
				lose := r.lose["a"]
				r.mu.Unlock()
				lose(lock.ErrExpired)
				if err := <-ended; !errors.Is(err, lock.ErrLost) {
					t.Errorf("err = %v, want ErrLost", err)
				}
				if !slices.Contains(r.freed, "a") {
					t.Errorf("freed %v", r.freed)
				}
			})
		})
	}
}

// Work of unknown outcome leaves every key taken.
func TestAllLeavesAllToRunOut(t *testing.T) {
	r := &ring{}
	err := lock.All(t.Context(), r, []string{"a", "b"}, lock.Options{},
		func(context.Context, map[string]lock.Fence) error { return lock.ErrOutcomeUnknown })
	if !errors.Is(err, lock.ErrOutcomeUnknown) || len(r.freed) != 0 {
		t.Errorf("err = %v, freed %v: want none", err, r.freed)
	}
	conditional := lock.Conditional(lock.ErrOutcomeUnknown)
	s := &ring{}
	if err := lock.All(t.Context(), s, []string{"a", "b"}, lock.Options{},
		func(context.Context, map[string]lock.Fence) error { return conditional }); err == nil || len(s.freed) != 2 {
		t.Errorf("err = %v, freed %v: want both", err, s.freed)
	}
}

func TestAllOfNothing(t *testing.T) {
	called := false
	err := lock.All(t.Context(), &ring{}, nil, lock.Options{}, func(context.Context, map[string]lock.Fence) error {
		called = true
		return nil
	})
	if err != nil || !called {
		t.Errorf("called %v, %v", called, err)
	}
}
