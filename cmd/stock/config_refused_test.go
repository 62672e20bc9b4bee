package main

import (
	"strings"
	"testing"
)

// One wrong value each, by variable, and what the error must say: the key, and where it helps the limit.
func TestBadValues(t *testing.T) {
	for _, row := range []struct{ env, value, says string }{
		{"ADMIN_ADDR", "9090", `admin.addr: "9090" is not host:port`},
		{"ADDR", "8088", `addr: "8088" is not host:port`},
		{"ADDR", "a:b:c", `addr: "a:b:c" is not host:port`},
		{"LAB", "true", "lab: needs admin_token"},
		{"LAB", "perhaps", "lab"},
		{"STORE", "oracle", `store: "oracle" is none of redis, mysql`},
		{"STORE", "", `store: "" is none of redis, mysql`},
		{"WAIT", "61s", "wait: 1m1s is not from 0s to 1m0s"},
		{"WAIT", "-1s", "wait: -1s is not"},
		{"WAIT", "5", "wait"}, // 5 what?
		{"WAIT", "soon", "wait"},
		{"WORK", "0s", "work: 0s is not from 10ms"},
		{"WORK", "2m", "work: 2m0s is not"},
		{"DRAIN", "1h", "drain: 1h0m0s is not"},
		{"STOP", "-1ns", "stop: -1ns is not"},
		{"LOG_LEVEL", "loud", `log.level: "loud" is none of debug, info, warn, error`},
		{"LOG_LEVEL", "INFO", `log.level: "INFO" is none of`},
		{"LOG_FORMAT", "xml", `log.format: "xml" is none of json, text`},
		{"SEED_SKU", "a b", "seed.sku: must consist of"},
		{"SEED_SKU", "a/b", "seed.sku: must consist of"},
		{"SEED_QUANTITY", "-1", "seed.quantity: -1 is not from 0"},
		{"SEED_QUANTITY", "1000000001", "seed.quantity: 1000000001 is not"},
		{"SEED_QUANTITY", "many", "seed"},
		{"REDIS_ADDRS", "a:1,b", `redis.addrs: "b" is not host:port`},
		{"REDLOCK_ADDRS", "a:1,b:2", "redlock.addrs: 2 masters are no quorum"},
		{"REDLOCK_ADDRS", "a:1,b:2,c", "redlock.addrs: \"c\" is not host:port"},
		{"REDIS_POOL_SIZE", "0", "redis.pool_size: 0 is not at least 1"},
		{"REDIS_POOL_SIZE", "1.5", "pool_size"},
		{"REDIS_TIMEOUT", "1ms", "redis.timeout: 1ms is not"},
		{"REDIS_DB", "-1", "redis.db: -1"},
		{"REDIS_CLUSTER", "2", "redis.cluster"},
		{"ZOOKEEPER_HOSTS", "zk", `zookeeper.hosts: "zk" is not host:port`},
		{"ZOOKEEPER_SESSION_TIMEOUT", "100ms", "zookeeper.session_timeout: 100ms is not"},
		{"ZOOKEEPER_CONNECT_TIMEOUT", "0", "zookeeper.connect_timeout: 0s is not"},
		{"ZOOKEEPER_ROOT", "stock", `zookeeper.root: "stock" does not begin`},
		{"ZOOKEEPER_ROOT", "/", `zookeeper.root: "/"`},
		{"ZOOKEEPER_ROOT", "/a/", `zookeeper.root: "/a/"`},
		{"MYSQL_DSN", "mysql://u:s3cret@db/shop", "mysql.dsn: is not user:password@tcp(host:port)/database"},
		{"MYSQL_POOL_SIZE", "0", "mysql.pool_size: 0 is not at least 1"},
		{"MYSQL_LOCK_KEYS", "-1", "mysql.lock_keys: -1 is not from 0 to 11"},
		{"MYSQL_LOCK_KEYS", "12", "mysql.lock_keys: 12 is not from 0 to 11"},
		{"MYSQL_MIGRATE", "maybe", "mysql.migrate"},
		{"LOCK_SETNX_LEASE", "1ms", "lock.setnx_lease: 1ms is not"},
		{"LOCK_WATCHDOG_LEASE", "2h", "lock.watchdog_lease: 2h0m0s is not"},
		{"LOCK_REPLICAS", "-1", "lock.replicas: -1 is not at least 0"},
		{"LOCK_REPLICA_TIMEOUT", "0s", "lock.replica_timeout: 0s is not from 1ms"},
		{"LOCK_MAX_HOLD", "1ms", "lock.max_hold: 1ms is not"},
		{"CONFIG", "/nowhere/stock.yaml", "stock.yaml: no such file"},
		{"CONFIG", "/dev/null", `null`}, // of which format?
		{"ADRR", ":1", "STOCK_ADRR: unknown variable"},
		{"REDIS_ADDR", "a:1", "STOCK_REDIS_ADDR: unknown variable (did you mean STOCK_REDIS_ADDRS?)"},
		{"FOO", "1", "STOCK_FOO: unknown variable"},
	} {
		t.Run(row.env+"="+row.value, func(t *testing.T) {
			bare(t)
			t.Setenv(envPrefix+row.env, row.value)
			_, err := configure(t)
			says(t, err, row.says, "!s3cret")
		})
	}
}

// Nobody wants to be told of mistakes one by one.
func TestAllMistakesAtOnce(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_STORE", "oracle")
	t.Setenv("STOCK_WORK", "fast")        // of the wrong type
	t.Setenv("STOCK_REDIS_ADDR", "a:1")   // unknown
	t.Setenv("STOCK_MYSQL_POOL_SIZE", "") // a number has no empty
	path := file(t, "stock.yaml", `
addr: nowhere
admin_tokn: s3cret
redis:
  pool_size: [64]
  timout: 1s
  db: -3
lab: true
elsewhere:
  deep: {deeper: 1}
`)
	_, err := configure(t, "--config", path, "--lock-max-hold=1ms", "--log-level=loud")
	says(t, err, `store: "oracle"`, "work", "STOCK_REDIS_ADDR", "mysql.pool_size", `addr: "nowhere"`, "admin_tokn", "did you mean admin_token",
		"redis.pool_size", "redis.timout", "did you mean redis.timeout", "redis.db", "lab: needs admin_token", "elsewhere.deep.deeper",
		"lock.max_hold: 1ms", `log.level: "loud"`, "!s3cret", "!redis.addrs:", "!wait:")
	if lines := strings.Count(err.Error(), "\n"); err != nil && lines != 13 {
		t.Errorf("%d lines for 13 mistakes:\n%v", lines, err)
	}
}

// Wrong types in a file. A number is no duration: nanoseconds are nobody's unit.
func TestWrongTypes(t *testing.T) {
	bare(t)
	for text, key := range map[string]string{
		"wait: 5":                          "wait",
		"drain: 1.5":                       "drain",
		"wait: [1s]":                       "wait",
		"wait: {a: 1}":                     "wait",
		"lab: maybe":                       "lab",
		"lab: [true]":                      "lab",
		"redis: {db: one}":                 "redis.db",
		"redis: {addrs: {a: 1}}":           "redis.addrs",
		"redis: {pool_size: 1.5}":          "redis.pool_size",
		"seed: {quantity: '1e3'}":          "seed.quantity",
		"redis: 5":                         "redis",
		"redis: [a]":                       "redis",
		"elsewhere:":                       "elsewhere",
		"redis: {}\nredys: {}\nnone:":      "none",
		"admin_token: 0123":                "admin_token", // in YAML that is 83
		"store: [redis]":                   "store",
		"admin_token: [s3cret]":            "admin_token",
		"mysql: {dsn: {password: s3cret}}": "mysql.dsn",
	} {
		_, err := configure(t, "--config", file(t, "stock.yaml", text))
		if err == nil {
			t.Errorf("%s: accepted", text)
			continue
		}
		says(t, err, key, "!s3cret")
	}
}

func TestBrokenFiles(t *testing.T) {
	bare(t)
	for name, text := range map[string]string{
		"a.yaml": "wait: 5s\n  drain: 1s", "b.toml": "wait = ", "c.json": `{"wait": "5s"`, "d.ini": "wait=5s", "e": "wait: 5s",
	} {
		_, err := configure(t, "--config", file(t, name, text))
		says(t, err, name)
	}
	_, err := configure(t, "--config", "/nowhere/at/all.yaml")
	says(t, err, "all.yaml", "no such file")
	_, err = configure(t, "--config", t.TempDir())
	if err == nil {
		t.Error("a folder was accepted")
	}
}

// Kubernetes sets these in every pod for a Service called "stock", in the style of Docker links. They must not keep us from starting.
func TestKubernetesVariablesAreTolerated(t *testing.T) {
	bare(t)
	for name, value := range map[string]string{
		"STOCK_SERVICE_HOST": "10.96.0.7", "STOCK_SERVICE_PORT": "8088", "STOCK_SERVICE_PORT_HTTP": "8088",
		"STOCK_PORT": "tcp://10.96.0.7:8088", "STOCK_PORT_8088_TCP": "tcp://10.96.0.7:8088", "STOCK_PORT_8088_TCP_PROTO": "tcp",
		"STOCK_PORT_8088_TCP_PORT": "8088", "STOCK_PORT_8088_TCP_ADDR": "10.96.0.7",
	} {
		t.Setenv(name, value)
	}
	if c := mustConfigure(t); c.Addr != ":8088" {
		t.Errorf("addr = %q, want the default: those are not for us", c.Addr)
	}
	for _, name := range []string{"STOCK_PORTS", "STOCK_SERVICE_NAME", "STOCK_SERVICES_PORT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			_, err := configure(t)
			says(t, err, name)
		})
	}
}

// Suggestions are for what is nearly right.
func TestSuggestions(t *testing.T) {
	bare(t)
	for name, want := range map[string]string{
		"STOCK_LOG_LEVL": "did you mean STOCK_LOG_LEVEL?", "STOCK_ADMIN_TOKN": "did you mean STOCK_ADMIN_TOKEN?", "STOCK_XYZZY": "!did you mean",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			_, err := configure(t)
			says(t, err, name, want)
		})
	}
}

// What can be used and promises less than one may think is said, once, when the service starts.
func TestDoubts(t *testing.T) {
	bare(t)
	plain := mustConfigure(t)
	if doubts := plain.doubts(); len(doubts) > 0 {
		t.Errorf("of the defaults: %q", doubts)
	}
	t.Setenv("STOCK_LOCK_SETNX_LEASE", "2s")
	c := mustConfigure(t)
	if doubts := c.doubts(); len(doubts) != 1 || !strings.Contains(doubts[0], "lock.setnx_lease, 2s") {
		t.Errorf("of a lease that is no longer than work: %q", doubts)
	}
}
