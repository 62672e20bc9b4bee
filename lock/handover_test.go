package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// remote is a lock over several processes, in memory, that counts and can be lost.
type remote struct {
	queue  lock.Queue
	linger time.Duration // of a lease that is abandoned; 0: for ever

	mu       sync.Mutex
	acquired int
	released int
	fence    lock.Fence
	lose     context.CancelCauseFunc
}

func (r *remote) FenceRange() uint64 { return 8 }

func (r *remote) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := r.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acquired++
	r.fence += 8
	lease, lose := lock.NewLease(key, r.fence, func(context.Context) error {
		r.mu.Lock()
		r.released++
		r.mu.Unlock()
		r.queue.Leave(key)
		return nil
	})
	r.lose = lose
	if r.linger > 0 {
		lease.Linger(r.linger)
	}
	return lease, nil
}

// hold acquires, appends what to log, and releases.
func hold(t *testing.T, l lock.Locker, work func(*lock.Lease)) {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	work(lease)
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}

func TestHandOverNeedsOneRemoteLeaseForManyHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		l := lock.HandOver(r, lock.Bound{Holders: 5, Time: time.Hour})
		var fences []lock.Fence
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				hold(t, l, func(lease *lock.Lease) {
					fences = append(fences, lease.Fence())
					time.Sleep(time.Millisecond) // so that the others queue up
				})
			})
		}
		all.Wait()
		if r.acquired != 4 {
			t.Errorf("acquired %d leases for 20 holders, want 4", r.acquired)
		}
		for i := 1; i < len(fences); i++ {
			if fences[i] <= fences[i-1] {
				t.Errorf("fence %d after %d", fences[i], fences[i-1])
			}
		}
	})
}

// Another process gets its turn after Holders, or after Time, however many wait here.
func TestHandOverLetsOthersIn(t *testing.T) {
	for name, row := range map[string]struct {
		bound lock.Bound
		want  int // holders of the first process before the second one
	}{
		"by count":           {lock.Bound{Holders: 3, Time: time.Hour}, 3},
		"by time":            {lock.Bound{Holders: 8, Time: 2500 * time.Millisecond}, 3},
		"by the fences' gap": {lock.Bound{Holders: 100, Time: time.Hour}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &remote{}
				here, there := lock.HandOver(r, row.bound), lock.HandOver(r, row.bound)
				var order []string
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						hold(t, here, func(*lock.Lease) { order = append(order, "here"); time.Sleep(time.Second) })
					})
				}
				synctest.Wait()
				all.Go(func() { hold(t, there, func(*lock.Lease) { order = append(order, "there") }) })
				all.Wait()
				for i, who := range order {
					if who == "there" && i != row.want {
						t.Errorf("the other process came after %d holders, want %d", i, row.want)
					}
				}
			})
		})
	}
}

// A lost lease reaches the holder, is handed to nobody, and those behind a holder that hangs go on.
func TestHandOverOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		l := lock.HandOver(r, lock.Bound{})
		hung, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		next := make(chan *lock.Lease)
		go func() {
			lease, err := l.Acquire(t.Context(), "k", lock.Options{})
			if err != nil {
				t.Error(err)
			}
			next <- lease
		}()
		synctest.Wait()
		r.lose(lock.ErrExpired)
		<-hung.Done()
		if err := hung.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
			t.Errorf("the holder was told %v", err)
		}
		lease := <-next
		if lease.Err() != nil || lease.Fence() <= hung.Fence() || r.acquired != 2 {
			t.Errorf(
				"next: %v, fence %d after %d, %d leases; want a fresh one", lease.Err(), lease.Fence(),
				hung.Fence(), r.acquired,
			)
		}
		if err := hung.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release of the lost one: %v", err)
		}
		if lease.Err() != nil {
			t.Error("it took the next one's lease with it")
		}
		_ = lease.Release()
	})
}

func TestHandOverDoesNotKeepALeaseThatIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		l := lock.HandOver(r, lock.Bound{})
		first, _ := l.Acquire(t.Context(), "k", lock.Options{})
		var all sync.WaitGroup
		all.Go(func() { hold(t, l, func(*lock.Lease) {}) })
		synctest.Wait()
		first.StopRenewing()
		_ = first.Release()
		all.Wait()
		if r.acquired != 2 {
			t.Errorf("%d leases, want a second one", r.acquired)
		}
	})
}

func TestHandOverLeavesNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		l := lock.HandOver(r, lock.Bound{})
		elsewhere, _ := r.Acquire(t.Context(), "k", lock.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				_, err := l.Acquire(ctx, "k", lock.Options{Owner: fmt.Sprint(i)})
				if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want ErrHeld and DeadlineExceeded", err)
				}
			})
		}
		all.Wait()
		_ = elsewhere.Release()
		hold(t, l, func(*lock.Lease) {
			if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("try once while held here: %v", err)
			}
		})
	})
}

// A turn that comes at the moment at which its waiter gives up must go on, with its lease.
func TestHandOverOfAnAbandonedTurn(t *testing.T) {
	r := &remote{}
	l := lock.HandOver(r, lock.Bound{Holders: 2})
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		first, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if lease, err := l.Acquire(ctx, "k", lock.Options{}); err == nil {
				_ = lease.Release()
			}
		})
		all.Go(cancel)
		_ = first.Release()
		all.Wait()
		hold(t, l, func(*lock.Lease) {})
	}
}
