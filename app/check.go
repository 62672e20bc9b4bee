package app

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/relay"
	"example.com/stock/service"
)

// check returns an error for every key with an unusable value.
func (c *Config) check() (bad []error) {
	no := func(key, format string, args ...any) { bad = append(bad, fmt.Errorf(key+": "+format, args...)) }
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		no("addr", "%q is not host:port", c.Addr)
	}
	if _, _, err := net.SplitHostPort(c.Admin.Addr); err != nil && c.Admin.Addr != "" {
		no("admin.addr", "%q is not host:port", c.Admin.Addr)
	}
	if c.Lab && c.AdminToken == "" {
		no("lab", "needs admin_token: lab mode switches protections off, which is not for everybody")
	}
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			no(key, "%q is none of %s", value, strings.Join(allowed, ", "))
		}
	}
	oneOf("store", c.Store, "redis", "mysql")
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "json", "text")
	within := func(key string, d, least, most time.Duration) {
		if d < least || d > most {
			no(key, "%v is not from %v to %v", d, least, most)
		}
	}
	within("wait", c.Wait, 0, service.MaxWait)
	within("work", c.Work, 10*time.Millisecond, service.MaxWait)
	within("drain", c.Drain, 0, 5*time.Minute)
	within("stop", c.Stop, 0, 5*time.Minute)
	within("redis.timeout", c.Redis.Timeout, 10*time.Millisecond, time.Minute)
	within("redlock.lease", c.Redlock.Lease, time.Second, time.Hour)
	within("redlock.node_timeout", c.Redlock.NodeTimeout, time.Millisecond, 10*time.Second)
	within("zookeeper.session_timeout", c.ZooKeeper.SessionTimeout, 500*time.Millisecond, 5*time.Minute)
	within("zookeeper.connect_timeout", c.ZooKeeper.ConnectTimeout, 10*time.Millisecond, time.Minute)
	within("lock.setnx_lease", c.Lock.SetNXLease, 100*time.Millisecond, time.Hour)
	within("lock.watchdog_lease", c.Lock.WatchdogLease, 100*time.Millisecond, time.Hour)
	within("lock.max_hold", c.Lock.MaxHold, time.Second, 24*time.Hour)
	if c.Lock.Segments < 1 || c.Lock.Segments > service.MaxSegments {
		no("lock.segments", "%d is not from 1 to %d", c.Lock.Segments, service.MaxSegments)
	}
	if c.Merge.Limit < 1 || c.Merge.Limit > maxMerge {
		no("merge.limit", "%d is not from 1 to %d", c.Merge.Limit, maxMerge)
	}
	within("lock.replica_timeout", c.Lock.ReplicaTimeout, time.Millisecond, time.Minute)
	if c.Lock.Replicas < 0 {
		no("lock.replicas", "%d is not at least 0", c.Lock.Replicas)
	}
	if c.Lock.Replicas > 0 && c.Lock.ReplicaTimeout >= c.Redis.Timeout {
		no("lock.replica_timeout", "%v is not shorter than redis.timeout, %v", c.Lock.ReplicaTimeout, c.Redis.Timeout)
	}
	positive := func(key string, n int) {
		if n < 1 {
			no(key, "%d is not at least 1", n)
		}
	}
	positive("redis.pool_size", c.Redis.PoolSize)
	positive("redis.queue", c.Redis.Queue)
	positive("mysql.queue", c.MySQL.Queue)
	positive("limits.waiting", c.Limits.Waiting)
	positive("merge.queue", c.Merge.Queue)
	if c.Redis.DB < 0 {
		no("redis.db", "%d is not at least 0", c.Redis.DB)
	}
	positive("mysql.pool_size", c.MySQL.PoolSize)
	if c.MySQL.LockPoolSize < 3 {
		no("mysql.lock_pool_size", "%d is not at least 3", c.MySQL.LockPoolSize)
	} else if most := (c.MySQL.LockPoolSize - 1) / 2; c.MySQL.LockKeys < 0 || c.MySQL.LockKeys > most {
		// Two strategies keep a connection for each key, and a fence or a KILL needs a free one, too.
		no("mysql.lock_keys", "%d is not from 0 to %d, for which mysql.lock_pool_size is enough",
			c.MySQL.LockKeys, most)
	}
	oneOf("relay.sink", c.Relay.Sink, sinkStreams, sinkWebhook)
	oneOf("relay.lock", c.Relay.Lock, relayLocks()...)
	positive("relay.attempts", c.Relay.Attempts)
	positive("relay.parallel", c.Relay.Parallel)
	within("relay.webhook_timeout", c.Relay.WebhookTimeout, 100*time.Millisecond, time.Minute)
	if c.Relay.WebhookURL != "" {
		if err := relay.CheckURL(c.Relay.WebhookURL); err != nil {
			no("relay.webhook_url", "%v", err)
		}
	}
	if c.Relay.Enabled {
		bad = append(bad, c.checkRelay()...)
	}
	if n := len(c.Redlock.Addrs); n == 1 || n == 2 {
		no("redlock.addrs", "%d masters are no quorum: name at least 3, better 5, or none", n)
	}
	if _, err := service.ParseSKU(c.Seed.SKU); c.Seed.SKU != "" && err != nil {
		no("seed.sku", "%v", strings.TrimPrefix(err.Error(), "sku "))
	}
	if c.Seed.Quantity < 0 || c.Seed.Quantity > service.MaxStock {
		no("seed.quantity", "%d is not from 0 to %d", c.Seed.Quantity, service.MaxStock)
	}
	if !strings.HasPrefix(c.ZooKeeper.Root, "/") || strings.HasSuffix(c.ZooKeeper.Root, "/") {
		no("zookeeper.root", "%q does not begin, or does end, with a slash", c.ZooKeeper.Root)
	}
	for _, list := range []struct {
		key   string
		addrs []string
	}{{"redis.addrs", c.Redis.Addrs}, {"redlock.addrs", c.Redlock.Addrs}, {"zookeeper.hosts", c.ZooKeeper.Hosts}} {
		for _, addr := range list.addrs {
			if _, _, err := net.SplitHostPort(addr); err != nil {
				no(list.key, "%q is not host:port", addr)
			}
		}
	}
	if c.MySQL.DSN != "" {
		if _, err := mysql.ParseDSN(c.MySQL.DSN); err != nil {
			no("mysql.dsn", "is not user:password@tcp(host:port)/database") // the driver's error may quote the password
		}
	}
	return bad
}

// maxMerge bounds a batch: the INSERT of 1000 orders takes some 300 kB, and a script of as many 5 ms.
const maxMerge = 1000

// doubts returns a warning for every usable value that promises less than one may think.
func (c *Config) doubts() (list []string) {
	if c.Lock.SetNXLease <= c.Work {
		list = append(list, fmt.Sprintf("lock.setnx_lease, %v, is not longer than work, %v: "+
			"a lock without a fence may be free again while a write of unknown outcome still happens",
			c.Lock.SetNXLease, c.Work))
	}
	return list
}
