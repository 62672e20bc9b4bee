package app

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/internal/mysqlconn"
	"example.com/stock/service"
)

func quote(value string) string { return strconv.Quote(value) }

// isAddress reports whether addr is a host, which may be empty, and a port. The port of a URL is the rest of it.
func isAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// check returns an error for every key with an unusable value.
func (c *Config) check() (bad []error) {
	no := func(key, why string, pairs ...any) { bad = append(bad, wrong(key, why, pairs...)) }
	if !isAddress(c.Addr) {
		no("addr", "address", "value", quote(c.Addr))
	}
	if c.Admin.Addr != "" && !isAddress(c.Admin.Addr) {
		no("admin.addr", "address", "value", quote(c.Admin.Addr))
	}
	if tokens, _ := list(c.AdminToken); c.Lab && len(tokens) == 0 {
		no("lab", "lab")
	}
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			no(key, "none-of", "value", quote(value), "list", strings.Join(allowed, ", "))
		}
	}
	oneOf("store", c.Store, stores()...)
	for _, name := range c.Stores.Enabled {
		oneOf("stores.enabled", name, stores()...)
	}
	if !c.storeEnabled(c.Store) {
		no("stores.enabled", "default-store", "value", quote(c.Store))
	}
	bad = append(bad, c.checkTLS()...)
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "json", "text")
	within := func(key string, d, least, most time.Duration) {
		if d < least || d > most {
			no(key, "from-to", "value", d.String(), "least", least.String(), "most", most.String())
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
	if c.Lock.LeaseTime != 0 {
		within("lock.lease_time", c.Lock.LeaseTime, 100*time.Millisecond, time.Hour)
	}
	within("lock.max_hold", c.Lock.MaxHold, time.Second, 24*time.Hour)
	if c.Lock.Segments < 1 || c.Lock.Segments > service.MaxSegments {
		no("lock.segments", "from-to", "value", c.Lock.Segments, "least", 1, "most", service.MaxSegments)
	}
	if c.Merge.Limit < 1 || c.Merge.Limit > maxMerge {
		no("merge.limit", "from-to", "value", c.Merge.Limit, "least", 1, "most", maxMerge)
	}
	within("lock.replica_timeout", c.Lock.ReplicaTimeout, time.Millisecond, time.Minute)
	natural := func(key string, n int64) {
		if n < 0 {
			no(key, "least", "value", n, "least", 0)
		}
	}
	natural("lock.replicas", int64(c.Lock.Replicas))
	if c.Lock.Replicas > 0 && c.Lock.ReplicaTimeout >= c.Redis.Timeout {
		no("lock.replica_timeout", "replica",
			"value", c.Lock.ReplicaTimeout.String(), "limit", c.Redis.Timeout.String())
	}
	positive := func(key string, n int) {
		if n < 1 {
			no(key, "least", "value", n, "least", 1)
		}
	}
	positive("redis.pool_size", c.Redis.PoolSize)
	positive("redis.queue", c.Redis.Queue)
	positive("mysql.queue", c.MySQL.Queue)
	positive("limits.waiting", c.Limits.Waiting)
	positive("merge.queue", c.Merge.Queue)
	natural("redis.db", int64(c.Redis.DB))
	positive("mysql.pool_size", c.MySQL.PoolSize)
	if c.MySQL.LockPoolSize < 3 {
		no("mysql.lock_pool_size", "least", "value", c.MySQL.LockPoolSize, "least", 3)
	} else if most := (c.MySQL.LockPoolSize - 1) / 2; c.MySQL.LockKeys < 0 || c.MySQL.LockKeys > most {
		// Two strategies keep a connection for each key, and need one more connection for a fence or a KILL.
		no("mysql.lock_keys", "lock-keys", "value", c.MySQL.LockKeys, "most", most)
	}
	if n := len(c.Redlock.Addrs); n == 1 || n == 2 {
		no("redlock.addrs", "quorum", "n", n)
	}
	if _, err := service.ParseSKU(c.Seed.SKU); c.Seed.SKU != "" && err != nil {
		bad = append(bad, fmt.Errorf("seed.sku: %w", explained(err, false)))
	}
	if c.Seed.Quantity < 0 || c.Seed.Quantity > service.MaxStock {
		no("seed.quantity", "from-to", "value", c.Seed.Quantity, "least", 0, "most", service.MaxStock)
	}
	if !strings.HasPrefix(c.ZooKeeper.Root, "/") || strings.HasSuffix(c.ZooKeeper.Root, "/") {
		no("zookeeper.root", "slash", "value", quote(c.ZooKeeper.Root))
	}
	bad = append(bad, c.checkNodes()...)
	for _, list := range []struct {
		key   string
		addrs []string
	}{{"redis.addrs", c.Redis.Addrs}, {"redlock.addrs", c.Redlock.Addrs}, {"zookeeper.hosts", c.ZooKeeper.Hosts}} {
		for _, addr := range list.addrs {
			if strings.Contains(addr, "@") { // not quoted: a password may precede the @
				no(list.key, "credentials")
			} else if !isAddress(addr) {
				no(list.key, "address", "value", quote(addr))
			}
		}
	}
	if c.MySQL.DSN != "" {
		dsn, err := mysqlconn.Parse(c.MySQL.DSN)
		if other, is := errors.AsType[*mysqlconn.CharsetError](err); is {
			no("mysql.dsn", "dsn-charset", "name", other.Name, "value", quote(other.Value))
		} else if err != nil {
			no("mysql.dsn", "dsn") // the driver's error may quote the password
		} else if c.MySQL.TLS.Enabled && dsn.TLSConfig != "" {
			no("mysql.dsn", "dsn-tls")
		}
	}
	return bad
}

// maxMerge limits a batch: the INSERT of 1000 orders takes some 300 kB, and a script for 1000 orders 5 ms.
const maxMerge = 1000

// checkTLS returns an error for each server that is reached without TLS although something is set for it.
func (c *Config) checkTLS() (bad []error) {
	if c.TLSMinVersion != tls12 && c.TLSMinVersion != tls13 {
		bad = append(bad, wrong("tls_min_version", "none-of",
			"value", quote(c.TLSMinVersion), "list", tls12+", "+tls13))
	}
	return slices.Concat(bad, c.Redis.TLS.check("redis.tls."), c.ZooKeeper.TLS.check("zookeeper.tls."),
		c.MySQL.TLS.check("mysql.tls."))
}

// doubts returns a warning for each value that is valid but gives weaker guarantees than users may expect.
func (c *Config) doubts() (list []string) {
	if c.Lock.SetNXLease <= c.Work {
		list = append(list, fmt.Sprintf("lock.setnx_lease, %v, is not longer than work, %v: "+
			"a lock without a fence may be free again while a write of unknown outcome still happens",
			c.Lock.SetNXLease, c.Work))
	}
	if dsn, err := mysql.ParseDSN(c.MySQL.DSN); err == nil &&
		(dsn.TLSConfig == "preferred" || dsn.TLSConfig == "skip-verify") {
		list = append(list, "mysql.dsn has tls="+dsn.TLSConfig+
			", which does not check the server's certificate: use mysql.tls.enabled")
	}
	return list
}
