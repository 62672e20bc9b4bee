package main

import (
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/loadtest"
)

func pausedAt(point string) loadtest.LabOptions { return loadtest.LabOptions{Pause: []string{point}} }

// noLedger begins the commands of a runbook that need orders: a SKU that is sold by a strategy has no ledger to audit.
const noLedger = "stock audit"

// throughProxy starts a proxy in front of the only server of the bed, and returns its address as a setting.
func throughProxy(b *bed) []string {
	if b.stack.Server("mysql") != nil {
		b.link = b.proxy(b.server("mysql"), wire.MySQL())
		return []string{"STOCK_MYSQL_DSN=root@tcp(" + b.link.Addr() + ")/stock", "STOCK_STORE=mysql"}
	}
	b.link = b.proxy(b.server("redis"), wire.Redis())
	return []string{"STOCK_REDIS_ADDRS=" + b.link.Addr()}
}

// loseCommit makes the reply to the next COMMIT get lost.
func (b *bed) loseCommit() {
	b.link.Set(wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains("COMMIT")})
}

// shortLease lets a holder notice within 2 s that it has lost its lease. The sale then ends by itself.
func shortLease(*bed) []string { return []string{"STOCK_LOCK_WATCHDOG_LEASE=6s"} }

func join(list []string) string { return strings.Join(list, ",") }

func locks() []*failure {
	redis := []stack.Kind{stack.Redis}
	masters := slices.Repeat(redis, 6) // five of them are for Redlock
	redlock := func(*bed) []string {
		return []string{"STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=2s"}
	}
	evict := func(b *bed) {
		b.must("evict", b.operator(b.apps[0]).Call(b.ctx, "DELETE", "/v1/locks/redis-watchdog/"+sku, nil, nil))
	}
	return []*failure{
		{
			Name: "hot-sku", Needs: redis, Factor: ofSales, Env: throughProxy, Prepare: filled("redis"),
			Customers: func(b *bed) { b.customers(8, usualPause, merged, 200) },
			Make: func(b *bed) {
				b.link.Delay(wire.ToClient, 5*time.Millisecond)
				b.buyBy(once)
			},
			Mend: func(b *bed) {
				b.does("curl -s -f -X POST")
				b.buyBy(merged)
			},
			Fires: failing, Also: "hot-sku", Confirms: `problem="lock_busy"`,
		},
		{
			Name: "lock-stuck", Needs: redis, Factor: ofSales, Prepare: filled("redis"),
			Customers: func(b *bed) { b.customers(1, usualPause, once, 20) }, // alone, he finds no lock held
			Env:       shortLease,
			Make: func(b *bed) {
				b.held = b.halt(b.apps[0], watchdog, "redis", pausedAt("before_write"))
			},
			Mend: func(b *bed) {
				b.does("stock lock evict")
				b.refused(b.held.end(), "lock_lost")
			},
			Fires: with(failing, "StockLockStuck"), Follows: []string{"StockLeaseLost"},
			Confirms: `"since_ms"`,
		},
		{
			Name: "lease-lost", Needs: redis, Prepare: filled("redis"), Env: shortLease,
			Make: func(b *bed) {
				h := b.halt(b.apps[0], watchdog, "redis", pausedAt("before_write"))
				evict(b)
				b.refused(h.end(), "lock_lost")
			},
			Fires: []string{"StockLeaseLost"}, Confirms: `stock_lock_lost_total{strategy="redis-watchdog"} 1`,
			NotHere: noLedger,
		},
		{
			Name: "late-write", Quick: true, Needs: redis, Prepare: filled("redis"),
			Make: func(b *bed) {
				h := b.halt(b.apps[0], watchdog, "redis",
					loadtest.LabOptions{Pause: []string{"before_write"}, IgnoreLoss: true})
				evict(b)
				b.refused(h.proceed(), "stale_fence")
			},
			Fires: []string{"StockFenceRefused"}, Confirms: `problem="stale_fence"`,
		},
		{
			Name: "holder-frozen", Needs: redis, Instances: 2, Factor: usual / 2, Prepare: filled("redis"),
			Env: shortLease,
			Make: func(b *bed) {
				b.held = b.halt(b.apps[0], watchdog, "redis", pausedAt("before_write"))
				b.must("freeze", b.apps[0].Pause())
				b.front = b.apps[1]
				next := b.halt(b.apps[1], watchdog, "redis", pausedAt("before_write"))
				if reply := next.proceed(); reply.Outcome != loadtest.Accepted {
					b.fatalf("the next holder is refused: %s", reply.Problem)
				}
			},
			Mend: func(b *bed) {
				b.must("thaw", b.apps[0].Resume())
				b.refused(b.held.end(), "lock_lost")
			},
			Fires: []string{"StockInstanceDown"}, Follows: []string{"StockLeaseLost"}, Fails: "curl",
		},
		{
			Name: "release-lost", Needs: redis, Env: throughProxy, Prepare: filled("redis"),
			Make: func(b *bed) {
				h := b.halt(b.apps[0], watchdog, "redis", pausedAt("after_write"))
				for range 20 { // the release is tried several times
					trap := b.link.Set(wire.Trap{On: wire.ToServer, Do: wire.Cut, Match: wire.Contains(sku)})
					b.after(trap.Release)
				}
				if reply := h.proceed(); reply.Outcome != loadtest.Accepted {
					b.fatalf("the sale is refused: %s", reply.Problem)
				}
			},
			Fires:    []string{"StockLockStranded"},
			Confirms: `stock_lock_stranded_total{strategy="redis-watchdog"} 1`,
		},
		{
			Name: "zookeeper-down", Needs: []stack.Kind{stack.Redis, stack.ZooKeeper}, Make: kill("zookeeper"),
			Mend: start("zookeeper"), Fires: []string{"StockLockServerDown"},
			Confirms: `stock_backend_up{backend="zookeeper"} 0`,
		},
		{
			Name: "redlock-majority-down", Needs: masters, Env: redlock,
			Make:  func(b *bed) { kill("redis-2")(b); kill("redis-3")(b); kill("redis-4")(b) },
			Mend:  func(b *bed) { start("redis-2")(b); start("redis-3")(b); start("redis-4")(b) },
			Fires: []string{"StockLockServerDown"}, Confirms: `stock_backend_up{backend="redlock"} 0`,
		},
		{
			Name: "redlock-node-down", Needs: masters, Env: redlock, Make: kill("redis-2"), Mend: start("redis-2"),
		},
		{
			Name: "lost-update", Needs: redis, Instances: 2, Prepare: filled("redis"),
			Make: func(b *bed) {
				a := b.halt(b.apps[0], "/deduct_stock", "redis", pausedAt("after_read"))
				c := b.halt(b.apps[1], "/deduct_stock", "redis", pausedAt("after_read"))
				a.proceed()
				c.proceed()
				stock, err := b.client(b.apps[0]).Stock(b.ctx, "redis", sku)
				b.must("read the stock", err)
				if stock.Quantity != units-1 {
					b.fatalf("%d units are left of %d: no update was lost", stock.Quantity, units)
				}
			},
		},
	}
}
