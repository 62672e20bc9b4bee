package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// telling is a remote whose leases are revocable: who asks for the key makes the holder's lease wanted, unless deaf.
type telling struct {
	remote
	deaf   bool
	wanted context.CancelFunc
	ttl    time.Duration // of leases that are never renewed; 0: they last
	over   bool          // the session has ended by the clock, and no timer has run since
}

func (r *telling) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	r.mu.Lock()
	if r.wanted != nil && !r.deaf {
		r.wanted()
	}
	r.mu.Unlock()
	sent := time.Now()
	lease, err := r.remote.Acquire(ctx, key, o)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = false
	if o.Keep {
		var wanted context.Context
		wanted, r.wanted = context.WithCancel(context.Background())
		var lasts func() bool
		if r.ttl == 0 {
			lasts = r.lasts
		}
		lease.Revocable(wanted, r.FenceRange(), func() {}, lasts)
	}
	if r.ttl > 0 {
		lease.Keep(sent, lock.Keep{TTL: r.ttl})
	}
	return lease, nil
}

// lasts notices that the session is over.
func (r *telling) lasts() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		r.lose(lock.ErrExpired)
	}
	return !r.over
}

// keeping runs a test with a lock that keeps its leases for a minute.
func keeping(t *testing.T, test func(t *testing.T, r *telling, l lock.Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := new(telling)
		l := lock.HandOver(r, lock.Bound{Keep: time.Minute})
		test(t, r, l)
		if err := l.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if r.released != r.acquired {
			t.Errorf("%d leases were acquired and %d released", r.acquired, r.released)
		}
	})
}

func (r *telling) counts(t *testing.T, acquired, released int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acquired != acquired || r.released != released {
		t.Errorf("%d leases acquired and %d released, want %d and %d", r.acquired, r.released, acquired, released)
	}
}

// fenceOf acquires, releases, and returns the fence.
func fenceOf(t *testing.T, l lock.Locker) (f lock.Fence) {
	t.Helper()
	hold(t, l, func(lease *lock.Lease) { f = lease.Fence() })
	return f
}

// The next local caller needs no request, and has a larger fence, until the range of fences is used up.
func TestKeptLeaseIsUsedAgain(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		var fences []lock.Fence
		for range 9 {
			fences = append(fences, fenceOf(t, l))
			time.Sleep(time.Second)
		}
		if want := []lock.Fence{8, 9, 10, 11, 12, 13, 14, 15, 16}; !slices.Equal(fences, want) {
			t.Errorf("fences %v, want %v", fences, want)
		}
		r.counts(t, 2, 1)
	})
}

func TestKeptLeaseByTryOnce(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		fenceOf(t, l)
		for range 8 { // the last one finds the range used up, and needs another lease
			lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("a second holder: %v", err)
			}
			_ = lease.Release()
		}
		r.counts(t, 2, 1)
	})
}

// Another process that asks for the key gets it at once if nobody works.
func TestKeptLeaseIsRevoked(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		ours := fenceOf(t, l)
		began := time.Now()
		theirs := fenceOf(t, r)
		if waited := time.Since(began); waited != 0 || theirs <= ours {
			t.Errorf("it waited for %v, and has the fence %d after %d", waited, theirs, ours)
		}
		r.counts(t, 2, 2)
		if f := fenceOf(t, l); f <= theirs {
			t.Errorf("fence %d after %d", f, theirs)
		}
	})
}

// Another process that asks while a local caller works waits for that caller, and for those that Bound allows.
func TestKeptLeaseIsRevokedAtWork(t *testing.T) {
	for _, after := range []struct {
		name   string
		wait   time.Duration // before the other process asks
		before int           // local callers that are served before it
	}{{"soon", 0, 7}, {"later", time.Second, 1}} {
		t.Run(after.name, func(t *testing.T) {
			keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
				fenceOf(t, l)
				time.Sleep(after.wait)
				lease, err := l.Acquire(t.Context(), "k", lock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var served []string
				done := make(chan error, 9)
				go func() {
					theirs, err := r.Acquire(t.Context(), "k", lock.Options{})
					served = append(served, "other")
					_ = theirs.Release()
					done <- err
				}()
				synctest.Wait()
				for range 8 {
					go func() {
						one, err := l.Acquire(t.Context(), "k", lock.Options{})
						served = append(served, "local")
						_ = one.Release()
						done <- err
					}()
				}
				synctest.Wait()
				_ = lease.Release()
				for range 9 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if i := slices.Index(served, "other"); i != after.before-1 {
					t.Errorf("served %v: the other one in place %d, want %d", served, i, after.before-1)
				}
			})
		})
	}
}

// If the message is lost, the other process waits until the lease is as old as it may become.
func TestKeptLeaseWhoseRevocationIsLost(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		r.deaf = true
		fenceOf(t, l)
		began := time.Now()
		fenceOf(t, r)
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("it waited for %v", waited)
		}
	})
}

func TestKeptLeaseGrowsOld(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		fenceOf(t, l)
		time.Sleep(time.Minute - 1)
		r.counts(t, 1, 0)
		time.Sleep(time.Nanosecond)
		r.counts(t, 1, 1)
		fenceOf(t, l)
		time.Sleep(30 * time.Second)
		hold(t, l, func(*lock.Lease) {
			time.Sleep(time.Hour) // its holder may work for longer
			r.counts(t, 2, 1)
		})
		r.counts(t, 2, 2)
	})
}

func TestKeptLeaseIsLost(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		first := fenceOf(t, l)
		r.lose(lock.ErrExpired)
		r.counts(t, 1, 1)
		if second := fenceOf(t, l); second != first+8 {
			t.Errorf("fence %d after %d", second, first)
		}
		r.lose(lock.ErrExpired) // and somebody comes before that is noticed
		if third := fenceOf(t, l); third != first+16 {
			t.Errorf("fence %d after %d", third, first)
		}
	})
}

// A process that was stopped does not use a lease whose time is over, although no timer has run since.
func TestKeptLeaseOfAFrozenProcess(t *testing.T) {
	for range 30 { // in half of them this caller runs before the timers that are due at the same time
		synctest.Test(t, func(t *testing.T) {
			r := &telling{ttl: 10 * time.Second}
			l := lock.HandOver(r, lock.Bound{Keep: time.Minute})
			first := fenceOf(t, l)
			time.Sleep(lock.Valid(r.ttl))
			if second := fenceOf(t, l); second != first+8 {
				t.Errorf("fence %d after %d", second, first)
			}
			_ = l.(interface{ Close() error }).Close()
		})
	}
}

// Neither does it if its session is over by the clock.
func TestKeptLeaseOfASessionThatIsOver(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		first := fenceOf(t, l)
		r.over = true
		if second := fenceOf(t, l); second != first+8 {
			t.Errorf("fence %d after %d", second, first)
		}
	})
}

// Who has used the lease and does not know the outcome abandons it, and stops its renewal: it is not kept.
func TestKeptLeaseIsAbandoned(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		r.linger = time.Second
		fenceOf(t, l)
		hold(t, l, func(lease *lock.Lease) { lease.StopRenewing() })
		r.counts(t, 1, 1)
		lease, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Abandon()
		time.Sleep(r.linger)
		r.counts(t, 2, 2)
	})
}

// A caller whose ctx has ended gets no lease.
func TestKeptLeaseOfACallerThatIsLate(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		fenceOf(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Acquire(ctx, "k", lock.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("it is told %v", err)
		}
	})
}

// After Close nothing is kept.
func TestKeptLeasesAreClosed(t *testing.T) {
	keeping(t, func(t *testing.T, r *telling, l lock.Locker) {
		fenceOf(t, l)
		_ = l.(interface{ Close() error }).Close()
		r.counts(t, 1, 1)
		fenceOf(t, l)
		r.counts(t, 2, 2)
	})
}

// shown is a telling that can be inspected.
type shown struct{ telling }

func (s *shown) Inspect(context.Context, string) (lock.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lock.State{Holder: &lock.Contender{Who: "first", Fence: s.fence}}, nil
}

// Inspect and Observe tell a lease that is kept from one that a caller has.
func TestKeptLeaseIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reused := 0
		inner := lock.HandOver(new(shown), lock.Bound{Keep: time.Minute})
		l := lock.Observe(inner, lock.Events{Kept: func() { reused++ }})
		seen := func(kept bool) {
			t.Helper()
			s, err := lock.Inspect(t.Context(), l, "k")
			if err != nil || s.Holder == nil || s.Holder.Kept != kept {
				t.Errorf("%+v, %v; want kept %t", s.Holder, err, kept)
			}
		}
		for range 3 {
			hold(t, l, func(*lock.Lease) { seen(false) })
			seen(true)
		}
		if reused != 2 {
			t.Errorf("a kept lease was used again %d times, want 2", reused)
		}
		if err := inner.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
	})
}
