package main

import (
	"strings"
	"time"
)

// A setting is one key of the configuration. The list is the only place that knows them all: defaults, flags, environment and
// the output of "stock config" follow from it.
type setting struct {
	key    string
	value  any // the default; its type is the setting's type
	help   string
	secret bool
}

func settings() []setting {
	return []setting{
		{key: "addr", value: ":8088", help: "address to listen on, for customers"},
		{key: "admin.addr", value: "127.0.0.1:9090", help: "address for operators (/metrics, /v1/locks, /v1/lab); empty: none"},
		{key: "instance", value: "", help: "name of this instance in orders and replies (default: host name and port)"},
		{key: "admin_token", value: "", help: "bearer token for setting stock; empty: nobody may", secret: true},
		{key: "lab", value: false, help: "allow hold=, fencing=off, heed_loss=off, pause= and nested= to the admin"},
		{key: "store", value: "redis", help: "store of requests that name none: redis or mysql"},
		{key: "wait", value: 10 * time.Second, help: "how long requests wait for a lock unless they say"},
		{key: "work", value: 2 * time.Second, help: "longest stay in the critical section"},
		{key: "drain", value: time.Second, help: "on SIGTERM, how long /readyz fails before the listener closes, and then how long its idle connections must not have been used"},
		{key: "stop", value: 15 * time.Second, help: "on SIGTERM, how long requests in flight may take before they are cut off"},
		{key: "limits.waiting", value: 10000, help: "sales that wait for a lock or work at a time in this instance, some 50 kB each; others are refused with 503 overloaded"},
		{key: "log.level", value: "info", help: "debug, info, warn or error"},
		{key: "log.format", value: "json", help: "json or text"},
		{
			key: "seed.sku", value: defaultSKU,
			help: "SKU to create at the first start on empty stores, and that of requests that name none; " +
				"empty: nothing is created, and they mean " + defaultSKU,
		},
		{key: "seed.quantity", value: int64(100), help: "units to create it with, once in the life of a store"},

		{key: "redis.addrs", value: []string{"127.0.0.1:6379"}, help: "host:port; several: Redis Cluster, or with redis.master_name the Sentinels; empty: no Redis"},
		{key: "redis.master_name", value: "", help: "name of the master that the Sentinels watch"},
		{key: "redis.cluster", value: false, help: "Redis Cluster also with one address"},
		{key: "redis.username", value: "", help: "user"},
		{key: "redis.password", value: "", help: "password", secret: true},
		{key: "redis.sentinel_password", value: "", help: "password of the Sentinels", secret: true},
		{key: "redis.db", value: 0, help: "database number (not with Cluster)"},
		{key: "redis.pool_size", value: 64, help: "connections of the store, and as many of the locks"},
		{key: "redis.queue", value: 2048, help: "operations of the store that wait for a connection at most; others are refused with 503 overloaded"},
		{key: "redis.timeout", value: time.Second, help: "limit of one command"},

		{key: "redlock.addrs", value: []string{}, help: "host:port of five independent Redis masters for redlock; empty: no redlock"},
		{key: "redlock.node_timeout", value: 50 * time.Millisecond, help: "how long one node has to answer; one that hangs must not hold up a round"},
		{key: "redlock.lease", value: 10 * time.Second, help: "lease of redlock; renewed every third"},
		{key: "redlock.quarantine", value: time.Duration(0), help: "a node does not count for this long after its start, lest it forgot a lock; 0s: one lease; negative: none"},

		{key: "zookeeper.hosts", value: []string{"127.0.0.1:2181"}, help: "host:port of the ensemble; empty: no ZooKeeper"},
		{key: "zookeeper.session_timeout", value: 10 * time.Second, help: "the server frees the locks of a dead instance after this"},
		{key: "zookeeper.connect_timeout", value: time.Second, help: "limit of one attempt to connect"},
		{key: "zookeeper.root", value: "/stock/locks", help: "path of the locks"},

		{key: "mysql.dsn", value: "stock:stock@tcp(127.0.0.1:3306)/stock", help: "user:password@tcp(host:port)/database; empty: no MySQL", secret: true},
		{key: "mysql.migrate", value: true, help: "bring the schema up to date when the database is reached"},
		{key: "mysql.pool_size", value: 24, help: "connections; those of all instances must stay below the server's max_connections"},
		{key: "mysql.queue", value: 512, help: "operations of the store that wait for a connection at most; others are refused with 503 overloaded"},
		{key: "mysql.lock_pool_size", value: 24, help: "further connections, for locks that keep one for each key; they count for max_connections, too"},
		{key: "mysql.lock_keys", value: 0, help: "keys that mysql-for-update holds at a time in one instance, and as many mysql-get-lock; 0: a third of lock_pool_size"},

		{key: "lock.setnx_lease", value: 10 * time.Second, help: "lease of the SETNX locks, not renewed; " +
			"longer than work, and by as much as a store may take over a write that it was sent"},
		{key: "lock.setnx_repair", value: false, help: "redis-setnx-expire gives an expiry to a key that a crash left without"},
		{key: "lock.watchdog_lease", value: 30 * time.Second, help: "lease of redis-watchdog; renewed every third"},
		{key: "lock.replicas", value: 0, help: "replicas of Redis that must have acknowledged a lock of redis-setnx or redis-watchdog; 0: none is asked"},
		{key: "lock.replica_timeout", value: 500 * time.Millisecond, help: "how long they have; shorter than redis.timeout"},
		{key: "lock.handover", value: true, help: "requests of one instance hand a lock on among themselves, in turns with other instances"},
		{key: "lock.segments", value: 8, help: "segments, with a lock each, that the strategy segmented splits a stock into"},
		{key: "lock.max_hold", value: 5 * time.Minute, help: "longest hold of a renewed lock"},
	}
}

// flag is the name of the setting on the command line: redis.pool_size is --redis-pool-size.
func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.key) }

// env is the name of the setting in the environment: redis.pool_size is STOCK_REDIS_POOL_SIZE.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

const envPrefix = "STOCK_"

// defaultSKU is what requests mean that name no SKU, where seed.sku does not say.
const defaultSKU = "stock"
