package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/redislock"
)

// redisLocker returns a lock on a Redis that runs until stop is called. A program has the address of its Redis in place
// of that:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	locker := redislock.NewWatchdog(client, redislock.WatchdogOptions{})
func redisLocker(o redislock.WatchdogOptions) (locker *redislock.Watchdog, stop func()) {
	servers, err := server.Start(context.Background(), server.Options{Want: []server.Kind{server.Redis}})
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: servers.Server("redis").Addr, ContextTimeoutEnabled: true})
	locker = redislock.NewWatchdog(client, o)
	return locker, func() {
		if err := errors.Join(locker.Close(), client.Close(), servers.Stop()); err != nil {
			panic(err)
		}
	}
}

func ExampleDo() {
	locker, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()
	ctx := context.Background()

	err := lock.Do(ctx, locker, "invoice/7", lock.Options{}, func(ctx context.Context, fence lock.Fence) error {
		// Only one process is here at a time. ctx ends if the lease is lost.
		fmt.Println("fenced:", fence != lock.NoFence)
		return nil
	})
	fmt.Println(err)
	// Output:
	// fenced: true
	// <nil>
}

// A cron job that each of several machines starts, and that must run once: who is late finds the key held, and goes.
func ExampleDo_tryOnce() {
	locker, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()
	ctx := context.Background()
	once := lock.Options{TryOnce: true, Owner: "machine-2"}

	first, err := locker.Acquire(ctx, "nightly", lock.Options{Owner: "machine-1"})
	if err != nil {
		panic(err)
	}
	err = lock.Do(ctx, locker, "nightly", once, func(context.Context, lock.Fence) error {
		fmt.Println("this is not reached")
		return nil
	})
	var held *lock.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder)
	}
	fmt.Println(first.Release())
	// Output:
	// held by machine-1
	// <nil>
}

// WaitFor bounds the wait, and not the work.
func ExampleDo_boundedWait() {
	locker, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()
	ctx := context.Background()
	soon := lock.Options{WaitFor: 50 * time.Millisecond}

	first, err := locker.Acquire(ctx, "report", lock.Options{})
	if err != nil {
		panic(err)
	}
	err = lock.Do(ctx, locker, "report", soon, func(context.Context, lock.Fence) error { return nil })
	fmt.Println("held:", errors.Is(err, lock.ErrHeld), "and late:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println(first.Release())
	// Output:
	// held: true and late: true
	// <nil>
}

// A lease that is lost ends the ctx of the work with the cause. Here an operator takes the key away, and the next
// renewal finds that out.
func ExampleDo_lost() {
	locker, stop := redisLocker(redislock.WatchdogOptions{Lease: 300 * time.Millisecond})
	defer stop()

	err := lock.Do(context.Background(), locker, "job", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
		if _, err := lock.Evict(context.WithoutCancel(ctx), locker, "job"); err != nil {
			return err
		}
		<-ctx.Done() // work must heed its ctx
		return context.Cause(ctx)
	})
	fmt.Println("lost:", errors.Is(err, lock.ErrLost))
	// Output:
	// lost: true
}

// A write that was sent and not answered may still happen. Work says so with ErrOutcomeUnknown, and the next holder
// gets the key only when the lease has run out, so it reads what was written.
func ExampleDo_outcomeUnknown() {
	locker, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()
	ctx := context.Background()

	err := lock.Do(ctx, locker, "stock/pen", lock.Options{}, func(context.Context, lock.Fence) error {
		return fmt.Errorf("UPDATE stock: connection reset: %w", lock.ErrOutcomeUnknown)
	})
	fmt.Println(err)
	_, err = locker.Acquire(ctx, "stock/pen", lock.Options{TryOnce: true})
	fmt.Println("still held:", errors.Is(err, lock.ErrHeld))
	// Output:
	// UPDATE stock: connection reset: outcome unknown
	// still held: true
}

// Ctrl-C ends the work, which returns, and so gives the key back.
func ExampleDo_signal() {
	locker, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()

	err := lock.Do(ctx, locker, "import", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
		interrupt() // somebody presses Ctrl-C
		<-ctx.Done()
		return ctx.Err()
	})
	fmt.Println(err)
	next, err := locker.Acquire(context.Background(), "import", lock.Options{TryOnce: true})
	fmt.Println(err, next.Release())
	// Output:
	// context canceled
	// <nil> <nil>
}

func interrupt() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	if err != nil {
		panic(err)
	}
}

// A transfer needs both accounts. All sorts the keys, so that two transfers in opposite directions do not wait for each
// other for ever.
func ExampleAll() {
	locker, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()

	keys := []string{"account/2", "account/1"}
	err := lock.All(context.Background(), locker, keys, lock.Options{},
		func(_ context.Context, fences map[string]lock.Fence) error {
			fmt.Println(len(fences), "keys are held")
			return nil
		})
	fmt.Println(err)
	// Output:
	// 2 keys are held
	// <nil>
}

// Many goroutines of one process share the lease of one of them, in turn, and its round trips.
func ExampleHandOver() {
	plain, stop := redisLocker(redislock.WatchdogOptions{})
	defer stop()
	locker := lock.HandOver(plain, lock.Bound{Holders: 16, Time: 50 * time.Millisecond})

	var total int
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			err := lock.Do(context.Background(), locker, "counter", lock.Options{},
				func(context.Context, lock.Fence) error { total++; return nil })
			if err != nil {
				panic(err)
			}
		})
	}
	all.Wait()
	fmt.Println(total)
	// Output:
	// 32
}

// Metrics of any lock: how long callers wait and hold, and what is lost.
func ExampleObserve() {
	locker := lock.Observe(&local.Mutex{}, lock.Events{
		Waited: func(_ context.Context, _ time.Duration, err error) { fmt.Println("acquired:", err == nil) },
		Ended:  func(_ context.Context, _ time.Duration, err error) { fmt.Println("lost:", err != nil) },
	})

	err := lock.Do(context.Background(), locker, "key", lock.Options{},
		func(context.Context, lock.Fence) error { return nil })
	fmt.Println(err)
	// Output:
	// acquired: true
	// lost: false
	// <nil>
}
