package strategy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"example.com/stock/app/health"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// sound are servers for all locks, with nothing in between.
func sound(t *testing.T) strategy.Servers {
	t.Helper()
	client := func(addr string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
		t.Cleanup(func() { c.Close() })
		return c
	}
	all := strategy.Servers{
		Redis: client(servers.Redis(t).Addr), RedlockNodeTimeout: 10 * time.Second, RedlockQuarantine: -1,
	}
	for range 3 {
		all.Redlock = append(all.Redlock, client(servertest.Redis(t).Addr))
	}
	session, err := zklock.Dial(zklock.Config{Hosts: []string{servers.ZooKeeper(t)}, SessionTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	for deadline := time.Now().Add(time.Minute); session.Check(t.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no session")
		}
	}
	all.ZooKeeper = session
	return all
}

// A held store is the same twice: behind a tap of the case's own, and without. The word is in the request that writes
// an order.
type held struct {
	behind func(*testing.T) (tap, service.StoreConfig)
	sound  service.StoreConfig
	word   string
}

func heldStores(t *testing.T, on *strategy.Servers) map[string]held {
	t.Helper()
	up := health.New("store", func(context.Context) error { return nil })
	if now, _ := up.Probe(t.Context()); now != nil {
		t.Fatal(now)
	}
	dsn, err := mysql.ParseDSN(database(t))
	if err != nil {
		t.Fatal(err)
	}
	direct := orm(t, dsn.FormatDSN())
	if on.MySQL, err = direct.DB(); err != nil {
		t.Fatal(err)
	}
	return map[string]held{
		strategy.Redis: {
			behind: func(t *testing.T) (tap, service.StoreConfig) {
				r := tapped(t, servers.Redis(t).Addr, wire.Redis())
				behind := stock.NewRedis(repo.NewRedis(r.redis()))
				return r, service.StoreConfig{Store: behind, Needs: up, Data: service.Trusted{}}
			},
			sound: service.StoreConfig{
				Store: stock.NewRedis(repo.NewRedis(on.Redis)), Needs: up, Data: service.Trusted{},
			},
			word: "order_id",
		},
		strategy.MySQL: {
			behind: func(t *testing.T) (tap, service.StoreConfig) {
				m, through := tapped(t, dsn.Addr, statements()), dsn.Clone()
				through.Addr = m.Addr()
				behind := repo.NewMySQL(orm(t, through.FormatDSN()))
				return m, service.StoreConfig{Store: stock.NewMySQL(behind), Needs: up, Data: service.Trusted{}}
			},
			sound: service.StoreConfig{
				Store: stock.NewMySQL(repo.NewMySQL(direct)), Needs: up, Data: service.Trusted{},
			},
			word: "INSERT INTO orders",
		},
	}
}

// With every strategy and on every store: a sale whose write is held on its way is settled as absent by the id that its
// error names, and when the write arrives it does nothing. One that was written is found.
func TestEverySaleCanBeSettled(t *testing.T) {
	t.Parallel()
	on := sound(t)
	stores := heldStores(t, &on)
	for _, s := range strategy.All() {
		for name, store := range stores {
			if len(s.Stores) > 0 && s.Stores[0] != name {
				continue
			}
			t.Run(s.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				settleOne(t, s, on, name, store)
			})
		}
	}
}

func settleOne(t *testing.T, s strategy.Strategy, on strategy.Servers, name string, store held) {
	seller, closer := s.Build(on, nil)
	defer closer()
	open := func(config service.StoreConfig, work time.Duration) *service.Service {
		shop, err := service.New(service.Config{
			Instance: "app-1", DefaultStore: name, Wait: 20 * time.Second, Work: work,
			Strategies: map[string]service.StrategyConfig{s.Name: {Seller: seller, Blocking: true}},
			Stores:     map[string]service.StoreConfig{name: config},
		})
		if err != nil {
			t.Fatal(err)
		}
		return shop
	}
	way, behind := store.behind(t)
	broken, direct := open(behind, 20*time.Second), open(store.sound, 20*time.Second)
	hasty := open(behind, time.Second)
	sku := service.SKU("settle-" + s.Name + "-" + name)
	if _, err := direct.SetStock(t.Context(), name, sku, 100); err != nil {
		t.Fatal(err)
	}
	sell := func(by *service.Service) (service.Receipt, error) {
		return by.Deduct(t.Context(), service.Request{Strategy: s.Name, SKU: sku, Quantity: 1, RequestID: "r"})
	}
	first, err := sell(broken) // opens the connection, loads the scripts
	if err != nil {
		t.Fatal(err)
	}
	got, err := direct.Settle(t.Context(), name, sku, first.ID)
	if err != nil || !got.Written || got.Order.ID != first.ID || got.Order.Version != first.Version {
		t.Errorf("what was sold is settled as %+v, %v", got, err)
	}

	snare := way.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(store.word), Do: wire.Hold})
	defer snare.Release()
	_, err = sell(hasty)
	var told *service.OrderError
	if !errors.As(err, &told) || told.SKU != sku || told.Store != name {
		t.Fatalf("the sale: %v, want an OrderError", err)
	}
	if name == strategy.Redis && !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("the sale: %v, want ErrOutcomeUnknown", err)
	}
	for range 2 {
		if got, err := direct.Settle(t.Context(), name, sku, told.OrderID); err != nil || got.Written {
			t.Errorf("while it is on its way: %+v, %v; want absent", got, err)
		}
		snare.Release()
	}
	// Behind it on the same server: what arrives has arrived then.
	for i := 0; ; i++ {
		if _, err := sell(direct); err == nil {
			break
		} else if i == 100 || !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrDown) {
			t.Fatal(err)
		}
	}
	page, err := direct.Orders(t.Context(), name, sku, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range page.Orders {
		ids = append(ids, o.ID)
	}
	stock, err := direct.Stock(t.Context(), name, sku)
	if err != nil || len(ids) != 2 || strings.Contains(strings.Join(ids, " "), told.OrderID) ||
		stock.Quantity != 98 || stock.Sold != 2 {
		t.Errorf("orders %v, %+v, %v; want two, without %s", ids, stock, err, told.OrderID)
	}
	if got, err := direct.Settle(t.Context(), name, sku, told.OrderID); err != nil || got.Written {
		t.Errorf("when it has arrived: %+v, %v; want absent", got, err)
	}
}

// A tap is a proxy before one server.
type tap struct {
	*wire.Proxy
	t *testing.T
}

func tapped(t *testing.T, addr string, p wire.Protocol) tap {
	t.Helper()
	proxy, err := wire.Listen(addr, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	return tap{proxy, t}
}

// statements are MySQL's without the pings, which come once a second however long the lock is held.
func statements() wire.Protocol {
	p := wire.MySQL()
	inner := p.Chatter
	p.Chatter = func(m []byte, first bool) bool {
		const header, ping = 4, 14
		return inner(m, first) || len(m) == header+1 && m[header] == ping
	}
	return p
}

func (p tap) redis() redis.UniversalClient {
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 4})
	p.t.Cleanup(func() { c.Close() })
	return c
}

// orm opens dsn as the service does.
func orm(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	g, err := repo.OpenMySQL(dsn, repo.Pool{})
	if err != nil {
		t.Fatal(err)
	}
	if db, err := g.DB(); err == nil {
		t.Cleanup(func() { db.Close() })
	}
	return g
}

// database returns the DSN of a database with the schema of the service, which is the test's own.
func database(t *testing.T) string {
	t.Helper()
	return servers.FilledMariaDB(t, func(t testing.TB, dsn string) {
		migrator, err := repo.NewMigrator(orm(t, dsn))
		if err == nil {
			_, err = migrator.Up(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
