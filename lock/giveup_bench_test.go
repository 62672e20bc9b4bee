package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
)

// queues are what waiters of a process stand in.
func queues() map[string]func() lock.Locker {
	return map[string]func() lock.Locker{
		"Queue":    func() lock.Locker { return &rented{} },
		"HandOver": func() lock.Locker { return lock.HandOver(&prompt{}, lock.Bound{}) },
	}
}

// giveUpTogether lets n callers wait for a key that is held until they all give up at the same moment, and returns
// how long the slowest acquisition of another key took meanwhile, and how long it took until the last one had
// returned.
func giveUpTogether(t testing.TB, l lock.Locker, n int) (slowest, all time.Duration) {
	held, err := l.Acquire(t.Context(), "crowded", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var asked atomic.Int64
	var waiters, other sync.WaitGroup
	for range n {
		waiters.Go(func() {
			asked.Add(1)
			if _, err := l.Acquire(end, "crowded", lock.Options{}); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("a waiter was told %v", err)
			}
		})
	}
	for asked.Load() < int64(n) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // so that they stand in the queue; if some do not, it is only easier
	stop := make(chan struct{})
	other.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			began := time.Now()
			lease, err := l.Acquire(t.Context(), fmt.Sprint("another-", i%8), lock.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			_ = lease.Release()
			slowest = max(slowest, time.Since(began))
		}
	})
	began := time.Now()
	giveUp()
	waiters.Wait()
	all = time.Since(began)
	close(stop)
	other.Wait()
	_ = held.Release()
	return slowest, all
}

// BenchmarkGiveUp tells the latency of other keys while so many give up together.
func BenchmarkGiveUp(b *testing.B) {
	for name, open := range queues() {
		for _, n := range []int{1_000, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var slowest, all time.Duration
				for b.Loop() {
					s, a := giveUpTogether(b, open(), n)
					slowest, all = max(slowest, s), all+a
				}
				b.ReportMetric(float64(slowest.Microseconds())/1000, "other-max-ms")
				b.ReportMetric(float64(all.Nanoseconds())/float64(b.N*n), "ns/give-up")
			})
		}
	}
}
