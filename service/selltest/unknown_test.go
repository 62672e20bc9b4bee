package selltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/redislock"
	"example.com/stock/lock/redislock/teaching"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// proxiedMySQL is a MySQL behind a fault proxy, and the same one without.
func proxiedMySQL(t *testing.T) (p *wire.Proxy, far, near shop) {
	t.Helper()
	dsn := newDatabase(t)
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
func masters(t *testing.T) []*redis.Client {
	t.Helper()
	list := make([]*redis.Client, 3)
	for i := range list {
		list[i] = dial(t, servertest.Redis(t).Addr)
	}
	return list
}

// The lease of these tests is longer than it takes to give up a write and to see it happen.
const unknownLease = 4 * time.Second

// twoInstances are a lock as two instances of the service have it.
func twoInstances(t *testing.T, name string) (here, there lock.Locker) {
	t.Helper()
	options := teaching.SetNXOptions{Lease: unknownLease}
	client := dial(t, servers.Redis(t).Addr)
	open := map[string]func() lock.Locker{
		"redis-setnx-del":   func() lock.Locker { return teaching.NewSetNXDel(client, options) },
		"redis-setnx-watch": func() lock.Locker { return teaching.NewSetNXWatch(client, options) },
		"redis-setnx-expire": func() lock.Locker {
			return teaching.NewSetNXExpire(client, teaching.SetNXExpireOptions{Lease: unknownLease})
		},
		"redis-setnx": func() lock.Locker {
			return redislock.NewSetNX(client, redislock.SetNXOptions{Lease: unknownLease})
		},
		"redis-watchdog": func() lock.Locker {
			w := redislock.NewWatchdog(client, redislock.WatchdogOptions{Lease: unknownLease})
			return lock.HandOver(w, lock.Bound{})
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

// A is told that the outcome is not known, because its COMMIT lies in the network. B asks for the lock at once. The
// COMMIT arrives when B has read, or when a second has passed in which B did not. Whatever B sells after that, it
// must not be by what A had read.
func TestUnknownOutcomeKeepsTheNextOneFromReading(t *testing.T) {
	t.Parallel()
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
	} {
		name := row.lock
		if row.lab.Unfenced {
			name += ", fencing off"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := twoInstances(t, row.lock)
			p, far, near := proxiedMySQL(t)
			a := stage(t, service.UnderLock(here), far, within(time.Second))
			read := make(chan struct{})
			m := &hookStore{shop: near}
			m.read = func(context.Context) { m.read = nil; close(read) }
			b := stage(t, service.UnderLock(there), comparing{m, near.(service.Swapper)})

			snare := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("COMMIT"), Do: wire.Hold})
			_, err := a.sell(t.Context(), lab(row.lab))
			fails(t, err, all(service.ErrOutcomeUnknown))

			var second service.Receipt
			var refused error
			var selling sync.WaitGroup
			selling.Go(func() {
				unfenced := lab(service.Lab{Unfenced: row.lab.Unfenced})
				second, refused = b.sell(t.Context(), wait(30*time.Second), unfenced)
			})
			early, patience := false, time.Second
			if row.atOnce {
				patience = time.Minute
			}
			select {
			case <-read:
				early = true
			case <-time.After(patience):
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

// A sale whose outcome is not known is not tried again: of the write that was lost, or of its reply, there is one
// order or none.
func TestUnknownOutcomeIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for name, seller := range map[string]func() service.Seller{
		"under a lock": func() service.Seller { return service.UnderLock(&local.Mutex{}) },
		"segmented":    func() service.Seller { return segmented(&local.Mutex{}, 1) },
		"optimistic":   func() service.Seller { return service.Optimistically(service.OptimisticOptions{}) },
		"atomic":       func() service.Seller { return service.Atomically },
		"merged":       func() service.Seller { return service.Merged(service.MergeOptions{}) },
		"pessimistic":  func() service.Seller { return service.InTransaction },
	} {
		for _, on := range []string{"mysql", "redis"} {
			if on == "redis" && name == "pessimistic" {
				continue // needs transactions
			}
			for fault, written := range map[wire.Action]int64{wire.Cut: 0, wire.CutReply: 1, wire.HoldReply: 1} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, on, fault), func(t *testing.T) {
					t.Parallel()
					var p *wire.Proxy
					var far, near shop
					word := "COMMIT"
					if on == "mysql" {
						p, far, near = proxiedMySQL(t)
					} else {
						word = "evalsha"
						p, far, near = proxiedRedis(t)
					}
					s := stage(t, seller(), far, within(2*time.Second))
					// The first one fetches units for a segment, and opens the connection.
					if _, err := s.sell(t.Context()); err != nil {
						t.Fatal(err)
					}
					snare := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(word), Do: fault})
					defer snare.Release()
					_, err := s.sell(t.Context())
					fails(t, err, all(service.ErrOutcomeUnknown), lock.ErrHeld)
					s.store = near
					s.Stores["here"] = service.StoreConfig{Store: near, Needs: s.keeping, Data: service.Trusted{}}
					// The reply to the first statement of a packet is lost before the last one is run.
					for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
						if stock, err := near.Read(t.Context(), s.sku); err != nil || stock.Sold == 1+written {
							break
						}
					}
					s.sold(t, 1+written)
				})
			}
		}
	}
}

// proxiedRedis is a Redis behind a fault proxy, and the same one without.
func proxiedRedis(t *testing.T) (p *wire.Proxy, far, near shop) {
	t.Helper()
	addr := servers.Redis(t).Addr
	p, err := wire.Listen(addr, wire.Redis())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, stock.NewRedis(repo.NewRedis(dial(t, p.Addr()))), stock.NewRedis(repo.NewRedis(dial(t, addr)))
}

// A slow end is a store whose transaction was sent for good when the wait for the row ended, and which did not learn
// of it in time.
type slowEnd struct {
	shop
	end context.CancelFunc
}

func (s slowEnd) Transact(context.Context, service.SKU, bool, func(context.Context, service.Store) error) error {
	s.end()
	return service.ErrOutcomeUnknown
}

// The wait may end at the moment at which the row is locked. What the store says of a transaction that it has sent
// counts, not the wait: "held" would say that nothing was written.
func TestUnknownOutcomeOfATransactionIsNotHeld(t *testing.T) {
	t.Parallel()
	wait, end := context.WithCancel(t.Context())
	err := service.InTransaction(
		service.WithWait(t.Context(), wait), slowEnd{redisStore(t), end}, &service.Sale{},
	)
	fails(t, err, all(service.ErrOutcomeUnknown), lock.ErrHeld)
}
