package app

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// A Config is the configuration of one instance. [Load] makes it from the defaults, a file, the environment and the
// flags, each overriding the previous. The setting of a field documents it.
type Config struct {
	Addr       string
	Admin      struct{ Addr string }
	Instance   string // empty: host name and port
	AdminToken string
	Lab        bool
	Store      string
	Wait       time.Duration
	Work       time.Duration
	Drain      time.Duration
	Stop       time.Duration
	Limits     struct{ Waiting int }
	Log        struct{ Level, Format string }
	Seed       struct {
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
	}
	MySQL struct {
		DSN          string
		Migrate      bool
		PoolSize     int
		Queue        int
		LockPoolSize int
		LockKeys     int
	}
	Lock struct {
		SetNXLease     time.Duration
		RepairSetNX    bool
		WatchdogLease  time.Duration
		Replicas       int
		ReplicaTimeout time.Duration
		HandOver       bool
		Segments       int
		MaxHold        time.Duration
	}
	Merge struct{ Limit, Queue int }
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
	}
}

const (
	envPrefix = "STOCK_"
	// defaultSKU is the SKU of requests that name none, if seed.sku is empty.
	defaultSKU = "stock"
)

// A setting is one key of the configuration: flag, environment variable, line of a file and line of "stock config". The
// usage texts do not fit into struct tags, which have a single line each.
type setting struct {
	field  any // a pointer to the field of a Config; the field's type is the setting's
	key    string
	value  any // the default
	usage  string
	secret bool
}

// settings lists all keys, in the order of "stock config", with the fields of c that they fill.
func (c *Config) settings() []setting {
	redis, redlock, zookeeper, mysql, lock := &c.Redis, &c.Redlock, &c.ZooKeeper, &c.MySQL, &c.Lock
	const secret = true
	return []setting{
		{&c.Addr, "addr", ":8088", "address to listen on, for customers", !secret},
		{
			&c.Admin.Addr, "admin.addr", "127.0.0.1:9090",
			"address for operators (/metrics, /v1/locks, /v1/lab); empty: none", !secret,
		},
		{
			&c.Instance, "instance", "",
			"name of this instance in orders and replies (default: host name and port)", !secret,
		},
		{&c.AdminToken, "admin_token", "", "bearer token for setting stock; empty: nobody may", secret},
		{&c.Lab, "lab", false, "allow hold=, fencing=off, heed_loss=off, pause= and nested= to the admin", !secret},
		{&c.Store, "store", "redis", "store of requests that name none: redis or mysql", !secret},
		{&c.Wait, "wait", 10 * time.Second, "how long requests wait for a lock unless they say", !secret},
		{&c.Work, "work", 2 * time.Second, "longest stay in the critical section", !secret},
		{
			&c.Drain, "drain", time.Second,
			"on SIGTERM, how long /readyz fails before the listener closes, " +
				"and then how long its idle connections must not have been used", !secret,
		},
		{
			&c.Stop, "stop", 15 * time.Second,
			"on SIGTERM, how long requests in flight may take before they are cut off", !secret,
		},
		{
			&c.Limits.Waiting, "limits.waiting", 10000,
			"sales that wait for a lock or work at a time in this instance, some 50 kB each; " +
				"others are refused with 503 overloaded", !secret,
		},
		{&c.Log.Level, "log.level", "info", "debug, info, warn or error", !secret},
		{&c.Log.Format, "log.format", "json", "json or text", !secret},
		{
			&c.Seed.SKU, "seed.sku", defaultSKU,
			"SKU to create at the first start on empty stores, and that of requests that name none; " +
				"empty: nothing is created, and they mean " + defaultSKU, !secret,
		},
		{
			&c.Seed.Quantity,
			"seed.quantity",
			int64(100),
			"units to create it with, once in the life of a store",
			!secret,
		},

		{
			&redis.Addrs, "redis.addrs",
			[]string{"127.0.0.1:6379"},
			"host:port; several: Redis Cluster, or with redis.master_name the Sentinels; empty: no Redis", !secret,
		},
		{&redis.MasterName, "redis.master_name", "", "name of the master that the Sentinels watch", !secret},
		{&redis.Cluster, "redis.cluster", false, "Redis Cluster also with one address", !secret},
		{&redis.Username, "redis.username", "", "user", !secret},
		{&redis.Password, "redis.password", "", "password", secret},
		{&redis.SentinelPassword, "redis.sentinel_password", "", "password of the Sentinels", secret},
		{&redis.DB, "redis.db", 0, "database number (not with Cluster)", !secret},
		{&redis.PoolSize, "redis.pool_size", 64, "connections of the store, and as many of the locks", !secret},
		{
			&redis.Queue,
			"redis.queue",
			2048,
			"operations of the store that wait for a connection at most; others are refused with 503 overloaded",
			!secret,
		},
		{&redis.Timeout, "redis.timeout", time.Second, "limit of one command", !secret},

		{
			&redlock.Addrs, "redlock.addrs",
			[]string{},
			"host:port of five independent Redis masters for redlock; empty: no redlock", !secret,
		},
		{
			&redlock.NodeTimeout, "redlock.node_timeout", 50 * time.Millisecond,
			"how long one node has to answer; one that hangs must not hold up a round", !secret,
		},
		{&redlock.Lease, "redlock.lease", 10 * time.Second, "lease of redlock; renewed every third", !secret},
		{
			&redlock.Quarantine, "redlock.quarantine", time.Duration(0),
			"a node does not count for this long after its start, lest it forgot a lock; " +
				"0s: one lease; negative: none", !secret,
		},

		{
			&zookeeper.Hosts, "zookeeper.hosts",
			[]string{"127.0.0.1:2181"},
			"host:port of the ensemble; empty: no ZooKeeper", !secret,
		},
		{
			&zookeeper.SessionTimeout, "zookeeper.session_timeout", 10 * time.Second,
			"the server frees the locks of a dead instance after this", !secret,
		},
		{
			&zookeeper.ConnectTimeout, "zookeeper.connect_timeout", time.Second,
			"limit of one attempt to connect", !secret,
		},
		{&zookeeper.Root, "zookeeper.root", "/stock/locks", "path of the locks", !secret},

		{
			&mysql.DSN, "mysql.dsn", "stock:stock@tcp(127.0.0.1:3306)/stock",
			"user:password@tcp(host:port)/database; empty: no MySQL", secret,
		},
		{
			&mysql.Migrate, "mysql.migrate", true,
			"bring the schema up to date when the database is reached", !secret,
		},
		{
			&mysql.PoolSize, "mysql.pool_size", 24,
			"connections; those of all instances must stay below the server's max_connections", !secret,
		},
		{
			&mysql.Queue,
			"mysql.queue",
			512,
			"operations of the store that wait for a connection at most; others are refused with 503 overloaded",
			!secret,
		},
		{
			&mysql.LockPoolSize, "mysql.lock_pool_size", 24,
			"further connections, for locks that keep one for each key; they count for max_connections, too", !secret,
		},
		{
			&mysql.LockKeys, "mysql.lock_keys", 0,
			"keys that mysql-for-update holds at a time in one instance, and as many mysql-get-lock; " +
				"0: a third of lock_pool_size", !secret,
		},

		{
			&lock.SetNXLease, "lock.setnx_lease", 10 * time.Second,
			"lease of the SETNX locks, not renewed; " +
				"longer than work, and by as much as a store may take over a write that it was sent", !secret,
		},
		{
			&lock.RepairSetNX, "lock.setnx_repair", false,
			"redis-setnx-expire gives an expiry to a key that a crash left without", !secret,
		},
		{
			&lock.WatchdogLease, "lock.watchdog_lease", 30 * time.Second,
			"lease of redis-watchdog; renewed every third", !secret,
		},
		{
			&lock.Replicas, "lock.replicas", 0,
			"replicas of Redis that must have acknowledged a lock of redis-setnx or redis-watchdog; " +
				"0: none is asked", !secret,
		},
		{
			&lock.ReplicaTimeout, "lock.replica_timeout", 500 * time.Millisecond,
			"how long they have; shorter than redis.timeout", !secret,
		},
		{
			&lock.HandOver, "lock.handover", true,
			"requests of one instance hand a lock on among themselves, in turns with other instances", !secret,
		},
		{
			&lock.Segments, "lock.segments", 8,
			"segments, with a lock each, that the strategy segmented splits a stock into", !secret,
		},
		{&lock.MaxHold, "lock.max_hold", 5 * time.Minute, "longest hold of a renewed lock", !secret},

		{
			&c.Merge.Limit, "merge.limit", 128,
			"most sales of one SKU that the merging strategies make in one step of the store; " +
				"a script of 128 keeps Redis from all else for 0.7 ms", !secret,
		},
		{
			&c.Merge.Queue, "merge.queue", 4096,
			"sales of one SKU that wait for such a step at most; others are refused with 503 overloaded", !secret,
		},

		{
			&c.Relay.Enabled, "relay.enabled", false,
			"deliver the movements of the ledger as events, in turns with other instances", !secret,
		},
		{
			&c.Relay.Lock, "relay.lock", "redis-watchdog",
			"lock under which one relay at a time works; after a crash the next begins when its lease is over", !secret,
		},
		{
			&c.Relay.Sink, "relay.sink", sinkStreams,
			"where events go: streams (Redis Streams, at redis.addrs) or webhook", !secret,
		},
		{
			&c.Relay.Attempts, "relay.attempts", 20,
			"refusals of an event by its receiver until it is parked for a person to decide; 20 take an hour", !secret,
		},
		{
			&c.Relay.Parallel, "relay.parallel", 16,
			"SKUs whose events are delivered at a time; those of one SKU go one after the other", !secret,
		},
		{&c.Relay.WebhookURL, "relay.webhook_url", "", "where a webhook posts events", !secret},
		{
			&c.Relay.WebhookSecrets, "relay.webhook_secrets", "",
			"secrets that sign them, whsec_ and base64; several with commas while they are rotated", secret,
		},
		{
			&c.Relay.WebhookTimeout, "relay.webhook_timeout", 15 * time.Second,
			"how long the receiver of a webhook has to answer", !secret,
		},
		{
			&c.Relay.WebhookInternal, "relay.webhook_internal", false,
			"let relay.webhook_url lead to addresses of this network, such as 127.0.0.1 or 10.0.0.1", !secret,
		},
	}
}

// flag returns the name of the setting on the command line: redis.pool_size is --redis-pool-size.
func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.key) }

// env returns the name of the setting in the environment: redis.pool_size is STOCK_REDIS_POOL_SIZE.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// AddFlags adds a flag for every setting, and --config, to flags.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file: YAML, TOML or JSON (STOCK_CONFIG)")
	for _, s := range new(Config).settings() {
		usage := s.usage + " (" + s.env() + ")"
		switch v := s.value.(type) {
		case string:
			flags.String(s.flag(), v, usage)
		case bool:
			flags.Bool(s.flag(), v, usage)
		case int:
			flags.Int(s.flag(), v, usage)
		case int64:
			flags.Int64(s.flag(), v, usage)
		case time.Duration:
			flags.Duration(s.flag(), v, usage)
		case []string:
			flags.StringSlice(s.flag(), v, usage)
		}
	}
}

// Load reads the configuration and checks it. flags are those of [AddFlags]. The error names every wrong key.
func Load(flags *pflag.FlagSet) (Config, error) {
	var c Config
	settings := c.settings()
	v := viper.New()
	v.AllowEmptyEnv(true) // STOCK_REDIS_ADDRS= means no Redis, not the default one
	var known []string
	var bad []error
	for _, s := range settings {
		v.SetDefault(s.key, s.value)
		bad = append(bad, v.BindEnv(s.key, s.env()), v.BindPFlag(s.key, flags.Lookup(s.flag())))
		known = append(known, s.key)
	}
	file, _ := flags.GetString("config")
	if file == "" {
		file = os.Getenv(envPrefix + "CONFIG")
	}
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", filepath.Base(file), err)
		}
	}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		// A section whose lines are all commented out is a key, too. It stands for the defaults.
		if _, section := v.Get(key).(map[string]any); !section && !slices.Contains(known, key) {
			bad = append(bad, fmt.Errorf("%s: unknown key%s", key, nearest(key, known, "")))
		}
	}
	bad = append(bad, unknownEnv(os.Environ(), settings)...)
	for _, s := range settings {
		value, ok := s.parse(v.Get(s.key))
		if !ok {
			// The error does not quote the value: it may be a secret.
			bad = append(bad, fmt.Errorf("%s: is not %s", s.key, s.kind()))
			value = s.value
		}
		reflect.ValueOf(s.field).Elem().Set(reflect.ValueOf(value))
	}
	bad = append(bad, c.check()...)
	if err := errors.Join(bad...); err != nil {
		return Config{}, fmt.Errorf("configuration:\n%w", err)
	}
	return c, nil
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

// kubernetes matches the variables that Kubernetes sets in every pod for a Service called "stock". They are tolerated.
var kubernetes = regexp.MustCompile(`^STOCK_(SERVICE_(HOST|PORT)|PORT)(_|=)`)

func unknownEnv(environ []string, settings []setting) (bad []error) {
	known := []string{envPrefix + "CONFIG"}
	for _, s := range settings {
		known = append(known, s.env())
	}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !kubernetes.MatchString(pair) {
			bad = append(bad, fmt.Errorf("%s: unknown variable%s", name, nearest(name, known, envPrefix)))
		}
	}
	return bad
}

// nearest suggests the key that was probably meant: the known key with the longest common beginning with key, if that
// is longer than prefix and three letters.
func nearest(key string, known []string, prefix string) string {
	best, length := "", len(prefix)+3
	for _, k := range known {
		n := 0
		for n < min(len(k), len(key)) && k[n] == key[n] {
			n++
		}
		if n > length {
			best, length = k, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// parse converts a value from a file, a variable or a flag to the type of the setting. It is strict where viper is not:
// a number is no duration (nobody means nanoseconds), 1.5 is no 1, and a number is no text, because YAML reads 0123 as
// 83.
func (s setting) parse(raw any) (value any, ok bool) {
	text, isText := raw.(string)
	switch s.value.(type) {
	case string:
		return text, isText
	case bool:
		if isText && text != "" {
			b, err := strconv.ParseBool(text)
			return b, err == nil
		}
		b, isBool := raw.(bool)
		return b, isBool || isText // empty: false
	case int:
		n, ok := whole(raw)
		return int(n), ok
	case int64:
		return whole(raw)
	case time.Duration:
		if isText {
			d, err := time.ParseDuration(text)
			return d, err == nil
		}
		d, isDuration := raw.(time.Duration)
		return d, isDuration
	case []string:
		return list(raw)
	}
	return nil, false
}

// kind says in words what parse accepts.
func (s setting) kind() string {
	switch s.value.(type) {
	case bool:
		return "true or false"
	case int, int64:
		return "a whole number"
	case time.Duration:
		return "a duration with its unit, such as 500ms or 10s"
	case []string:
		return "a list, or text with commas"
	default:
		return "text (in quotes, if it looks like something else)"
	}
}

func whole(raw any) (int64, bool) {
	switch n := raw.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64: // JSON has no other numbers
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// list removes blanks around commas, and empty items: "" is the empty list.
func list(raw any) ([]string, bool) {
	var items []string
	switch l := raw.(type) {
	case string:
		items = strings.Split(l, ",")
	case []string:
		items = l
	case []any:
		for _, item := range l {
			text, isText := item.(string)
			if !isText {
				return nil, false
			}
			items = append(items, text)
		}
	default:
		return nil, false
	}
	kept := []string{}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			kept = append(kept, item)
		}
	}
	return kept, true
}

// WriteYAML writes every setting, with its usage and with secrets masked, as a configuration file.
func (c Config) WriteYAML(w io.Writer) {
	group := ""
	for _, s := range c.settings() {
		indent, name := "", s.key
		if before, after, nested := strings.Cut(s.key, "."); nested {
			if before != group {
				fmt.Fprintf(w, "%s:\n", before)
				group = before
			}
			indent, name = "  ", after
		}
		fmt.Fprintf(w, "%s# %s\n%s%s: %s\n", indent, s.usage, indent, name, s.yaml())
	}
}

// yaml formats the value of the setting for a file.
func (s setting) yaml() string {
	switch field := s.field.(type) {
	case *[]string:
		quoted := make([]string, len(*field))
		for i, item := range *field {
			quoted[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case *string:
		if s.secret {
			return strconv.Quote(masked(s.key, *field))
		}
		return strconv.Quote(*field)
	default:
		return fmt.Sprint(reflect.ValueOf(s.field).Elem())
	}
}

// masked hides a secret but shows whether it is set. Of the DSN it hides only the password. It does not mistake another
// secret that looks like a DSN for one.
func masked(key, secret string) string {
	if secret == "" {
		return ""
	}
	if key != "mysql.dsn" {
		return "***"
	}
	dsn, err := mysql.ParseDSN(secret)
	if err != nil {
		return "***"
	}
	if dsn.Passwd != "" {
		dsn.Passwd = "***"
	}
	return dsn.FormatDSN()
}
