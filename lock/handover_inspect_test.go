package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// A ledger is a remote that also tells who stands where, as a server would: it knows the first owner of each lease.
type ledger struct {
	remote
	order []string // of those who asked and have not released
}

func (l *ledger) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	who := o.Owner
	l.mu.Lock()
	l.order = append(l.order, who)
	l.mu.Unlock()
	lease, err := l.remote.Acquire(ctx, key, o)
	if err == nil {
		go func() {
			<-lease.Done()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.order = l.order[1:]
		}()
	}
	return lease, err
}

func (l *ledger) Inspect(context.Context, string) (lock.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := lock.State{Scope: lock.Cluster}
	for i, who := range l.order {
		if i == 0 {
			s.Holder = &lock.Contender{Who: who, Fence: l.fence, Remaining: time.Second}
		} else {
			s.Waiters = append(s.Waiters, lock.Contender{Who: who})
		}
	}
	return s, nil
}

func (l *ledger) Evict(context.Context, string) (lock.Fence, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(lock.ErrTaken)
	return l.fence + 1, nil
}

func names(s lock.State) (all []string) {
	if s.Holder != nil {
		all = append(all, s.Holder.Who)
	}
	for _, w := range s.Waiters {
		all = append(all, w.Who)
	}
	return all
}

// The standing that HandOver tells is the order in which they are served: those of this process behind its own
// contender, as many as share its lease, then the other process, then the rest.
func TestHandOverInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ledger{}
		bound := lock.Bound{Holders: 3, Time: time.Hour}
		here, there := lock.HandOver(r, bound), lock.HandOver(r, bound)
		var mu sync.Mutex // for served and fences
		var served []string
		var fences []lock.Fence
		var all sync.WaitGroup
		come := func(l lock.Locker, who string) {
			all.Go(func() {
				lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: who})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served, fences = append(served, who), append(fences, lease.Fence())
				mu.Unlock()
				time.Sleep(time.Second)
				_ = lease.Release()
			})
			synctest.Wait()
		}
		for _, who := range []string{"h1", "h2", "h3", "h4", "h5"} {
			come(here, who)
		}
		come(there, "t1")
		come(there, "t2")

		time.Sleep(1500 * time.Millisecond) // h2 holds what h1 acquired
		s, err := lock.Inspect(t.Context(), here, "k")
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		second := fences[1]
		mu.Unlock()
		if s.Holder == nil || s.Holder.Fence != second || time.Since(s.Holder.Since) != 500*time.Millisecond ||
			s.Holder.Remaining == 0 {
			t.Errorf("holder %+v, want the fence %d for half a second", s.Holder, second)
		}
		if s.Waiters[0].Since.IsZero() || !s.Waiters[1].Since.IsZero() {
			t.Errorf("waiters %+v: it is known here since when those of this process wait, and of no other", s.Waiters)
		}
		foreseen := names(s)
		both, err := lock.InspectAll(t.Context(), lock.Observe(here, lock.Events{}), []string{"k", "k"})
		if err != nil || len(both) != 2 || !slices.Equal(names(both[1]), foreseen) {
			t.Errorf("the states of two keys: %+v, %v, want %v", both, err, foreseen)
		}
		elsewhere, _ := lock.Inspect(t.Context(), there, "k")
		if got := names(elsewhere); len(got) != 3 || got[0] != "h1" || got[1] != "t1" || got[2] != "t2" {
			t.Errorf("the other process sees %v; want the lease's first owner, and its own two", got)
		}
		all.Wait()
		synctest.Wait()
		want := []string{"h2", "h3", "t1", "h4", "h5"} // t2 is known to the other process alone
		var but []string
		for _, who := range served[1:] {
			if who != "t2" {
				but = append(but, who)
			}
		}
		for i := range want {
			if foreseen[i] != want[i] || but[i] != want[i] {
				t.Fatalf("foreseen %v, served %v; want %v", foreseen, but, want)
			}
		}
		if s, _ := lock.Inspect(t.Context(), here, "k"); s.Holder != nil || len(s.Waiters) > 0 {
			t.Errorf("after all: %+v", s)
		}
	})
}

// Evict goes through, and takes the lease from the local holder who has it now.
func TestDecoratorsPassEvictThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ledger{}
		l := lock.Observe(lock.HandOver(r, lock.Bound{}), lock.Events{})
		lease, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if fence, err := lock.Evict(t.Context(), l, "k"); err != nil || fence <= lease.Fence() {
			t.Errorf("evict: %d, %v; the evicted one had %d", fence, err, lease.Fence())
		}
		<-lease.Done()
		if !errors.Is(lease.Err(), lock.ErrTaken) {
			t.Errorf("the holder was told %v", lease.Err())
		}
		_ = lease.Release()
	})
}

func TestALockThatCannotTellSaysSo(t *testing.T) {
	l := lock.Observe(lock.HandOver(&remote{}, lock.Bound{}), lock.Events{})
	if _, err := lock.Inspect(t.Context(), l, "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("inspect: %v", err)
	}
	if _, err := lock.Evict(t.Context(), l, "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("evict: %v", err)
	}
}
