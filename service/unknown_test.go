package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/stack/stacktest"
	"example.com/stock/stack/wire"
)

// proxiedMySQL is a MySQL behind a fault proxy, and the same one without.
func proxiedMySQL(t *testing.T) (p *wire.Proxy, far, near *repo.MySQL) {
	t.Helper()
	dsn := servers.MariaDB(t)
	_, rest, _ := strings.Cut(dsn, "(")
	addr, _, _ := strings.Cut(rest, ")")
	p, err := wire.Listen(addr, wire.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	near = openMySQL(t, dsn)
	return p, openMySQL(t, strings.Replace(dsn, addr, p.Addr(), 1)), near
}

// masters are three Redis servers of their own.
func masters(t *testing.T) []redis.UniversalClient {
	t.Helper()
	list := make([]redis.UniversalClient, 3)
	for i := range list {
		list[i] = dial(t, stacktest.Redis(t).Addr)
	}
	return list
}

// The lease of these tests is longer than it takes to give up a write and to see it happen.
const unknownLease = 4 * time.Second

// twoInstances are a lock as two instances of the service have it.
func twoInstances(t *testing.T, name string) (here, there lock.Locker) {
	t.Helper()
	options := redislock.SetNXOptions{Lease: unknownLease}
	client := dial(t, servers.Redis(t).Addr)
	open := map[string]func() lock.Locker{
		"redis-setnx-del":   func() lock.Locker { return redislock.NewSetNXDel(client, options) },
		"redis-setnx-watch": func() lock.Locker { return redislock.NewSetNXWatch(client, options) },
		"redis-setnx-expire": func() lock.Locker {
			return redislock.NewSetNXExpire(client, redislock.SetNXExpireOptions{SetNXOptions: options})
		},
		"redis-setnx": func() lock.Locker { return redislock.NewSetNX(client, options) },
		"redis-watchdog": func() lock.Locker {
			return lock.HandOver(redislock.NewWatchdog(client, redislock.WatchdogOptions{Lease: unknownLease}), lock.Bound{})
		},
	}[name]
	switch name {
	case "local-mutex": // of one instance, which is all that it promises
		m := &local.Mutex{Linger: unknownLease}
		return m, m
	case "redis-watchdog, one instance":
		w := redislock.NewWatchdog(client, redislock.WatchdogOptions{Lease: unknownLease})
		t.Cleanup(func() { _ = w.Close() })
		l := lock.HandOver(w, lock.Bound{})
		return l, l
	case "redlock":
		clients := masters(t)
		open = func() lock.Locker {
			l, err := redislock.NewRedlock(clients, redislock.RedlockOptions{
				Lease: unknownLease, NodeTimeout: time.Second, Quarantine: -1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
	}
	list := make([]lock.Locker, 2)
	for i := range list {
		list[i] = open()
		if c, ok := list[i].(interface{ Close() error }); ok {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	return list[0], list[1]
}

// A is told that the outcome is not known, because its COMMIT lies in the network. B asks for the lock at once. The COMMIT arrives when B
// has read, or when a second has passed in which B did not. Whatever B sells after that, it must not be by what A had read.
func TestUnknownOutcomeKeepsTheNextOneFromReading(t *testing.T) {
	for _, row := range []struct {
		lock   string
		lab    service.Lab
		atOnce bool // B gets the lock at once: its write compares the version
	}{
		{"local-mutex", service.Lab{}, false},
		{"redis-setnx-expire", service.Lab{}, false},
		{"redis-setnx-del", service.Lab{}, false},
		{"redis-setnx-watch", service.Lab{}, false},
		{"redlock", service.Lab{}, false},
		{"redis-setnx", service.Lab{}, true},
		{"redis-setnx", service.Lab{Unfenced: true}, false},
		{"redis-watchdog", service.Lab{}, true},
		{"redis-watchdog", service.Lab{Unfenced: true}, false},
		{"redis-watchdog, one instance", service.Lab{Unfenced: true}, false},
		{"local-mutex", service.Lab{Nested: service.NestedHolder}, false},
	} {
		name := row.lock
		if row.lab.Unfenced {
			name += ", fencing off"
		}
		if row.lab.Nested != "" {
			name += ", nested"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := twoInstances(t, row.lock)
			p, far, near := proxiedMySQL(t)
			a := stage(t, service.UnderLock(here), far, within(time.Second))
			read := make(chan struct{})
			m := &meddler{shop: near}
			m.read = func(context.Context) { m.read = nil; close(read) }
			b := stage(t, service.UnderLock(there), comparing{m, near}, func(c *service.Config) { c.Instance = "app-2" })

			snare := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("COMMIT"), Do: wire.Hold})
			_, err := a.sell(t.Context(), lab(row.lab))
			fails(t, err, all(service.ErrOutcomeUnknown))

			var second service.Receipt
			var refused error
			var selling sync.WaitGroup
			selling.Go(func() {
				second, refused = b.sell(t.Context(), wait(30*time.Second), lab(service.Lab{Unfenced: row.lab.Unfenced}))
			})
			early := false
			select {
			case <-read:
				early = true
			case <-time.After(time.Second):
			}
			snare.Release()
			selling.Wait()

			stock, err := b.Stock(t.Context(), "", b.sku)
			if err != nil {
				t.Fatal(err)
			}
			page, err := b.Orders(t.Context(), "", b.sku, "", service.MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			versions := make(map[uint64]string)
			for _, o := range page.Orders {
				if other, twice := versions[o.Version]; twice {
					t.Errorf("orders %s and %s both read version %d", other, o.ID, o.Version)
				}
				versions[o.Version] = o.ID
			}
			if stock.Quantity+stock.Sold != stock.Initial {
				t.Errorf("of %d units %d were sold and %d are left", stock.Initial, stock.Sold, stock.Quantity)
			}
			switch {
			case early != row.atOnce:
				t.Errorf("B read before A's write was done: %v, want %v", early, row.atOnce)
			case row.atOnce && !errors.Is(refused, service.ErrOvertaken):
				t.Errorf("B, who read what A's late write changed, got %+v, %v; want ErrOvertaken", second, refused)
			case !row.atOnce && (refused != nil || len(page.Orders) != 2):
				t.Errorf("B: %v, %d orders; want it sold after A", refused, len(page.Orders))
			}
		})
	}
}
