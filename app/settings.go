package app

import (
	"net"
	"os"
	"slices"
	"time"

	"example.com/stock/service"
)

// A Config is the configuration of one instance. [Load] makes it from the defaults, a file, the environment and the
// flags; a later source overrides the earlier ones. The texts of the settings document the fields.
type Config struct {
	Profile string
	Addr    string
	TLS     ListenerTLS
	Admin   struct {
		Addr string
		TLS  ListenerTLS
	}
	TLSMinVersion string
	Instance      string // empty: host name and port
	AdminToken    string // several with commas
	Auth          string
	Tokens        TokenConfig
	Lab           bool
	Store         string
	Wait          time.Duration
	Work          time.Duration
	Drain         time.Duration
	Stop          time.Duration
	Limits        struct{ Waiting, CustomerRate, CustomerBurst, CustomerKeys int }
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
		Keep           time.Duration
		Segments       int
		MaxHold        time.Duration
	}
	Merge      struct{ Limit, Queue int }
	Traces     struct{ Attributes []string }
	Strategies struct{ Enabled []string }
	Stores     struct{ Enabled []string }
	Orders     struct {
		Strategy string
		KeepKeys time.Duration
		Merge    bool
	}
	Reservations struct {
		Open        int64
		Units       int64
		Share       int64
		ExtendEvery time.Duration
	}
	Relay struct {
		Enabled         bool
		Lock            string
		Sink            string
		Attempts        int
		Parallel        int
		WebhookURL      string
		WebhookSecrets  string
		WebhookTimeout  time.Duration
		WebhookInternal bool
		WebhookTLS      TLSConfig
	}

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
		{&c.Profile, "profile", demoProfile, !secret},
		{&c.Addr, "addr", ":8088", !secret},
	}, c.TLS.settings("tls."), []setting{
		{&c.TLSMinVersion, "tls_min_version", tls12, !secret},
		{&c.Admin.Addr, "admin.addr", "127.0.0.1:9090", !secret},
	}, c.Admin.TLS.settings("admin.tls."), []setting{
		{&c.Instance, "instance", "", !secret},
		{&c.AdminToken, "admin_token", "", secret},
		{&c.Auth, "auth", "", !secret},
		{&c.Lab, "lab", false, !secret},
		{&c.Store, "store", "redis", !secret},
		{&c.Wait, "wait", 10 * time.Second, !secret},
		{&c.Work, "work", 2 * time.Second, !secret},
		{&c.Drain, "drain", 2 * time.Second, !secret},
		{&c.Stop, "stop", 15 * time.Second, !secret},
		{&c.Limits.Waiting, "limits.waiting", 10000, !secret},
		{&c.Limits.CustomerRate, "limits.customer_rate", 20, !secret},
		{&c.Limits.CustomerBurst, "limits.customer_burst", 100, !secret},
		{&c.Limits.CustomerKeys, "limits.customer_keys", 10000, !secret},
		{&c.Log.Level, "log.level", "info", !secret},
		{&c.Log.Format, "log.format", "json", !secret},
		{&c.Seed.SKU, "seed.sku", defaultSKU, !secret},
		{&c.Seed.Quantity, "seed.quantity", int64(100), !secret},

		{&c.Tokens.Issuer, "tokens.issuer", "", !secret},
		{&c.Tokens.Audience, "tokens.audience", "", !secret},
		{&c.Tokens.KeysFile, "tokens.keys_file", "", !secret},
		{&c.Tokens.Customer, "tokens.customer_claim", "sub", !secret},
		{&c.Tokens.Leeway, "tokens.leeway", 30 * time.Second, !secret},

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
		{&lock.Keep, "lock.keep", time.Duration(0), !secret},
		{&lock.Segments, "lock.segments", 8, !secret},
		{&lock.MaxHold, "lock.max_hold", 5 * time.Minute, !secret},

		{&c.Merge.Limit, "merge.limit", 128, !secret},
		{&c.Merge.Queue, "merge.queue", 4096, !secret},

		{&c.Traces.Attributes, "traces.attributes", []string{}, !secret},

		{&c.Strategies.Enabled, "strategies.enabled", []string{}, !secret},
		{&c.Stores.Enabled, "stores.enabled", []string{}, !secret},

		{&c.Orders.Strategy, "orders.strategy", atomicOrders, !secret},
		{&c.Orders.KeepKeys, "orders.keep_keys", service.KeepKeys, !secret},
		{&c.Orders.Merge, "orders.merge", true, !secret},

		{&c.Reservations.Open, "reservations.open", int64(20), !secret},
		{&c.Reservations.Units, "reservations.units", int64(200), !secret},
		{&c.Reservations.Share, "reservations.share", int64(100), !secret},
		{&c.Reservations.ExtendEvery, "reservations.extend_every", time.Second, !secret},

		{&c.Relay.Enabled, "relay.enabled", false, !secret},
		{&c.Relay.Lock, "relay.lock", "redis-watchdog", !secret},
		{&c.Relay.Sink, "relay.sink", sinkStreams, !secret},
		{&c.Relay.Attempts, "relay.attempts", 20, !secret},
		{&c.Relay.Parallel, "relay.parallel", 16, !secret},
		{&c.Relay.WebhookURL, "relay.webhook_url", "", secret},
		{&c.Relay.WebhookSecrets, "relay.webhook_secrets", "", secret},
		{&c.Relay.WebhookTimeout, "relay.webhook_timeout", 15 * time.Second, !secret},
		{&c.Relay.WebhookInternal, "relay.webhook_internal", false, !secret},
	}, c.Relay.WebhookTLS.settings("relay.webhook_tls.")))
}

// complete fills in the values that depend on other keys.
func (c *Config) complete() {
	if c.Profile == ordersProfile {
		c.Seed.SKU = "" // a shop is never seeded
	}
	if c.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "stock"
		}
		_, port, _ := net.SplitHostPort(c.Addr)
		c.Instance = host + ":" + port
	}
}
