package selltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// A clause is what strategies promise when two instances sell on real servers. Each check has an SKU of its own.
type clause struct {
	name, text string
	concerns   func(*way) bool
	check      func(t *testing.T, w *way)
}

var clauses = []clause{
	{"receipt", "The receipt and the order in the store say what was read and written.", every, receiptIsTrue},
	{"sold-out", "What is not there is refused, with what is left; the last unit is sold.", every, soldOutIsTrue},
	{"exact", "More buyers than units: each unit is sold once, and every refusal is true.", excluding, sellsExactly},
	{"guard", "Stock that another strategy has sold from is refused, and that one refuses ours.", every, guards},
	{"leave", "A client that leaves when the write begins changes nothing.", every, clientLeavesInside},
	{"anew", "Books that are deleted and set anew under a sale are not written to by it.", every, booksSetAnew},
	{"turn", "While one is inside, others wait as long as asked, and leave nothing behind.", exclusive, takesTurns},
	{"overload", "One too many is refused at once; when one has left, another may come.", every, bounded},
	{"key", "A request that comes again with its key gets the first receipt again.", every, keyReplays},
	{"key-once", "Of many requests with one key on two instances one sells.", every, keySellsOnce},
	{"doubt", "An order in doubt is not tried again, and its id settles whether it was written.", every, settlesDoubt},
	{"lease", "Until a write in doubt can no longer happen, no other sale overwrites it.", leased, keepsTheLease},
	{"evicted", "A holder that was evicted cannot write; the next one can.", evictable, evictedCannotWrite},
	{"flagged", "A lease that is lost after the write is flagged, and the order stands.", evictable, lateLossIsFlagged},
	{"steps", "A sale tells its steps and can be stopped at every point that it has.", every, tellsItsSteps},
}

func every(*way) bool { return true }

func exclusive(w *way) bool { return w.Promise.Exclusive }

// excluding are those that never lose an update.
func excluding(w *way) bool { return w.Promise.Scope != driver.Nowhere }

func evictable(w *way) bool { return w.Lock != nil && w.Promise.Fenced }

// leased are those whose lock outlives a write in doubt. How the store behaves is the same for all: one is enough.
func leased(w *way) bool { return w.Lock != nil && w.Promise.Exclusive && w.kept == strategy.MySQL }

func TestEveryStrategyKeepsItsClauses(t *testing.T) {
	t.Parallel()
	r := openRig(t, mysqlDSN(t))
	for _, s := range strategy.All() {
		for kept := range r.stores {
			if s.Stores != nil && s.Stores[0] != kept {
				continue
			}
			t.Run(s.Name+"/"+kept, func(t *testing.T) {
				t.Parallel()
				w := r.way(t, s, kept)
				for _, c := range clauses {
					if !c.concerns(w) {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						t.Parallel()
						c.check(t, w)
						if t.Failed() {
							t.Log("broken:", c.text)
						}
					})
				}
			})
		}
	}
}

// A rig has the servers of two instances, and the stores.
type rig struct {
	servers [2]strategy.Servers
	stores  map[string]shop
	remove  map[string]func(service.SKU) error // the books of an SKU
}

// openRig opens clients of the shared servers, with locks and stock in the MySQL with that DSN. Leases are long: a busy
// computer must not lose one.
func openRig(t *testing.T, dsn string) *rig {
	t.Helper()
	r := &rig{}
	var masters []string
	for range 3 {
		masters = append(masters, servertest.Redis(t).Addr)
	}
	for i := range r.servers {
		pool, err := orm(t, dsn).DB()
		if err != nil {
			t.Fatal(err)
		}
		r.servers[i] = strategy.Servers{
			Redis: dial(t, servers.Redis(t).Addr), ZooKeeper: session(t, servers.ZooKeeper(t)), MySQL: pool,
			SetNXLease: time.Minute, RedlockLease: time.Minute, RedlockNodeTimeout: 10 * time.Second,
			RedlockQuarantine: -1,
		}
		for _, addr := range masters {
			r.servers[i].Redlock = append(r.servers[i].Redlock, dial(t, addr))
		}
	}
	client, db := dial(t, servers.Redis(t).Addr), orm(t, dsn)
	r.stores = map[string]shop{
		strategy.Redis: stock.NewRedis(repo.NewRedis(client)), strategy.MySQL: stock.NewMySQL(repo.NewMySQL(db)),
	}
	ctx := context.WithoutCancel(t.Context())
	r.remove = map[string]func(service.SKU) error{
		strategy.Redis: func(sku service.SKU) error { return client.Del(ctx, "stock:{"+string(sku)+"}").Err() },
		strategy.MySQL: func(sku service.SKU) error {
			return db.WithContext(ctx).Exec("DELETE FROM stock WHERE sku = ?", string(sku)).Error
		},
	}
	return r
}

func session(t *testing.T, addr string) *zklock.Session {
	t.Helper()
	s, err := zklock.Dial(zklock.Config{Hosts: []string{addr}, SessionTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	servertest.Eventually(t, time.Minute, "a session", func() (bool, string) { return s.Check(t.Context()) == nil, "" })
	return s
}

// A way is a strategy on a store, as two instances have it.
type way struct {
	strategy.Strategy
	rig     *rig
	kept    string // the name of the store
	store   shop
	sellers [2]service.Seller
	locks   [2]lock.Locker // nil: it has none
}

// way builds a strategy for both instances. One that excludes within its process alone has one instance, twice.
func (r *rig) way(t *testing.T, s strategy.Strategy, kept string, change ...func(*strategy.Servers)) *way {
	t.Helper()
	w := &way{Strategy: s, rig: r, kept: kept, store: r.stores[kept]}
	for i, on := range r.servers {
		if i > 0 && s.Promise.Scope == driver.Process {
			w.sellers[i], w.locks[i] = w.sellers[0], w.locks[0]
			continue
		}
		for _, f := range change {
			f(&on)
		}
		seller, closer := s.Build(on, func(l lock.Locker) lock.Locker { w.locks[i] = l; return l })
		t.Cleanup(func() { _ = closer() })
		w.sellers[i] = seller
	}
	return w
}

// stage sets the two instances up, with the same stock.
func (w *way) stage(t *testing.T, change ...func(*service.Config)) (one, other *scene) {
	t.Helper()
	return w.on(t, 0, w.store, change...), w.on(t, 1, w.store, change...)
}

// on sets one of the instances up, on a store.
func (w *way) on(t *testing.T, instance int, store shop, change ...func(*service.Config)) *scene {
	t.Helper()
	own := func(c *service.Config) {
		it := c.Strategies["it"]
		it.Lock, it.Segmented = w.locks[instance], w.Segmented
		c.Strategies["it"] = it
	}
	return stage(t, w.sellers[instance], store, append([]func(*service.Config){own}, change...)...)
}

// A hook does something once, at a step of a sale.
type hook struct {
	kind service.StepKind
	do   func(service.Step)
	mu   sync.Mutex
	done bool
}

func (h *hook) Tell(s service.Step) {
	h.mu.Lock()
	first := s.Kind == h.kind && !h.done
	h.done = h.done || first
	h.mu.Unlock()
	if first {
		h.do(s)
	}
}

// at does something once, when a sale of the scene comes to a step from now on.
func (s *scene) at(kind service.StepKind, do func(service.Step)) func(*service.Request) {
	return s.told(&hook{kind: kind, do: do})
}

// An answer is what became of a sale.
type answer struct {
	receipt service.Receipt
	err     error
}

// inside begins a sale that stays at a step until it is let go, and returns when it is there.
func (s *scene) inside(t *testing.T, kind service.StepKind, change ...func(*service.Request)) (letGo func() answer) {
	t.Helper()
	there, goOn, done := make(chan struct{}), make(chan struct{}), make(chan answer, 1)
	free := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(free)
	go func() {
		r, err := s.sell(context.WithoutCancel(t.Context()),
			append(change, s.at(kind, func(service.Step) { close(there); <-goOn }))...)
		done <- answer{r, err}
	}()
	select {
	case <-there:
	case a := <-done:
		t.Fatalf("it did not come to %q: %+v", kind, a)
	}
	return func() answer { free(); return <-done }
}
