package main

import (
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
)

// unready are the alerts of an instance that is alone and not ready.
var unready = []string{"StockNoInstanceReady", "StockInstanceNotReady"}

// failing are those of the sales that get no answer, slow those of slow ones, for whatever reason.
var (
	failing = []string{"StockSalesFailing1h", "StockSalesFailing6h", "StockSalesFailing3d"}
	slow    = []string{"StockSalesSlow1h", "StockSalesSlow6h", "StockSalesSlow3d"}
)

// ofSales is the factor of failures that make sales fail or slow: six hours are in the shorter window of the third of
// their alerts, which must pass until it ends.
const ofSales = 120

// shop are the settings of an order service with its ledger in a store.
func shop(store string) []string {
	return []string{"STOCK_PROFILE=orders", "STOCK_STORE=" + store}
}

func ordersIn(store string) func(*bed) []string { return func(*bed) []string { return shop(store) } }

func filled(store string) func(*bed) { return func(b *bed) { b.fill(store, sku) } }

func kill(name string) func(*bed) {
	return func(b *bed) { b.must("kill "+name, b.server(name).Kill()) }
}

func start(name string) func(*bed) {
	return func(b *bed) { b.must("start "+name, b.server(name).Restart(b.ctx)) }
}

func stores() []*failure {
	redis, mysql := []stack.Kind{stack.Redis}, []stack.Kind{stack.MySQL}
	return []*failure{
		{
			Name: "redis-down", Quick: true, Needs: redis, Make: kill("redis"), Mend: start("redis"),
			Fires: with(unready, "StockStoreDown"), Confirms: `stock_backend_up{backend="redis"} 0`,
		},
		{
			Name: "redis-down-in-business", Needs: redis, Factor: ofSales, Prepare: filled("redis"),
			Customers: func(b *bed) { b.customers(4, usualPause, plain, 100) },
			// No sale is under way at that moment: its outcome would be unknown, which is another failure.
			Make:  func(b *bed) { b.atRest(func() { kill("redis")(b) }) },
			Mend:  start("redis"),
			Fires: with(append(failing, unready...), "StockStoreDown"), Confirms: `stock_backend_up{backend="redis"} 0`,
		},
		{
			Name: "redis-empty", Quick: true, Needs: redis, Forgets: true, Factor: usual / 2, Env: ordersIn("redis"),
			Prepare: filled(""),
			Make:    func(b *bed) { kill("redis")(b); start("redis")(b) },
			Mend:    func(b *bed) { b.does("curl -X PUT", "?store=mysql", "") },
			Fires:   with(unready, "StockDataLost"), Confirms: `stock_store_data_lost{store="redis"} 1`,
		},
		{
			Name: "redis-older", Needs: redis, Forgets: true, Factor: usual / 2, Env: ordersIn("redis"),
			Prepare: func(b *bed) {
				b.fill("", sku)
				b.redis("SAVE") // the backup
			},
			Make: func(b *bed) {
				b.ordered(b.apps[0])
				kill("redis")(b)
				start("redis")(b)
			},
			Mend:  func(b *bed) { b.does("curl -X PUT", "?store=mysql", "") },
			Fires: with(unready, "StockDataLost"), Confirms: `stock_store_data_lost{store="redis"} 1`,
		},
		{
			Name: "redis-full", Needs: redis, Prepare: filled("redis"),
			Make:  func(b *bed) { b.redis("CONFIG", "SET", "maxmemory", "1mb") },
			Mend:  func(b *bed) { b.redis("CONFIG", "SET", "maxmemory", "0") },
			Fires: with(unready, "StockStoreFull"), Confirms: `stock_backend_full{backend="redis"} 1`,
		},
		{
			Name: "mysql-down", Needs: mysql, Env: ordersIn("mysql"), Make: kill("mysql"), Mend: start("mysql"),
			Fires: append(slices.Clone(unready), "StockStoreDown"), Confirms: "stock_ready 0",
		},
		{
			Name: "redis-slow", Needs: redis, Factor: ofSales, Env: throughProxy,
			Prepare:   filled("redis"),
			Customers: func(b *bed) { b.customers(4, usualPause, plain, 100) },
			Make:      func(b *bed) { b.link.Delay(wire.ToClient, 700*time.Millisecond) },
			Mend:      func(b *bed) { b.link.Delay(wire.ToClient, 0) },
			Fires:     slow, Confirms: `"latency_ms"`,
		},
		{
			Name: "reply-lost", Needs: mysql, Prepare: filled("mysql"), Env: throughProxy,
			Make: func(b *bed) {
				h := b.halt(b.apps[0], "/deduct_stock_pessimistic", "mysql", pausedAt("before_write"))
				b.loseCommit()
				reply := h.proceed()
				b.refused(reply, "outcome_unknown")
				b.unsure = reply.OrderID
			},
			Mend:  func(b *bed) { b.does("curl -X POST", "ORDER_ID", b.unsure) },
			Fires: []string{"StockOutcomeUnknown"}, Confirms: `problem="outcome_unknown"`, NotHere: noLedger,
		},
		{
			Name: "record-damaged", Needs: redis, Env: ordersIn("redis"), Prepare: filled(""),
			Make: func(b *bed) {
				b.ordered(b.apps[0])
				keys := b.redis("KEYS", "ledger:order:*").([]any)
				b.key = keys[0].(string)
				b.record = b.redis("GET", b.key).(string)
				b.redis("SET", b.key, "{")
				order := strings.TrimPrefix(b.key, "ledger:order:")
				_, err := get(b.ctx, b.apps[0].URL+"/v1/orders/"+order+"?customer=c")
				if err == nil || !strings.Contains(err.Error(), "500") {
					b.fatalf("reading a damaged order: %v, want 500", err)
				}
			},
			Mend:  func(b *bed) { b.redis("SET", b.key, b.record) },
			Fires: []string{"StockInternalError"}, Confirms: `problem="internal"`,
		},
		{
			Name: "second-writer", Instances: 2, Own: func(b *bed) []string {
				galera, err := b.stack.StartGalera(b.ctx, 2)
				b.must("start a Galera cluster", err)
				b.galera, b.link = galera, b.proxy(galera.Nodes[0], wire.MySQL())
				return append(shop("mysql"), "STOCK_MYSQL_DSN="+galera.Nodes[0].URL)
			},
			Env: func(b *bed) []string {
				return append(shop("mysql"), "STOCK_MYSQL_DSN=root@tcp("+b.link.Addr()+")/stock")
			},
			Prepare:  func(b *bed) { b.sick = b.apps[1] },
			Make:     func(b *bed) { b.link.Retarget(b.galera.Nodes[1].Addr) },
			Mend:     func(b *bed) { b.link.Retarget(b.galera.Nodes[0].Addr) },
			Fires:    []string{"StockSecondWriter", "StockInstanceNotReady"},
			Confirms: `stock_backend_second_writer{backend="mysql"} 1`,
		},
		{
			Name: "redis-node-of-a-cluster-down", More: map[stack.Kind][]string{
				stack.Redis: {"--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000"},
			},
			Env: func(b *bed) []string {
				cluster, err := b.stack.StartRedisCluster(b.ctx, 3)
				b.must("start a Redis Cluster", err)
				b.cluster = cluster
				return []string{
					"STOCK_REDIS_CLUSTER=true", "STOCK_REDIS_ADDRS=" + join(cluster.Addrs()),
				}
			},
			Make:  func(b *bed) { b.must("kill a node", b.cluster.Nodes[2].Kill()) },
			Mend:  func(b *bed) { b.must("start the node", b.cluster.Nodes[2].Restart(b.ctx)) },
			Fires: []string{"StockBackendImpaired"}, Confirms: `stock_backend_impaired{backend="redis"} 1`,
		},
	}
}

// with returns the alerts with the first in front, whose runbook is played.
func with(others []string, first ...string) []string { return append(first, others...) }
