package selltest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
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
	own := servertest.Server(t, server.ZooKeeper)
	r := &rig{stores: map[string]shop{strategy.Redis: redisStore(t), strategy.MySQL: mysqlStore(t)}}
	for i := range r.servers {
		r.servers[i].ZooKeeper = session(t, own.URL)
	}
	sold := func(s *scene) {
		t.Helper()
		_, err := s.sell(t.Context())
		for end := time.Now().Add(time.Minute); errors.Is(err, lock.ErrDown) && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond) // only a polling interval
			_, err = s.sell(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type pair struct {
		one, other *scene
		late       service.Order // of a holder who is paused: all of it happens without his knowledge
	}
	var pairs []*pair
	for _, name := range []string{"zk-ephemeral", "zk-sequential"} {
		s, err := strategy.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for kept := range r.stores {
			w := r.way(t, s, kept)
			p := &pair{}
			p.one, p.other = w.stage(t)
			p.one.sku, p.other.sku = service.SKU(name), service.SKU(name)
			if _, err := p.one.SetStock(t.Context(), "", p.one.sku, 100); err != nil {
				t.Fatal(err)
			}
			sold(p.one)
			sold(p.other)
			lease, err := w.locks[0].Acquire(t.Context(), "paused-"+name+kept, lock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lease.Release() }()
			p.late = service.Order{
				ID: "paused-" + name, SKU: p.one.sku, Quantity: 1, Strategy: "it", Fence: uint64(lease.Fence()),
				CreatedAt: time.Now(),
			}
			pairs = append(pairs, p)
		}
	}
	for rebuilt := range int64(2) {
		if err := own.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(strings.TrimSuffix(own.Log, ".log"), "data")); err != nil {
			t.Fatal(err)
		}
		if err := own.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range pairs {
			sold(p.other)
			sold(p.one)
			stock, err := p.one.Stock(t.Context(), "", p.one.sku)
			if err != nil || stock.Initial-stock.Quantity != 2*rebuilt+4 {
				t.Errorf("%s: %+v, %v; want %d sold", p.one.sku, stock, err, 2*rebuilt+4)
			}
			p.late.Epoch, p.late.Version = stock.Epoch, stock.Version
			p.late.Read, p.late.Remaining = stock.Quantity, stock.Quantity-1
			if err := p.one.store.Write(t.Context(), p.late); !errors.Is(err, service.ErrStaleFence) {
				t.Errorf("%s: the holder of before wrote: %v", p.one.sku, err)
			}
		}
	}
}
