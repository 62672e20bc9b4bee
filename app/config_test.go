package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"example.com/stock/internal/words"
)

// bare takes STOCK_* out of the environment: a developer's shell must not decide these tests.
func bare(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, value) // so that it comes back
			os.Unsetenv(name)
		}
	}
}

// says fails unless err has all of the words, and none of those that begin with "!".
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	text := ""
	if err != nil {
		text = words.Of(err, Said).EN // as the commands print it
	}
	for _, word := range parts {
		if unwanted, no := strings.CutPrefix(word, "!"); no {
			if strings.Contains(text, unwanted) {
				t.Errorf("the error has %q in it:\n%s", unwanted, text)
			}
		} else if err == nil || !strings.Contains(text, word) {
			t.Errorf("the error lacks %q:\n%s", word, text)
		}
	}
}

// When instances restart one after the other, the next one must serve until nginx tries the one before again. nginx
// counts whole seconds, so it skips a server for up to twice a fail_timeout of one second.
func TestAnInstanceServesUntilNginxFindsTheOther(t *testing.T) {
	bare(t)
	conf, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`fail_timeout=(\S+);`).FindAllStringSubmatch(string(conf), -1)
	if len(found) == 0 {
		t.Fatal("nginx.conf has no fail_timeout")
	}
	for _, match := range found {
		skipped, err := time.ParseDuration(match[1])
		if err != nil {
			t.Fatal(err)
		}
		if drain := mustConfigure(t).Drain; drain < skipped+time.Second {
			t.Errorf("drain is %v by default, and nginx skips a server for up to %v", drain, skipped+time.Second)
		}
	}
}

func TestDefaults(t *testing.T) {
	bare(t)
	c := mustConfigure(t)
	for _, s := range allSettings() {
		got := field(t, c, s.key)
		if !reflect.DeepEqual(got, s.value) {
			t.Errorf("%s = %v, want %v", s.key, got, s.value)
		}
	}
	host, _ := os.Hostname()
	for addr, want := range map[string]string{":8088": host + ":8088", "127.0.0.1:4711": host + ":4711"} {
		c := mustConfigure(t, "--addr", addr)
		if c.complete(); c.Instance != want {
			t.Errorf("with --addr %s the instance is %q, want %q: the host name and the port", addr, c.Instance, want)
		}
	}
}

// everyWay returns the arguments that set these values in each way, with what else it needs in the environment.
func everyWay(settings []setting, values map[string]any) map[string]func(t *testing.T) []string {
	ways := map[string]func(t *testing.T) []string{
		"flags": func(*testing.T) (args []string) {
			for _, s := range settings {
				args = append(args, "--"+s.flag()+"="+asText(values[s.key]))
			}
			return args
		},
		"variables": func(t *testing.T) []string {
			for _, s := range settings {
				t.Setenv(s.env(), asText(values[s.key]))
			}
			return nil
		},
	}
	for _, format := range []string{"yaml", "toml", "json"} {
		ways[format] = func(t *testing.T) []string {
			return []string{"--config", file(t, "stock."+format, asFile(t, format, values))}
		}
	}
	return ways
}

// valuesOf returns a value for each setting that is not its default.
func valuesOf(t *testing.T, settings []setting) map[string]any {
	t.Helper()
	values := make(map[string]any)
	for _, s := range settings {
		values[s.key] = other(t, s)
	}
	return values
}

// Every setting can be set in every way.
func TestEverySettingInEveryWay(t *testing.T) {
	bare(t)
	files := slices.DeleteFunc(allSettings(), func(s setting) bool { return !isSecretFile(s) })
	for name, settings := range map[string][]setting{"files of secrets": files, "all others": together()} {
		values := valuesOf(t, settings)
		for way, set := range everyWay(settings, values) {
			t.Run(name+" by "+way, func(t *testing.T) {
				c := mustConfigure(t, set(t)...)
				for key, value := range values {
					if got := field(t, c, key); !reflect.DeepEqual(got, value) {
						t.Errorf("%s = %#v, want %#v", key, got, value)
					}
				}
			})
		}
	}
}

// A flag that names the file goes before the variable that does.
func TestWhichFileIsRead(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_CONFIG", file(t, "stock.yaml", "wait: 6s"))
	if c := mustConfigure(t); c.Wait != 6*time.Second {
		t.Errorf("wait = %v, want that of STOCK_CONFIG", c.Wait)
	}
	t.Setenv("STOCK_CONFIG", "/nowhere.yaml")
	if c := mustConfigure(t, "--config", file(t, "other.yaml", "wait: 7s")); c.Wait != 7*time.Second {
		t.Errorf("wait = %v, want that of --config, not of STOCK_CONFIG", c.Wait)
	}
}

func TestPrecedence(t *testing.T) {
	bare(t)
	for _, row := range []struct{ key, file, env, flag string }{
		{"wait", "1s", "2s", "3s"},
		{"store", "mysql", "redis", "mysql"},
		{"mysql.migrate", "false", "true", "false"},
		{"redis.db", "1", "2", "3"},
		{"seed.quantity", "1", "2", "0"},
		{"redis.addrs", "a:1", "b:2,c:3", "d:4"},
		{"redis.password", "a", "b", ""}, // an empty flag is a flag
	} {
		t.Run(row.key, func(t *testing.T) {
			is := func(want string, args ...string) {
				t.Helper()
				got := field(t, mustConfigure(t, args...), row.key)
				if asText(got) != want {
					t.Errorf("%q: %s = %v, want %s", args, row.key, got, want)
				}
			}
			s := settingOf(t, row.key)
			is(asText(s.value))
			group, name, nested := strings.Cut(row.key, ".")
			text := fmt.Sprintf("%s: %s\n", group, row.file)
			if nested {
				text = fmt.Sprintf("%s:\n  %s: %s\n", group, name, row.file)
			}
			path := file(t, "stock.yaml", text)
			is(row.file, "--config", path)
			t.Setenv(s.env(), row.env)
			is(row.env)
			is(row.env, "--config", path)
			is(row.flag, "--config", path, "--"+s.flag()+"="+row.flag)
			is(row.flag, "--"+s.flag()+"="+row.flag)
		})
	}
}

// An empty variable is a value: it means none, not the default. That is how a composition leaves a server out.
func TestEmptyMeansNone(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_REDIS_ADDRS", "")
	t.Setenv("STOCK_ZOOKEEPER_HOSTS", "")
	t.Setenv("STOCK_MYSQL_DSN", "")
	c := mustConfigure(t)
	if len(c.Redis.Addrs) != 0 || len(c.ZooKeeper.Hosts) != 0 || c.MySQL.DSN != "" {
		t.Errorf("by the environment: %q, %q, %q; want none", c.Redis.Addrs, c.ZooKeeper.Hosts, c.MySQL.DSN)
	}
	bare(t)
	for name, args := range map[string][]string{
		"flags": {"--redis-addrs=", "--zookeeper-hosts=", "--mysql-dsn="},
		"file":  {"--config", file(t, "stock.yaml", "redis: {addrs: []}\nzookeeper: {hosts: []}\nmysql: {dsn: ''}")},
		"text":  {"--config", file(t, "stock.yaml", "redis: {addrs: ''}\nzookeeper: {hosts: ''}\nmysql: {dsn: ''}")},
	} {
		c := mustConfigure(t, args...)
		if len(c.Redis.Addrs) != 0 || len(c.ZooKeeper.Hosts) != 0 || c.MySQL.DSN != "" {
			t.Errorf("by %s: %q, %q, %q; want none", name, c.Redis.Addrs, c.ZooKeeper.Hosts, c.MySQL.DSN)
		}
	}
}

// People put blanks after commas, and leave sections empty whose lines they have commented out.
func TestTolerance(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_REDIS_ADDRS", "a:1, b:2 ,c:3")
	if c := mustConfigure(t); !reflect.DeepEqual(c.Redis.Addrs, []string{"a:1", "b:2", "c:3"}) {
		t.Errorf("redis.addrs = %q, want them without blanks", c.Redis.Addrs)
	}
	bare(t)
	c := mustConfigure(t, "--config", file(t, "stock.yaml", "redis:\n  # addrs: [a:1]\nwait: 7s\n"))
	if c.Wait != 7*time.Second || !reflect.DeepEqual(c.Redis.Addrs, []string{"127.0.0.1:6379"}) ||
		c.Redis.PoolSize != 64 {
		t.Errorf("an empty section: wait %v, redis %+v", c.Wait, c.Redis)
	}
	if c := mustConfigure(t, "--config", file(t, "empty.yaml", "# nothing yet\n")); c.Wait != 10*time.Second {
		t.Errorf("an empty file: wait %v", c.Wait)
	}
}

// One wrong value each, by variable, and what the error must say: the key, and where it helps the limit.
func TestBadValues(t *testing.T) {
	for _, row := range []struct{ env, value, says string }{
		{"ADMIN_ADDR", "9090", `admin.addr: "9090" is not host:port`},
		{"ADDR", "8088", `addr: "8088" is not host:port`},
		{"ADDR", "a:b:c", `addr: "a:b:c" is not host:port`},
		{"ADDR", "http://h", `addr: "http://h" is not host:port`},
		{"ADMIN_ADDR", "h:65536", `admin.addr: "h:65536" is not host:port`},
		{"REDIS_ADDRS", "a:1,b:", `redis.addrs: "b:" is not host:port`},
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
		{"ZOOKEEPER_CREDENTIALS", "hunter2", "zookeeper.credentials: is not user:password"},
		{"ZOOKEEPER_CREDENTIALS", "a:b,:hunter2", "zookeeper.credentials: is not user:password"},
		{"ZOOKEEPER_ACL", "everybody", `zookeeper.acl: "everybody" is none of world, creator`},
		{"ZOOKEEPER_ACL", "creator", "zookeeper.acl: creator needs zookeeper.credentials"},
		{"MYSQL_DSN", "u:s3cret@tcp(db)/shop?charset=gbk", `mysql.dsn: has charset="gbk"`},
		{"MYSQL_DSN", "mysql://u:s3cret@db/shop", "mysql.dsn: is not user:password@tcp(host:port)/database"},
		{"MYSQL_POOL_SIZE", "0", "mysql.pool_size: 0 is not at least 1"},
		{"MYSQL_LOCK_KEYS", "-1", "mysql.lock_keys: -1 is not from 0 to 11"},
		{"MYSQL_LOCK_KEYS", "12", "mysql.lock_keys: 12 is not from 0 to 11"},
		{"MYSQL_MIGRATE", "maybe", "mysql.migrate"},
		{"LOCK_SETNX_LEASE", "1ms", "lock.setnx_lease: 1ms is not"},
		{"LOCK_LEASE_TIME", "1ms", "lock.lease_time: 1ms is not"},
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

// The error lists all mistakes at once.
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
	says(
		t, err, `store: "oracle"`, "work", "STOCK_REDIS_ADDR", "mysql.pool_size", `addr: "nowhere"`,
		"admin_tokn", "did you mean admin_token", "redis.pool_size", "redis.timout",
		"did you mean redis.timeout", "redis.db", "lab: needs admin_token", "elsewhere.deep.deeper",
		"lock.max_hold: 1ms", `log.level: "loud"`, "!s3cret", "!redis.addrs:", "!wait:",
	)
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
		"a.yaml": "wait: 5s\n  drain: 1s", "b.toml": "wait = ", "c.json": `{"wait": "5s"`, "d.ini": "wait=5s",
		"e": "wait: 5s",
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

// Kubernetes sets these in every pod for each Service of the namespace, here for "stock", "stock-mysql" and
// "stock-lock", in the style of Docker links. They must not prevent a start, whatever the Service is called.
func TestKubernetesVariablesAreTolerated(t *testing.T) {
	bare(t)
	for name, value := range map[string]string{
		"STOCK_SERVICE_HOST": "10.96.0.7", "STOCK_SERVICE_PORT": "8088", "STOCK_SERVICE_PORT_HTTP": "8088",
		"STOCK_PORT": "tcp://10.96.0.7:8088", "STOCK_PORT_8088_TCP": "tcp://10.96.0.7:8088",
		"STOCK_PORT_8088_TCP_PROTO": "tcp",
		"STOCK_PORT_8088_TCP_PORT":  "8088", "STOCK_PORT_8088_TCP_ADDR": "10.96.0.7",
		"STOCK_MYSQL_SERVICE_HOST": "10.96.0.8", "STOCK_MYSQL_SERVICE_PORT": "3306",
		"STOCK_MYSQL_SERVICE_PORT_MYSQL": "3306", "STOCK_MYSQL_PORT": "tcp://10.96.0.8:3306",
		"STOCK_MYSQL_PORT_3306_TCP": "tcp://10.96.0.8:3306", "STOCK_MYSQL_PORT_3306_TCP_PROTO": "tcp",
		"STOCK_MYSQL_PORT_3306_TCP_PORT": "3306", "STOCK_MYSQL_PORT_3306_TCP_ADDR": "10.96.0.8",
		"STOCK_LOCK_PORT": "udp://[fd00::1]:53", "STOCK_LOCK_PORT_53_UDP": "udp://[fd00::1]:53",
	} {
		t.Setenv(name, value)
	}
	if c := mustConfigure(t); c.Addr != ":8088" {
		t.Errorf("addr = %q, want the default: those are not for us", c.Addr)
	}
	for _, name := range []string{
		"STOCK_PORTS", "STOCK_SERVICE_NAME", "STOCK_SERVICES_PORT", "STOCK_MYSQL_PORT", "STOCK_MYSQL_HOST",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			_, err := configure(t)
			says(t, err, name)
		})
	}
}

// Whoever reads Chinese reads all that is wrong in Chinese. The log and programs have it in English.
func TestMistakesInChinese(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_REDIS_ADDR", "a:1")
	t.Setenv("STOCK_SEED_SKU", "a b")
	_, err := configure(t, "--config", file(t, "stock.yaml", "wait: 61s\nxyzzy: 1\nwork: fast\nstore: oracle\n"))
	want := `配置有误：
xyzzy: 没有这个配置项
STOCK_REDIS_ADDR: 没有这个环境变量（是否指 STOCK_REDIS_ADDRS？）
work: 须为带单位的时长，如 500ms 或 10s
store: "oracle" 不在其中：redis, mysql
`
	zh := words.Of(err).ZH
	if !strings.HasPrefix(zh, want) || !strings.Contains(zh, "\nwait: 1m1s 不在 0s 到 1m0s 之间\n") ||
		!strings.HasSuffix(zh, "\nseed.sku: 只能由 A-Z a-z 0-9 . _ : - 组成，第 2 个字符不是") {
		t.Errorf("got\n%s\nwant\n%s", zh, want)
	}
	says(t, err, "configuration:\n", "xyzzy: unknown key\n", "seed.sku: must consist of")
}

// A setting that is gone is answered with what to use instead, wherever it is set.
func TestSettingsThatAreGone(t *testing.T) {
	bare(t)
	for key := range instead() {
		gone := setting{key: key}
		const use = ": is gone: end the TLS of clients at an ingress"
		t.Run(key, func(t *testing.T) {
			_, err := configure(t, "--config", file(t, "stock.json", asFile(t, "json", map[string]any{key: "a.pem"})))
			says(t, err, key+use)
			flags := pflag.NewFlagSet("stock", pflag.ContinueOnError)
			AddFlags(flags)
			says(t, FlagError(flags.Parse([]string{"--" + gone.flag() + "=a.pem"})), "--"+gone.flag()+use)
			t.Setenv(gone.env(), "a.pem")
			_, err = configure(t)
			says(t, err, gone.env()+use, "!did you mean")
		})
	}
}

// Suggestions are for nearly correct keys.
func TestSuggestions(t *testing.T) {
	bare(t)
	for name, want := range map[string]string{
		"STOCK_LOG_LEVL": "did you mean STOCK_LOG_LEVEL?", "STOCK_ADMIN_TOKN": "did you mean STOCK_ADMIN_TOKEN?",
		"STOCK_XYZZY": "!did you mean",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			_, err := configure(t)
			says(t, err, name, want)
		})
	}
}

// A usable value that promises less than one may think is logged once, when the service starts.
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

func TestConfigMasksSecrets(t *testing.T) {
	bare(t)
	for _, dsn := range []string{
		"stock:s3cret@tcp(db:3306)/shop", "stock:s3:cr@et/x@tcp(db:3306)/shop?timeout=2s",
		":s3cret@tcp(db:3306)/shop", "s3cret",
	} {
		for _, other := range []string{
			"s3cret", "s3cret@/x",
			"s3cret:s3cret@tcp(h:1)/x",
		} { // the last two could be DSNs
			t.Setenv("STOCK_MYSQL_DSN", dsn)
			t.Setenv("STOCK_ADMIN_TOKEN", other)
			t.Setenv("STOCK_REDIS_PASSWORD", other)
			t.Setenv("STOCK_REDIS_SENTINEL_PASSWORD", other)
			t.Setenv("STOCK_ZOOKEEPER_CREDENTIALS", "zoo:"+other)
			out, err := printed(t)
			for _, secret := range []string{"s3cret", "s3:cr@et"} {
				if strings.Contains(out+fmt.Sprint(err), secret) {
					t.Errorf("dsn %q, others %q: %q is shown in\n%s%v", dsn, other, secret, out, err)
				}
			}
			if dsn == "s3cret" { // no DSN at all
				says(t, err, "mysql.dsn")
				continue
			}
			for _, line := range []string{
				`admin_token: "***"`, `  password: "***"`, `  sentinel_password: "***"`,
				`  credentials: "zoo:***"`,
				"@tcp(db:3306)/shop",
			} {
				if err != nil || dsn[0] != ':' && !strings.Contains(out, line) {
					t.Errorf("dsn %q, %v: no %s in\n%s", dsn, err, line, out)
				}
			}
		}
	}
}

// A password where none belongs is not quoted by the error that says so.
func TestErrorsQuoteNoPassword(t *testing.T) {
	bare(t)
	for _, key := range []string{"STOCK_REDIS_ADDRS", "STOCK_REDLOCK_ADDRS", "STOCK_ZOOKEEPER_HOSTS"} {
		for _, addr := range []string{
			"redis://:s3cret@db:6379", "me:s3cret@db:6379", "s3cret@db:6379", "me:s3cret@db",
		} {
			t.Setenv(key, addr+",db:1,db:2")
			out, err := printed(t)
			if err == nil || strings.Contains(out+err.Error(), "s3cret") {
				t.Errorf("%s=%s: %v\n%s", key, addr, err, out)
			}
			t.Setenv(key, "")
		}
	}
}

// A DSN without a password, and secrets that are not set, are shown as they are: whether there is one is no secret.
func TestConfigShowsThatNoSecretIsSet(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_MYSQL_DSN", "root@tcp(db:3306)/shop")
	out, err := printed(t)
	for _, line := range []string{`admin_token: ""`, `  password: ""`, `  dsn: "root@tcp(db:3306)/shop"`} {
		if err != nil || !strings.Contains(out, line+"\n") {
			t.Errorf("%v: no %s in\n%s", err, line, out)
		}
	}
}

// What "stock config" prints is a configuration file that says the same, whatever the values came from.
func TestConfigIsAConfigurationFile(t *testing.T) {
	bare(t)
	values := valuesOf(t, together())
	values["instance"] = "a: 'b' #\"c\" \\ é\t{x} 库"
	ways := everyWay(together(), values)
	ways["nothing"] = func(*testing.T) []string { return nil }
	ways["none of anything"] = func(t *testing.T) []string {
		for _, name := range []string{"REDIS_ADDRS", "ZOOKEEPER_HOSTS", "MYSQL_DSN", "LAB"} {
			t.Setenv(envPrefix+name, "")
		}
		return nil
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			args := way(t)
			want := mustConfigure(t, args...)
			out, err := printed(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			bare(t)
			got := mustConfigure(t, "--config", file(t, "printed.yaml", out))
			for _, s := range together() {
				a, b := field(t, want, s.key), field(t, got, s.key)
				if s.secret && asText(a) != "" {
					if b == a && s.key != "mysql.dsn" {
						t.Errorf("%s is shown as it is", s.key)
					}
					continue
				}
				if fmt.Sprintf("%#v", a) != fmt.Sprintf("%#v", b) {
					t.Errorf("%s was %#v and is %#v", s.key, a, b)
				}
			}
			again, err := printed(t, "--config", file(t, "printed.yaml", out))
			if err != nil || again != out {
				t.Errorf("printed once more (%v):\n%s\nthan:\n%s", err, again, out)
			}
		})
	}
}

// configure returns the configuration for args.
func configure(t testing.TB, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("stock", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(flags)
}

func mustConfigure(t testing.TB, args ...string) Config {
	t.Helper()
	c, err := configure(t, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}

// file writes a configuration file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func allSettings() []setting { return new(Config).settings() }

// together returns the settings that can be set at the same time. The others are files of secrets.
func together() []setting {
	return slices.DeleteFunc(allSettings(), isSecretFile)
}

func isSecretFile(s setting) bool { return s.textKey() == "secret_file" }

// field returns the value of a key in c.
func field(t *testing.T, c Config, key string) any {
	t.Helper()
	for _, s := range c.settings() {
		if s.key == key {
			return reflect.ValueOf(s.field).Elem().Interface()
		}
	}
	t.Fatalf("Config has no field for %s", key)
	return nil
}

// printed returns the output of "stock config".
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c, err := configure(t, args...)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	c.WriteYAML(&text, words.English)
	return text.String(), nil
}

// other returns a valid value of s that is not its default.
func other(t *testing.T, s setting) any {
	t.Helper()
	switch def := s.value.(type) {
	case bool:
		return !def
	case int:
		return def + 1
	case int64:
		return def + 1
	case time.Duration:
		return def + 500*time.Millisecond
	case []string:
		if s.key == "stores.enabled" {
			return []string{"mysql", "redis"}
		}
		return []string{"10.0.0.1:1001", "10.0.0.2:1002", "10.0.0.3:1003"}
	case string:
		if isSecretFile(s) {
			secret := settingOf(t, strings.TrimSuffix(s.key, fileSuffix))
			return file(t, "secret", other(t, secret).(string)+"\n")
		}
		if strings.Contains(s.textKey(), "_tls.") {
			return "some.pem"
		}
		if text, ok := map[string]string{
			"tls_min_version": "1.3", "addr": "127.0.0.1:9", "admin.addr": ":9091", "instance": "app-9",
			"admin_token": "t0ken: #1",
			"store":       "mysql", "log.level": "debug", "log.format": "text",
			"seed.sku": "other", "redis.master_name": "mymaster", "redis.username": "you", "redis.password": `p"\$ 'x`,
			"redis.sentinel_password": "s3ntinel", "zookeeper.root": "/a/b", "zookeeper.credentials": "a:b#1,c:d",
			"zookeeper.acl": "creator", "mysql.dsn": "u:p#1@tcp(db:3306)/shop",
		}[s.key]; ok {
			return text
		}
	}
	t.Fatalf("%s: no value to try; add one here", s.key)
	return nil
}

// asText formats a value for a flag or a variable.
func asText(value any) string {
	if list, ok := value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(value)
}

// asFile formats settings as a file of that format.
func asFile(t *testing.T, format string, values map[string]any) string {
	t.Helper()
	tree, toml := make(map[string]any), ""
	for key, value := range values {
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		text, _ := json.Marshal(value) // a string and a list look the same in TOML
		toml += fmt.Sprintf("%s = %s\n", key, text)
		path := strings.Split(key, ".")
		group := tree
		for _, name := range path[:len(path)-1] {
			if group[name] == nil {
				group[name] = make(map[string]any)
			}
			group = group[name].(map[string]any)
		}
		group[path[len(path)-1]] = value
	}
	var text []byte
	var err error
	switch format {
	case "toml":
		return toml
	case "json":
		text, err = json.Marshal(tree)
	default:
		text, err = yaml.Marshal(tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func settingOf(t *testing.T, key string) setting {
	t.Helper()
	for _, s := range allSettings() {
		if s.key == key {
			return s
		}
	}
	t.Fatalf("there is no setting %s", key)
	return setting{}
}
