package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"example.com/stock/service"
)

// A Config is what holds: defaults, then the file, the environment and the flags, each over the one before.
type Config struct {
	Addr       string        `mapstructure:"addr"`
	Instance   string        `mapstructure:"instance"`
	AdminToken string        `mapstructure:"admin_token"`
	Lab        bool          `mapstructure:"lab"`
	Store      string        `mapstructure:"store"`
	Wait       time.Duration `mapstructure:"wait"`
	Work       time.Duration `mapstructure:"work"`
	Drain      time.Duration `mapstructure:"drain"`
	Stop       time.Duration `mapstructure:"stop"`
	Log        struct{ Level, Format string }
	Seed       struct {
		SKU      string
		Quantity int64
	}
	Redis struct {
		Addrs            []string
		MasterName       string `mapstructure:"master_name"`
		Cluster          bool
		Username         string
		Password         string
		SentinelPassword string `mapstructure:"sentinel_password"`
		DB               int
		PoolSize         int `mapstructure:"pool_size"`
		Timeout          time.Duration
	}
	Redlock struct {
		Addrs       []string
		Lease       time.Duration
		Quarantine  time.Duration
		NodeTimeout time.Duration `mapstructure:"node_timeout"`
	}
	ZooKeeper struct {
		Hosts          []string
		SessionTimeout time.Duration `mapstructure:"session_timeout"`
		ConnectTimeout time.Duration `mapstructure:"connect_timeout"`
		Root           string
	}
	MySQL struct {
		DSN          string
		Migrate      bool
		PoolSize     int `mapstructure:"pool_size"`
		LockPoolSize int `mapstructure:"lock_pool_size"`
	}
	Lock struct {
		SetNXLease    time.Duration `mapstructure:"setnx_lease"`
		RepairSetNX   bool          `mapstructure:"setnx_repair"`
		WatchdogLease time.Duration `mapstructure:"watchdog_lease"`
		HandOver      bool          `mapstructure:"handover"`
		Segments      int
		MaxHold       time.Duration `mapstructure:"max_hold"`

		Replicas       int
		ReplicaTimeout time.Duration `mapstructure:"replica_timeout"`
	}
}

// addConfigFlags gives flags a flag for every setting, and --config.
func addConfigFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file: YAML, TOML or JSON (STOCK_CONFIG)")
	for _, s := range settings() {
		help := s.help + " (" + s.env() + ")"
		switch v := s.value.(type) {
		case string:
			flags.String(s.flag(), v, help)
		case bool:
			flags.Bool(s.flag(), v, help)
		case int:
			flags.Int(s.flag(), v, help)
		case int64:
			flags.Int64(s.flag(), v, help)
		case time.Duration:
			flags.Duration(s.flag(), v, help)
		case []string:
			flags.StringSlice(s.flag(), v, help)
		}
	}
}

// loadConfig reads the configuration and checks it. The error names every key that is wrong.
func loadConfig(flags *pflag.FlagSet) (Config, *viper.Viper, error) {
	v := viper.New()
	v.AllowEmptyEnv(true) // STOCK_REDIS_ADDRS= means no Redis, not the default one
	var known []string
	var bad []error
	for _, s := range settings() {
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
			return Config{}, nil, fmt.Errorf("read %s: %w", filepath.Base(file), err)
		}
	}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		// A section whose lines are all commented out is a key, too. What it stands for is the defaults.
		if _, section := v.Get(key).(map[string]any); !section && !slices.Contains(known, key) {
			bad = append(bad, fmt.Errorf("%s: unknown key%s", key, nearest(key, known, "")))
		}
	}
	bad = append(bad, unknownEnv(os.Environ())...)
	for _, s := range settings() {
		value, ok := s.parse(v.Get(s.key))
		if !ok {
			// The value itself is not quoted: it may be a secret.
			bad = append(bad, fmt.Errorf("%s: is not %s", s.key, s.sort()))
			value = s.value
		}
		v.Set(s.key, value)
	}
	var c Config
	bad = append(bad, v.Unmarshal(&c))
	bad = append(bad, c.check()...)
	if err := errors.Join(bad...); err != nil {
		return Config{}, nil, fmt.Errorf("configuration:\n%w", err)
	}
	c.complete()
	return c, v, nil
}

// kubernetes matches the variables that Kubernetes sets in every pod for a Service called "stock". They are not ours to refuse.
var kubernetes = regexp.MustCompile(`^STOCK_(SERVICE_(HOST|PORT)|PORT)(_|=)`)

func unknownEnv(environ []string) (bad []error) {
	var known []string
	for _, s := range settings() {
		known = append(known, s.env())
	}
	known = append(known, envPrefix+"CONFIG")
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !kubernetes.MatchString(pair) {
			bad = append(bad, fmt.Errorf("%s: unknown variable%s", name, nearest(name, known, envPrefix)))
		}
	}
	return bad
}

// check returns an error for every key whose value cannot be used.
func (c *Config) check() (bad []error) {
	no := func(key, format string, args ...any) { bad = append(bad, fmt.Errorf(key+": "+format, args...)) }
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		no("addr", "%q is not host:port", c.Addr)
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
	within("lock.replica_timeout", c.Lock.ReplicaTimeout, time.Millisecond, time.Minute)
	if c.Lock.Replicas < 0 {
		no("lock.replicas", "%d is not at least 0", c.Lock.Replicas)
	}
	if c.Lock.Replicas > 0 && c.Lock.ReplicaTimeout >= c.Redis.Timeout {
		no("lock.replica_timeout", "%v is not shorter than redis.timeout, %v", c.Lock.ReplicaTimeout, c.Redis.Timeout)
	}
	if c.Redis.PoolSize < 1 {
		no("redis.pool_size", "%d is not at least 1", c.Redis.PoolSize)
	}
	if c.Redis.DB < 0 {
		no("redis.db", "%d is not at least 0", c.Redis.DB)
	}
	if c.MySQL.PoolSize < 1 {
		no("mysql.pool_size", "%d is not at least 1", c.MySQL.PoolSize)
	}
	if c.MySQL.LockPoolSize < 3 {
		no("mysql.lock_pool_size", "%d is not at least 3", c.MySQL.LockPoolSize)
	}
	if n := len(c.Redlock.Addrs); n == 1 || n == 2 {
		no("redlock.addrs", "%d masters are no quorum: name at least 3, better 5, or none", n)
	}
	if _, err := service.ParseSKU(c.Seed.SKU); err != nil {
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

// complete fills in what depends on other keys.
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

// nearest suggests the key that was probably meant: the one that begins like it for longest, by more than prefix and three letters.
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
