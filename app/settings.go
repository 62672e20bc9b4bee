package app

import (
	"net"
	"os"
	"slices"
	"time"

	"example.com/stock/service"
)

// A Config is the configuration of one instance. [Load] makes it from the defaults, a file, the environment and the
// flags; a later source overrides the earlier ones. The table of settings documents the fields.
type Config struct {
	Addr       string
	Admin      struct{ Addr string }
	Instance   string // empty: host name and port
	AdminToken []string
	Lab        bool
	Store      string
	Wait       time.Duration
	Work       time.Duration
	Drain      time.Duration
	Stop       time.Duration
	Log        struct{ Level, Format string }
	Seed       struct {
		SKU      string
		Quantity int
	}
	Redis struct {
		URL     string
		Timeout time.Duration
	}
	Redlock struct {
		URLs        []string
		NodeTimeout time.Duration
		Lease       time.Duration
		Quarantine  time.Duration
	}
	ZooKeeper struct {
		Hosts          []string
		SessionTimeout time.Duration
		Root           string
		ACL            string
	}
	MySQL struct {
		DSN      string
		PoolSize int
		// SingleWriter declares that DSN leads to one node, though its cluster accepts writes on several.
		SingleWriter bool
	}
	ServerTLS struct{ CA, Cert, Key string }
	Lock      struct {
		SetNXLease    time.Duration
		RepairSetNX   bool
		WatchdogLease time.Duration
		LeaseTime     time.Duration
		Replicas      int
		HandOver      bool
		Segments      int
		MaxHold       time.Duration
	}
	Merge  struct{ Queue int }
	Traces struct{ SKU bool }
}

// defaultSKU is the SKU of requests that name none, if seed.sku is empty.
const defaultSKU = "stock"

// A setting is one key of the configuration: a flag, an environment variable, a line of a file and a line of "stock
// config".
type setting struct {
	key    string
	field  any // a pointer to the field of a Config; the field's type is the setting's
	value  any // the default
	check  func() error
	about  string
	secret bool // it is not printed, and can be in a file: see fileSuffix
}

// row returns a setting that fills field, and whose value must pass check.
func row[T any](key string, field *T, value T, check func(T) error, about string) setting {
	return setting{key: key, field: field, value: value, check: func() error { return check(*field) }, about: about}
}

func secret(s setting) setting {
	s.secret = true
	return s
}

// settings lists all keys, in the order of "stock config", with the fields of c that they fill.
func (c *Config) settings() []setting {
	return slices.Concat(c.instanceSettings(), c.serverSettings(), c.lockSettings())
}

func (c *Config) instanceSettings() []setting {
	return []setting{
		row("addr", &c.Addr, ":8088", isAddress,
			"address to listen on, for clients"),
		row("admin.addr", &c.Admin.Addr, "127.0.0.1:9090", orEmpty(isAddress),
			"address for operators (/metrics, /v1/locks, /v1/lab); empty: none"),
		row("instance", &c.Instance, "", anything,
			"name in orders and replies; empty: host name and port"),
		secret(row("admin_token", &c.AdminToken, []string{}, anything,
			"token that may do everything; several while they are rotated")),
		row("lab", &c.Lab, false, anything,
			"let the admin use hold=, fencing=off, heed_loss=off, pause=, nested="),
		row("store", &c.Store, stores()[0], oneOf(stores()...),
			"store for requests that name none: redis or mysql"),
		row("wait", &c.Wait, 10*time.Second, between(0, service.MaxWait),
			"how long a request waits for a lock, unless it says otherwise"),
		row("work", &c.Work, 2*time.Second, between(10*time.Millisecond, service.MaxWait),
			"longest stay in the critical section"),
		row("drain", &c.Drain, 2*time.Second, between(0, 5*time.Minute),
			"on SIGTERM, how long /readyz fails before the listener closes"),
		row("stop", &c.Stop, 15*time.Second, between(0, 5*time.Minute),
			"on SIGTERM, how long requests may take before they are cut off"),
		row("log.level", &c.Log.Level, "info", oneOf("debug", "info", "warn", "error"),
			"debug, info, warn or error"),
		row("log.format", &c.Log.Format, "json", oneOf("json", "text"),
			"json or text"),
		row("seed.sku", &c.Seed.SKU, defaultSKU, orEmpty(isSKU),
			"SKU to create on empty stores, and of requests that name none"),
		row("seed.quantity", &c.Seed.Quantity, 100, between(0, service.MaxStock),
			"units with which seed.sku is created on an empty store"),
		row("traces.sku", &c.Traces.SKU, false, anything,
			"spans have the SKU of a sale (OTEL_TRACES_EXPORTER=otlp: docs/operations.md)"),
	}
}

func (c *Config) serverSettings() []setting {
	return []setting{
		secret(row("redis.url", &c.Redis.URL, "redis://127.0.0.1:6379", orEmpty(isRedis),
			"redis://[user:password@]host:port, rediss: TLS; empty: no Redis")),
		row("redis.timeout", &c.Redis.Timeout, time.Second, between(10*time.Millisecond, time.Minute),
			"limit of one command; replicas have half of it (lock.replicas)"),
		secret(row("redlock.urls", &c.Redlock.URLs, []string{}, areMasters,
			"URLs of five independent masters; empty: no redlock")),
		row("redlock.node_timeout", &c.Redlock.NodeTimeout, 50*time.Millisecond,
			between(time.Millisecond, 10*time.Second),
			"limit for one node, so that one that hangs does not delay a round"),
		row("redlock.lease", &c.Redlock.Lease, 10*time.Second, between(time.Second, time.Hour),
			"lease of redlock; renewed after each third"),
		row("redlock.quarantine", &c.Redlock.Quarantine, 0, anything,
			"a node that was started does not count so long; 0s: a lease, negative: none"),
		secret(row("zookeeper.hosts", &c.ZooKeeper.Hosts, []string{"127.0.0.1:2181"}, isEnsemble,
			"[user:password@]host:port of the ensemble, tls://...: TLS; empty: none")),
		row("zookeeper.session_timeout", &c.ZooKeeper.SessionTimeout, 10*time.Second,
			between(500*time.Millisecond, 5*time.Minute),
			"the server frees the locks of a dead instance after this"),
		row("zookeeper.root", &c.ZooKeeper.Root, "/stock/locks", isPath,
			"path of the locks"),
		row("zookeeper.acl", &c.ZooKeeper.ACL, "", orEmpty(oneOf(worldACL, creatorACL)),
			"who may use our nodes: world or creator; empty: creator with a password"),
		secret(row("mysql.dsn", &c.MySQL.DSN, "stock:stock@tcp(127.0.0.1:3306)/stock", orEmpty(isDSN),
			"user:password@tcp(host:port)/database, ?tls=true: TLS; empty: no MySQL")),
		row("mysql.pool_size", &c.MySQL.PoolSize, 24, between(3, 10_000),
			"connections of the store, and as many for the locks"),
		row("mysql.single_writer", &c.MySQL.SingleWriter, false, anything,
			"declare that the DSN leads to one node of a cluster with several writers"),
		row("server_tls.ca", &c.ServerTLS.CA, "", anything,
			"PEM file with the CAs of servers with TLS; empty: those of the system"),
		row("server_tls.cert", &c.ServerTLS.Cert, "", anything,
			"PEM file with the certificate that they are shown; empty: none"),
		row("server_tls.key", &c.ServerTLS.Key, "", anything,
			"PEM file with its key"),
	}
}

func (c *Config) lockSettings() []setting {
	return []setting{
		row("lock.setnx_lease", &c.Lock.SetNXLease, 10*time.Second, isLease,
			"lease of the SETNX locks, not renewed; it must be longer than work"),
		row("lock.setnx_repair", &c.Lock.RepairSetNX, false, anything,
			"redis-setnx-expire sets an expiry on a key that a crash left without one"),
		row("lock.watchdog_lease", &c.Lock.WatchdogLease, 30*time.Second, isLease,
			"lease of redis-watchdog and redis-rlock; renewed after each third"),
		row("lock.lease_time", &c.Lock.LeaseTime, 0, orZero(isLease),
			"lease that is not renewed instead, as Redisson's leaseTime; 0s: renewed"),
		row("lock.replicas", &c.Lock.Replicas, 0, between(0, 100),
			"replicas that must acknowledge a lock of redis-setnx or redis-watchdog"),
		row("lock.handover", &c.Lock.HandOver, true, anything,
			"pass a lock from one request of this instance to the next"),
		row("lock.segments", &c.Lock.Segments, 8, between(1, service.MaxSegments),
			"parts of a stock that is sold in segments, with a lock each"),
		row("lock.max_hold", &c.Lock.MaxHold, 5*time.Minute, between(time.Second, 24*time.Hour),
			"longest hold of a renewed lock"),
		row("merge.queue", &c.Merge.Queue, 4096, between(1, 1_000_000),
			"most sales of one SKU that wait for a batch; more get 503 overloaded"),
	}
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
