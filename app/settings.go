package app

import (
	"net"
	"os"
	"slices"
	"time"
)

// A Config is the configuration of one instance. [Load] makes it from the defaults, a file, the environment and the
// flags; a later source overrides the earlier ones. The texts of the settings document the fields.
type Config struct {
	Addr          string
	Admin         struct{ Addr string }
	TLSMinVersion string
	Instance      string // empty: host name and port
	AdminToken    string // several with commas
	Lab           bool
	Store         string
	Wait          time.Duration
	Work          time.Duration
	Drain         time.Duration
	Stop          time.Duration
	Limits        struct{ Waiting int }
	Log           struct{ Level, Format string }
	Seed          struct {
		SKU      string
		Quantity int64
	}
	Redis struct {
		Addrs            []string
		MasterName       string
		Cluster          bool
		Username         string
		Password         string
		SentinelPassword string
		TLS              TLSConfig
		DB               int
		PoolSize         int
		Queue            int
		Timeout          time.Duration
	}
	Redlock struct {
		Addrs       []string
		NodeTimeout time.Duration
		Lease       time.Duration
		Quarantine  time.Duration
	}
	ZooKeeper struct {
		Hosts          []string
		SessionTimeout time.Duration
		ConnectTimeout time.Duration
		Root           string
		Credentials    string // several with commas
		ACL            string
		TLS            TLSConfig
	}
	MySQL struct {
		DSN          string
		TLS          TLSConfig
		Migrate      bool
		PoolSize     int
		Queue        int
		LockPoolSize int
		LockKeys     int
		// SingleWriter declares that DSN leads to one node, though its cluster accepts writes on several.
		SingleWriter bool
	}
	Lock struct {
		SetNXLease     time.Duration
		RepairSetNX    bool
		WatchdogLease  time.Duration
		LeaseTime      time.Duration
		Replicas       int
		ReplicaTimeout time.Duration
		HandOver       bool
		Segments       int
		MaxHold        time.Duration
	}
	Merge  struct{ Limit, Queue int }
	Traces struct{ SKU bool }
	Stores struct{ Enabled []string }

	secretFiles map[string]*string // by the key of the secret
}

const (
	envPrefix = "STOCK_"
	// defaultSKU is the SKU of requests that name none, if seed.sku is empty.
	defaultSKU = "stock"
)

// settings lists all keys, in the order of "stock config", with the fields of c that they fill.
func (c *Config) settings() []setting {
	redis, redlock, zookeeper, mysql, lock := &c.Redis, &c.Redlock, &c.ZooKeeper, &c.MySQL, &c.Lock
	const secret = true
	return c.withFiles(slices.Concat([]setting{
		{&c.Addr, "addr", ":8088", !secret},
		{&c.TLSMinVersion, "tls_min_version", tls12, !secret},
		{&c.Admin.Addr, "admin.addr", "127.0.0.1:9090", !secret},
		{&c.Instance, "instance", "", !secret},
		{&c.AdminToken, "admin_token", "", secret},
		{&c.Lab, "lab", false, !secret},
		{&c.Store, "store", "redis", !secret},
		{&c.Wait, "wait", 10 * time.Second, !secret},
		{&c.Work, "work", 2 * time.Second, !secret},
		{&c.Drain, "drain", 2 * time.Second, !secret},
		{&c.Stop, "stop", 15 * time.Second, !secret},
		{&c.Limits.Waiting, "limits.waiting", 10000, !secret},
		{&c.Log.Level, "log.level", "info", !secret},
		{&c.Log.Format, "log.format", "json", !secret},
		{&c.Seed.SKU, "seed.sku", defaultSKU, !secret},
		{&c.Seed.Quantity, "seed.quantity", int64(100), !secret},

		{&redis.Addrs, "redis.addrs", []string{"127.0.0.1:6379"}, !secret},
		{&redis.MasterName, "redis.master_name", "", !secret},
		{&redis.Cluster, "redis.cluster", false, !secret},
		{&redis.Username, "redis.username", "", !secret},
		{&redis.Password, "redis.password", "", secret},
		{&redis.SentinelPassword, "redis.sentinel_password", "", secret},
		{&redis.DB, "redis.db", 0, !secret},
		{&redis.PoolSize, "redis.pool_size", 64, !secret},
		{&redis.Queue, "redis.queue", 2048, !secret},
		{&redis.Timeout, "redis.timeout", time.Second, !secret},
	}, redis.TLS.settings("redis.tls."), []setting{
		{&redlock.Addrs, "redlock.addrs", []string{}, !secret},
		{&redlock.NodeTimeout, "redlock.node_timeout", 50 * time.Millisecond, !secret},
		{&redlock.Lease, "redlock.lease", 10 * time.Second, !secret},
		{&redlock.Quarantine, "redlock.quarantine", time.Duration(0), !secret},

		{&zookeeper.Hosts, "zookeeper.hosts", []string{"127.0.0.1:2181"}, !secret},
		{&zookeeper.SessionTimeout, "zookeeper.session_timeout", 10 * time.Second, !secret},
		{&zookeeper.ConnectTimeout, "zookeeper.connect_timeout", time.Second, !secret},
		{&zookeeper.Root, "zookeeper.root", "/stock/locks", !secret},
		{&zookeeper.Credentials, "zookeeper.credentials", "", secret},
		{&zookeeper.ACL, "zookeeper.acl", "", !secret},
	}, zookeeper.TLS.settings("zookeeper.tls."), []setting{
		{&mysql.DSN, "mysql.dsn", "stock:stock@tcp(127.0.0.1:3306)/stock", secret},
		{&mysql.Migrate, "mysql.migrate", true, !secret},
		{&mysql.PoolSize, "mysql.pool_size", 24, !secret},
		{&mysql.Queue, "mysql.queue", 512, !secret},
		{&mysql.LockPoolSize, "mysql.lock_pool_size", 24, !secret},
		{&mysql.LockKeys, "mysql.lock_keys", 0, !secret},
		{&mysql.SingleWriter, "mysql.single_writer", false, !secret},
	}, mysql.TLS.settings("mysql.tls."), []setting{
		{&lock.SetNXLease, "lock.setnx_lease", 10 * time.Second, !secret},
		{&lock.RepairSetNX, "lock.setnx_repair", false, !secret},
		{&lock.WatchdogLease, "lock.watchdog_lease", 30 * time.Second, !secret},
		{&lock.LeaseTime, "lock.lease_time", time.Duration(0), !secret},
		{&lock.Replicas, "lock.replicas", 0, !secret},
		{&lock.ReplicaTimeout, "lock.replica_timeout", 500 * time.Millisecond, !secret},
		{&lock.HandOver, "lock.handover", true, !secret},
		{&lock.Segments, "lock.segments", 8, !secret},
		{&lock.MaxHold, "lock.max_hold", 5 * time.Minute, !secret},

		{&c.Merge.Limit, "merge.limit", 128, !secret},
		{&c.Merge.Queue, "merge.queue", 4096, !secret},

		{&c.Traces.SKU, "traces.sku", false, !secret},

		{&c.Stores.Enabled, "stores.enabled", []string{}, !secret},
	}))
}

// complete fills in the values that depend on other keys.
func (c *Config) complete() {
	if c.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "stock"
		}
		_, port, _ := net.SplitHostPort(c.Addr)
		c.Instance = host + ":" + port
	}
}
