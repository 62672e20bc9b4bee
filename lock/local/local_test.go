package local_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContender(t *testing.T) { locktest.Contend(t, harnesses()...) }

// The locks without a server: what they promise ends with the process.
func TestStrategiesConform(t *testing.T) { locktest.Conform(t, harnesses()...) }

func harnesses() []locktest.Harness {
	mutex := &local.Mutex{} // one process, so every Locker is the same
	return []locktest.Harness{
		harness("none", local.None{}.Promise(), &local.None{}),
		harness("local-mutex", mutex.Promise(), mutex),
	}
}

func harness(name string, promise driver.Promise, l lock.Locker) locktest.Harness {
	return locktest.Harness{
		Name: name, Promise: promise,
		Open: func([]string, time.Duration) (lock.Locker, func() error, error) {
			return l, func() error { return nil }, nil
		},
	}
}

func TestMutexInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &local.Mutex{}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				lease, err := m.Acquire(t.Context(), "k", lock.Options{Owner: fmt.Sprint("app/", i)})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(2 * time.Second)
				_ = lease.Release()
			})
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		s, err := lock.Inspect(t.Context(), m, "k")
		if err != nil || !s.Local {
			t.Fatalf("%+v, %v; want it to say that it knows this process only", s, err)
		}
		if s.Holder == nil || s.Holder.Who != "app/1" || time.Since(s.Holder.Since) != time.Second {
			t.Errorf("holder %+v, want app/1 for a second", s.Holder)
		}
		if len(s.Waiters) != 1 || s.Waiters[0].Who != "app/2" || time.Since(s.Waiters[0].Since) != 3*time.Second {
			t.Errorf("waiters %+v, want app/2 for three seconds", s.Waiters)
		}
		_, err = m.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		if held := new(lock.HeldError); !errors.As(err, &held) || held.Holder != "app/1" {
			t.Errorf("%v, want it to name app/1", err)
		}
		all.Wait()
		if s, _ := lock.Inspect(t.Context(), m, "k"); s.Holder != nil || s.Waiters != nil {
			t.Errorf("a free key: %+v", s)
		}
	})
}

func TestMutexCannotEvict(t *testing.T) {
	if _, err := lock.Evict(t.Context(), &local.Mutex{}, "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("err = %v: the evicted holder could still write", err)
	}
}

// A key whose work may still go on stays taken for a while.
func TestMutexLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &local.Mutex{}
		_ = lock.Do(t.Context(), m, "k", lock.Options{}, func(context.Context, lock.Fence) error {
			return lock.ErrOutcomeUnknown
		})
		began := time.Now()
		lease, err := m.Acquire(t.Context(), "k", lock.Options{})
		if err != nil || time.Since(began) != 10*time.Second {
			t.Fatalf("free after %v: %v", time.Since(began), err)
		}
		_ = lease.Release()
	})
}
