package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/lock/zklock"
	"example.com/stock/service"
	"example.com/stock/tools/bench/rig"
)

// A weight is the memory of N equal things in one instance, and what of it is left when they are gone.
type weight struct {
	What  string  `json:"what"`
	N     int     `json:"n"`
	Bytes float64 `json:"bytes"` // of each: heap and stacks of this process
	Left  float64 `json:"left"`  // bytes in all, after the last has ended
	// Server is what each takes in Redis, 0 if nothing, and -1 where it was not measured.
	Server float64 `json:"server"`
}

const (
	manyWaiters = 100_000
	manyLeases  = 10_000
	manySKUs    = 1_000_000
)

// weigh measures what an instance keeps in memory, with real locks on real servers and a store that answers when it
// is told to. It takes about two minutes.
func (c *constants) weigh(ctx context.Context) (err error) {
	servers, err := stack.Start(ctx, stack.Options{
		Want: []stack.Kind{stack.Redis, stack.ZooKeeper}, AnyPort: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	if missing := servers.Missing(); len(missing) > 0 {
		return fmt.Errorf("%v", missing)
	}
	client := redis.NewClient(&redis.Options{Addr: servers.Server("redis").Addr, MaxRetries: -1})
	defer client.Close()
	session, err := zklock.Dial(zklock.Config{
		Hosts: []string{servers.Server("zookeeper").Addr}, SessionTimeout: time.Minute,
		ConnectTimeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	defer session.Close()
	// Each row has locks of its own: the end of a lease must not count for the next row.
	watchdog := func() lock.FenceRanger { return redislock.NewWatchdog(client, redislock.WatchdogOptions{}) }
	merged := func() service.Seller { return service.Merged(service.MergeOptions{Queue: 2 * manyWaiters}) }
	spareGoroutines(4 * manyWaiters)
	s := &scales{ctx: ctx, redis: client}
	c.Memory = nil
	for _, row := range []struct {
		what string
		of   func() (weight, error)
	}{
		{"waiter", func() (weight, error) {
			return s.waiters(service.UnderLock(lock.HandOver(watchdog(), lock.Bound{})))
		}},
		{"merged", func() (weight, error) { return s.waiters(merged()) }},
		{"batch", func() (weight, error) { return s.batches(merged()) }},
		{"kept redis", func() (weight, error) {
			return s.kept(lock.HandOver(watchdog(), lock.Bound{Keep: time.Hour}), true)
		}},
		{"kept zookeeper", func() (weight, error) {
			return s.kept(lock.HandOver(zklock.NewSequential(session), lock.Bound{Keep: time.Hour}), false)
		}},
		{"sku", func() (weight, error) {
			return s.seen(service.UnderLock(lock.HandOver(watchdog(), lock.Bound{})))
		}},
	} {
		w, err := row.of()
		if err != nil {
			return fmt.Errorf("memory of %s: %w", row.what, err)
		}
		w.What = row.what
		rig.Progress("  memory: %d of %q: %.0f bytes each, %.0f left in all, %.0f each in Redis", w.N, w.What, w.Bytes,
			w.Left, w.Server)
		c.Memory = append(c.Memory, w)
	}
	return nil
}

// spareGoroutines lets the runtime make n goroutines with a timer. It reuses what it knows of each (some 450 bytes) and
// the list of its timers, and never frees them, so without this the first row would seem to leave something.
func spareGoroutines(n int) {
	var all sync.WaitGroup
	end := make(chan struct{})
	for range n {
		all.Go(func() {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			select {
			case <-end:
			case <-timer.C:
			}
		})
	}
	close(end)
	all.Wait()
}

// used is the memory that is in use after a garbage collection.
func used() float64 {
	runtime.GC()
	runtime.GC() // what the first finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// A scales weighs.
type scales struct {
	ctx   context.Context
	redis *redis.Client
}

// shop returns a service of one strategy on a store of the test.
func (s *scales) shop(seller service.Seller, store *slowStore) (*service.Service, error) {
	return service.New(service.Config{
		Instance: "app-1", DefaultStore: "stub", Wait: time.Hour, Work: time.Hour,
		Stores:     map[string]service.StoreConfig{"stub": {Store: store, Needs: rig.Up{}}},
		Strategies: map[string]service.StrategyConfig{"s": {Seller: seller, Blocking: true}},
	})
}

func unit(sku string) service.Request {
	return service.Request{Strategy: "s", SKU: service.SKU(sku), Quantity: 1, RequestID: "bench"}
}

// waiters lets one sale be at work and all others wait for it.
func (s *scales) waiters(seller service.Seller) (weight, error) {
	store := &slowStore{open: make(chan struct{})}
	shop, err := s.shop(seller, store)
	if err != nil {
		return weight{}, err
	}
	one := func(int) error { _, err := shop.Deduct(s.ctx, unit("hot")); return err }
	return s.together(manyWaiters, store, 1, one)
}

// batches lets each sale be at work in a batch of its own.
func (s *scales) batches(seller service.Seller) (weight, error) {
	store := &slowStore{open: make(chan struct{})}
	shop, err := s.shop(seller, store)
	if err != nil {
		return weight{}, err
	}
	one := func(i int) error { _, err := shop.Deduct(s.ctx, unit(fmt.Sprint("sku-", i))); return err }
	return s.together(manyWaiters, store, manyWaiters, one)
}

// together begins n sales. Once so many have reached the store, and the others wait, it weighs them.
func (s *scales) together(n int, store *slowStore, reach int64, sell func(int) error) (weight, error) {
	if err := sell(-1); err != nil { // what is made once is there; the store is busy from now on
		return weight{}, err
	}
	store.busy.Store(true)
	w, before := weight{N: n}, used()
	failed := make(chan error, 1)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := sell(i); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	err := s.settle(func() bool { return store.reached.Load() >= reach })
	w.Bytes = (used() - before) / float64(n)
	close(store.open)
	all.Wait()
	select {
	case failure := <-failed:
		err = errors.Join(err, failure)
	default:
	}
	w.Left = max(0, used()-before)
	return w, err
}

// settle waits until ready, and until nothing more is being begun.
func (s *scales) settle(ready func() bool) error {
	for last := -1; ; time.Sleep(200 * time.Millisecond) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := int(m.Mallocs >> 10)
		if ready() && now == last {
			return nil
		}
		last = now
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
	}
}

// kept acquires and releases leases that stay here.
func (s *scales) kept(l lock.Locker, inRedis bool) (weight, error) {
	key := func(i int) string { return fmt.Sprint("kept-", i) }
	turn := func(i int) error {
		lease, err := l.Acquire(s.ctx, key(i), lock.Options{})
		if err != nil {
			return err
		}
		return lease.Release()
	}
	if err := turn(-1); err != nil {
		return weight{}, err
	}
	w, before, inServer := weight{N: manyLeases, Server: -1}, used(), s.inRedis()
	if err := s.each(manyLeases, turn); err != nil {
		return w, err
	}
	w.Bytes = (used() - before) / float64(w.N)
	if inRedis {
		w.Server = (s.inRedis() - inServer) / float64(w.N)
	}
	closer, ok := l.(interface{ Close() error })
	if !ok {
		return w, errors.New("a hand-over cannot be closed")
	}
	err := closer.Close()
	w.Left = max(0, used()-before)
	return w, err
}

// seen sells one unit of each of very many SKUs.
func (s *scales) seen(seller service.Seller) (weight, error) {
	shop, err := s.shop(seller, &slowStore{})
	if err != nil {
		return weight{}, err
	}
	one := func(i int) error { _, err := shop.Deduct(s.ctx, unit(fmt.Sprint("seen-", i))); return err }
	if err := one(-1); err != nil {
		return weight{}, err
	}
	w, before, inServer := weight{N: manySKUs}, used(), s.inRedis()
	if err := s.each(manySKUs, one); err != nil {
		return w, err
	}
	w.Left = max(0, used()-before)
	w.Bytes, w.Server = w.Left/float64(w.N), (s.inRedis()-inServer)/float64(w.N)
	runtime.KeepAlive(shop)
	return w, nil
}

// each does something for each number below n, by several callers.
func (s *scales) each(n int, do func(int) error) error {
	var next atomic.Int64
	return together(s.ctx, 32, n, func() error { return do(int(next.Add(1))) })
}

// inRedis returns the memory of Redis, or 0.
func (s *scales) inRedis() (bytes float64) {
	info, _ := s.redis.Info(s.ctx, "memory").Result()
	for line := range strings.SplitSeq(info, "\r\n") {
		if _, err := fmt.Sscanf(line, "used_memory:%g", &bytes); err == nil {
			break
		}
	}
	return bytes
}

// A slowStore has plenty of each SKU. While it is busy, it answers nothing until open is closed.
type slowStore struct {
	service.Inventory // nil: nobody asks
	open              chan struct{}
	busy              atomic.Bool
	reached           atomic.Int64 // calls that came while it was busy
}

func (s *slowStore) wait() {
	if s.busy.Load() {
		s.reached.Add(1)
		<-s.open
	}
}

func (s *slowStore) Read(_ context.Context, sku service.SKU) (service.Stock, error) {
	s.wait()
	return service.Stock{SKU: sku, Quantity: plenty, Initial: plenty, Version: 1, Epoch: 1}, nil
}

func (s *slowStore) Write(context.Context, service.Order) error { return nil }

func (s *slowStore) Batch(_ context.Context, _ uint64, orders []service.Order) ([]service.BatchResult, error) {
	s.wait()
	results := make([]service.BatchResult, len(orders))
	for i, o := range orders {
		results[i].Order = o
	}
	return results, nil
}
