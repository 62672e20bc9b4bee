package strategy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// ZooKeeper loses all it had, under instances that run on: it counts its transactions from the beginning again. All
// strategies sell again, on both stores, and nobody starts an instance or sets the stock. Whoever held a key before
// is refused.
func TestZooKeeperIsBuiltAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	server := servertest.Server(t, server.ZooKeeper)
	stores := map[string]service.StoreConfig{
		strategy.Redis: {Store: stock.NewRedis(repo.NewRedis(plain(t))), Needs: up{}, Data: service.Trusted{}},
		strategy.MySQL: {
			Store: stock.NewMySQL(repo.NewMySQL(orm(t, database(t)))), Needs: up{}, Data: service.Trusted{},
		},
	}
	names := []string{"zk-ephemeral", "zk-sequential"}
	instances, lockers := make([]*service.Service, 2), make(map[string]lock.Locker)
	for i := range instances {
		session, err := zklock.Dial(zklock.Config{Hosts: []string{server.URL}, SessionTimeout: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		offers := map[string]service.StrategyConfig{}
		for _, name := range names {
			s, err := strategy.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			seller, _ := s.Build(strategy.Servers{ZooKeeper: session}, func(l lock.Locker) lock.Locker {
				lockers[name] = l
				return l
			})
			offers[name] = service.StrategyConfig{Seller: seller, Blocking: true}
		}
		instances[i], err = service.New(service.Config{
			Instance: "test", Strategies: offers, Stores: stores, DefaultStore: strategy.Redis,
			Wait: 5 * time.Second, Work: 5 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sell := func(i int, store, name string) error {
		_, err := instances[i].Deduct(t.Context(), service.Request{
			Strategy: name, Store: store, SKU: service.SKU(name), Quantity: 1,
		})
		return err
	}
	soldSoon := func(i int, store, name string) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if err = sell(i, store, name); !errors.Is(err, lock.ErrDown) {
				break
			}
		}
		if err != nil {
			t.Fatalf("instance %d, %s on %s: %v", i, name, store, err)
		}
	}
	orders := make(map[string]service.Order)
	for store, config := range stores {
		for _, name := range names {
			if _, err := config.Store.Set(t.Context(), service.SKU(name), 100); err != nil {
				t.Fatal(err)
			}
			for i := range instances {
				soldSoon(i, store, name)
			}
		}
	}
	// Somebody holds each key, and is paused: all of it happens without his knowledge.
	for _, name := range names {
		lease, err := lockers[name].Acquire(t.Context(), name, lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lease.Release() }()
		orders[name] = service.Order{
			ID: "paused-" + name, SKU: service.SKU(name), Quantity: 1, Strategy: name,
			Fence: uint64(lease.Fence()), CreatedAt: time.Now(),
		}
	}
	for rebuilt := range 2 {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(strings.TrimSuffix(server.Log, ".log"), "data")); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		for store, config := range stores {
			for _, name := range names {
				for _, i := range []int{1, 0} {
					soldSoon(i, store, name)
				}
				late := orders[name]
				stock, err := config.Store.Read(t.Context(), late.SKU)
				if err != nil {
					t.Fatal(err)
				}
				late.Epoch, late.Version = stock.Epoch, stock.Version
				late.Read, late.Remaining = stock.Quantity, stock.Quantity-1
				if err := config.Store.Write(t.Context(), late); !errors.Is(err, service.ErrStaleFence) {
					t.Errorf("%s on %s: the holder of before wrote: %v", name, store, err)
				}
				if sold := stock.Initial - stock.Quantity; sold != int64(2*rebuilt+4) {
					t.Errorf("%s on %s: %d sold, want %d", name, store, sold, 2*rebuilt+4)
				}
			}
		}
	}
}

func plain(t *testing.T) redis.UniversalClient {
	c := redis.NewClient(&redis.Options{Addr: servers.Redis(t).Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// up is a store that is never down.
type up struct{}

func (up) Err() error { return nil }

func (up) Up() context.Context { return context.Background() }
