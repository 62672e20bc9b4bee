package app

import (
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

	"example.com/stock/internal/words"
)

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

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// says fails unless err has all of the words, and none of those that begin with "!".
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	text := ""
	if err != nil {
		text = words.Of(err, Said).EN // as the commands print it
	}
	for _, word := range parts {
		unwanted, no := strings.CutPrefix(word, "!")
		switch {
		case no && strings.Contains(text, unwanted):
			t.Errorf("the error has %q in it:\n%s", unwanted, text)
		case !no && (err == nil || !strings.Contains(text, word)):
			t.Errorf("the error lacks %q:\n%s", word, text)
		}
	}
}

func TestThereAreFewSettings(t *testing.T) {
	settings := new(Config).settings()
	if n := len(allKeys(settings)); n > 45 {
		t.Errorf("%d settings, with the files of secrets", n)
	}
	for _, s := range settings {
		if use, gone := instead()[s.key]; gone || len(s.about) > 80 {
			t.Errorf("%s: %s %s", s.key, s.about, use)
		}
	}
}

// When instances restart one after the other, the next one must serve until nginx tries the one before again. nginx
// counts whole seconds, so it skips a server for up to twice a fail_timeout of one second.
func TestAnInstanceServesUntilNginxFindsTheOther(t *testing.T) {
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

// A value of each kind can be set in each way, and a later way overrides the earlier ones: a file, a variable, a flag.
func TestWhereAValueComesFrom(t *testing.T) {
	for _, row := range []struct{ key, standard, file, variable, flag string }{
		{"wait", "10s", "1s", "2s", "3s"},
		{"store", "redis", "mysql", "redis", "mysql"},
		{"lock.handover", "true", "false", "true", "false"},
		{"seed.quantity", "100", "1", "2", "0"},
		{"admin_token", "[]", "[a b]", "[b]", "[c d]"},
		{"redis.url", "redis://127.0.0.1:6379", "redis://a", "", "redis://c"}, // an empty variable is one
	} {
		t.Run(row.key, func(t *testing.T) {
			is := func(want string, args ...string) {
				t.Helper()
				c := mustConfigure(t, args...)
				all := c.settings()
				s := all[slices.IndexFunc(all, func(s setting) bool { return s.key == row.key })]
				value := strings.NewReplacer(`"`, "", ", ", " ").Replace(s.yaml())
				if s.secret && want != row.standard && want != "" {
					want = "***"
				}
				if value != want {
					t.Errorf("%q: %s, want %s", args, value, want)
				}
			}
			plain := strings.NewReplacer("[", "", "]", "", " ", ",")
			is(row.standard)
			flag := "--" + flagOf(row.key) + "=" + plain.Replace(row.flag)
			group, name, nested := strings.Cut(row.key, ".")
			inYAML, inJSON := group+": "+row.file, fmt.Sprintf(`{%q: %q}`, group, plain.Replace(row.file))
			if nested {
				inYAML = group + ":\n  " + name + ": " + row.file
				inJSON = fmt.Sprintf(`{%q: {%q: %q}}`, group, name, row.file)
			}
			path := file(t, "stock.yaml", strings.ReplaceAll(inYAML, " b]", ", b]"))
			for _, path := range []string{
				path, file(t, "stock.json", inJSON),
				file(t, "stock.toml", fmt.Sprintf("%s = %q", row.key, plain.Replace(row.file))),
			} {
				is(row.file, "--config", path)
			}
			t.Setenv("STOCK_CONFIG", path)
			is(row.file)
			t.Setenv(envOf(row.key), plain.Replace(row.variable))
			is(row.variable)
			is(row.flag, flag)
		})
	}
}

// People put blanks after commas, and leave sections empty whose lines they have commented out. Kubernetes sets
// variables for each Service whose name begins with "stock", in the style of Docker links.
func TestTolerance(t *testing.T) {
	t.Setenv("STOCK_ZOOKEEPER_HOSTS", "a:1, b:2 ,c:3,")
	for name, value := range map[string]string{
		"STOCK_SERVICE_HOST": "10.96.0.7", "STOCK_SERVICE_PORT_HTTP": "8088", "STOCK_PORT": "tcp://10.96.0.7:8088",
		"STOCK_MYSQL_PORT_3306_TCP": "tcp://10.96.0.8:3306", "STOCK_MYSQL_PORT_3306_TCP_PROTO": "tcp",
		"STOCK_LOCK_PORT_53_UDP": "udp://[fd00::1]:53",
	} {
		t.Setenv(name, value)
	}
	c := mustConfigure(t, "--config", file(t, "stock.yaml", "redis:\n  # url: redis://a\nwait: 7s\n"))
	if !slices.Equal(c.ZooKeeper.Hosts, []string{"a:1", "b:2", "c:3"}) || c.Wait != 7*time.Second ||
		c.Redis.URL != "redis://127.0.0.1:6379" {
		t.Errorf("%+v", c)
	}
	t.Setenv("STOCK_MYSQL_PORT", "1")
	_, err := configure(t)
	says(t, err, "STOCK_MYSQL_PORT: unknown variable")
}

// An error has the setting and its limit, and no secret.
func TestBadValues(t *testing.T) {
	for _, row := range []struct{ flag, says string }{
		{"admin-addr=9090", `admin.addr: "9090" is not host:port`},
		{"addr=http://h", `addr: "http://h" is not host:port`},
		{"addr=h:65536", `addr: "h:65536" is not host:port`},
		{"addr=", `addr: "" is not host:port`},
		{"lab=true", "lab: needs admin_token"},
		{"store=oracle", `store: "oracle" is none of redis, mysql`},
		{"wait=61s", "wait: 1m1s is not from 0s to 1m0s"},
		{"work=9ms", "work: 9ms is not from 10ms to 1m0s"},
		{"seed-sku=a b", "seed.sku: must consist of"},
		{"seed-quantity=1000000001", "seed.quantity: 1000000001 is not from 0 to 1000000000"},
		{"redis-url=redis:6379", "redis.url: is not redis://"},
		{"redis-url=redis://:s3cret@h?skip_verify=1", `redis.url: has the parameter "skip_verify"`},
		{"redlock-urls=redis://a,redis://b", "redlock.urls: 2 are no quorum"},
		{"redlock-urls=redis://a,redis://b?addr=c:1,redis://d", "redlock.urls: has a URL that is not of a single"},
		{"redlock-urls=redis://a,redis://:s3cret@b,redis://b/1", "redlock.urls: has b:6379 twice"},
		{"zookeeper-hosts=zk", "zookeeper.hosts: has an item that is not"},
		{"zookeeper-hosts=s3cret@zk:2181", "zookeeper.hosts: has something before an @"},
		{"zookeeper-root=/a/", `zookeeper.root: "/a/" does not begin`},
		{"zookeeper-acl=everybody", `zookeeper.acl: "everybody" is none of world, creator`},
		{"zookeeper-acl=creator", "zookeeper.acl: creator needs user:password in zookeeper.hosts"},
		{"mysql-dsn=u:s3cret@tcp(db)/shop?charset=gbk", `mysql.dsn: has charset="gbk"`},
		{"mysql-dsn=mysql://u:s3cret@db/shop", "mysql.dsn: is not user:password@tcp(host:port)/database"},
		{"mysql-pool-size=2", "mysql.pool_size: 2 is not from 3 to 10000"},
		{"server-tls-ca=ca.pem", "server_tls.ca: is set"},
		{"server-tls-key=key.pem", "server_tls.key: belongs together with server_tls.cert"},
		{"lock-lease-time=1ns", "lock.lease_time: 1ns is not from 100ms to 1h0m0s"},
		{"lock-segments=65", "lock.segments: 65 is not from 1 to 64"},
		{"config=/nowhere/stock.yaml", "read stock.yaml: "},
	} {
		_, err := configure(t, "--"+row.flag)
		says(t, err, row.says, "!s3cret")
	}
	for _, flag := range []string{
		"--wait=1m", "--seed-sku=", "--redlock-urls=redis://a,redis://b,redis://c", "--admin-addr=",
		"--lock-lease-time=0s",
		"--zookeeper-hosts=tls://u:p@a:1,b:2", "--mysql-dsn=", "--redlock-quarantine=-1s", "--mysql-pool-size=3",
	} {
		mustConfigure(t, flag)
	}
}

// A value in a file that is of another kind than the setting is an error: a number is no duration, because nanoseconds
// are nobody's unit.
func TestWrongTypes(t *testing.T) {
	for text, key := range map[string]string{
		"wait: 5":                          "wait: is not a duration",
		"wait: [1s]":                       "wait: is not a duration",
		"lab: maybe":                       "lab: is not true or false",
		"mysql: {pool_size: 3.5}":          "mysql.pool_size: is not a whole number",
		"mysql: {pool_size: [64]}":         "mysql.pool_size: is not a whole number",
		"seed: {quantity: '1e3'}":          "seed.quantity: is not a whole number",
		"zookeeper: {hosts: {a: 1}}":       "zookeeper.hosts",
		"zookeeper: {hosts: [1]}":          "zookeeper.hosts: is not a list",
		"redis: 5":                         "redis: unknown key",
		"elsewhere:":                       "elsewhere: unknown key",
		"seed: {sku: 0123}":                "seed.sku: is not text", // in YAML that is 83
		"admin_token: {s3cret: 1}":         "admin_token",
		"mysql: {dsn: {password: s3cret}}": "mysql.dsn",
		"wait: 5s\n  drain: 1s":            "read stock.yaml",
	} {
		_, err := configure(t, "--config", file(t, "stock.yaml", text))
		says(t, err, key, "!s3cret: ", "!s3cret\n")
	}
}

// The error lists all mistakes at once, and suggests what is nearly the same.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Setenv("STOCK_WORK", "fast")
	t.Setenv("STOCK_REDIS_ULR", "redis://:s3cret@h")
	t.Setenv("STOCK_XYZZY", "1")
	path := file(t, "stock.yaml",
		"addr: nowhere\nadmin_tokn: s3cret\nredis:\n  timout: 1s\nelsewhere: {deep: {deeper: 1}}")
	_, err := configure(t, "--config", path, "--lock-max-hold=1ms")
	says(t, err, "work: ", "STOCK_XYZZY: unknown variable\n", "admin_tokn: unknown key (did you mean admin_token?)",
		"redis.timout: unknown key (did you mean redis.timeout?)", "elsewhere.deep.deeper: ", "lock.max_hold: 1ms",
		"STOCK_REDIS_ULR: unknown variable (did you mean STOCK_REDIS_U", "!s3cret", "!wait:")
	if lines := strings.Count(err.Error(), "\n"); lines != 8 {
		t.Errorf("%d lines for 8 mistakes:\n%v", lines, err)
	}
}

// A setting that is gone is answered with what to use instead, wherever it is set.
func TestSettingsThatAreGone(t *testing.T) {
	for key, use := range instead() {
		t.Run(key, func(t *testing.T) {
			text := key + ": s3cret"
			if path := strings.Split(key, "."); len(path) > 1 {
				text = strings.Join(path, ": {") + ": s3cret" + strings.Repeat("}", len(path)-1)
			}
			_, err := configure(t, "--config", file(t, "stock.yaml", text))
			says(t, err, key+": is gone: "+use, "!s3cret")
			flags := pflag.NewFlagSet("stock", pflag.ContinueOnError)
			AddFlags(flags)
			flag := "--" + flagOf(key)
			says(t, FlagError(flags.Parse([]string{flag + "=s3cret"})), flag+": is gone: "+use)
			t.Setenv(envOf(key), "s3cret")
			_, err = configure(t)
			says(t, err, envOf(key)+": is gone: "+use, "!s3cret", "!did you mean")
		})
	}
}

// A value that promises less than one may think is logged once, when the service starts.
func TestDoubts(t *testing.T) {
	for args, want := range map[string]string{
		"": "",
		"--work=5s --lock-setnx-lease=5.000000001s": "",
		"--work=5s --lock-setnx-lease=5s":           "lock.setnx_lease, 5s",
		"--mysql-dsn=u@tcp(h)/d?tls=skip-verify":    "mysql.dsn has tls=skip-verify",
		"--mysql-dsn=u@tcp(h)/d?tls=true":           "",
	} {
		c := mustConfigure(t, strings.Fields(args)...)
		doubts := strings.Join(c.doubts(), "\n")
		if !strings.HasPrefix(doubts, want) || want == "" && doubts != "" {
			t.Errorf("%s: %q, want %q", args, doubts, want)
		}
	}
}

// What "stock config" prints is a configuration file that says the same, but for the secrets, whatever they are.
func TestPrinted(t *testing.T) {
	for key, secret := range secrets() {
		t.Setenv(envOf(key), secret)
	}
	t.Setenv("STOCK_INSTANCE", "a: 'b' #\"c\" \\ é\t{x} 库")
	t.Setenv("STOCK_WAIT", "7s")
	print := func(args ...string) string {
		var text strings.Builder
		mustConfigure(t, args...).WriteYAML(&text)
		return text.String()
	}
	shown := print()
	if strings.Contains(shown, "s3cret") || strings.Count(shown, `"***"`) != len(secrets()) {
		t.Errorf("%d secrets in\n%s", len(secrets()), shown)
	}
	for key := range secrets() {
		os.Unsetenv(envOf(key))
	}
	os.Unsetenv("STOCK_INSTANCE")
	os.Unsetenv("STOCK_WAIT")
	filled := regexp.MustCompile(`(?m)^.*"\*\*\*"\n`).ReplaceAllString(shown, "")
	again := print("--config", file(t, "printed.yaml", filled))
	for line := range strings.Lines(filled) {
		if !strings.Contains(again, line) {
			t.Errorf("lost: %s", line)
		}
	}
}

// secrets returns a value for each secret setting.
func secrets() map[string]string {
	return map[string]string{
		"admin_token": "s3cret", "redis.url": "redis://:s3cret@h", "mysql.dsn": "u:s3cret@tcp(h)/d",
		"redlock.urls":    "redis://:s3cret@a,redis://:s3cret@b,redis://:s3cret@c",
		"zookeeper.hosts": "u:s3cret@h:1",
	}
}

// Every secret can be in a file, without its last line break, and then the setting itself must not be set.
func TestSecretsInFiles(t *testing.T) {
	for _, s := range new(Config).settings() {
		if !s.secret {
			continue
		}
		value := secrets()[s.key]
		t.Run(s.key, func(t *testing.T) {
			path := file(t, "secret", value+"\n")
			t.Setenv(envOf(s.key)+"_FILE", path)
			c := mustConfigure(t)
			t.Setenv(envOf(s.key), value)
			os.Unsetenv(envOf(s.key) + "_FILE")
			if same := mustConfigure(t); !reflect.DeepEqual(c, same) {
				t.Errorf("%+v, want %+v", c, same)
			}
			t.Setenv(envOf(s.key)+"_FILE", path)
			_, err := configure(t)
			says(t, err, s.key+": is set, and so is "+s.key+"_file", "!s3cret")
			os.Unsetenv(envOf(s.key))
			_, err = configure(t, "--"+flagOf(s.key)+"-file="+path+".no")
			says(t, err, s.key+"_file: ", path+".no", "no such file")
		})
	}
}

func TestParseEnsemble(t *testing.T) {
	e, err := parseEnsemble([]string{"tls://u:p@w@a:1", "b:2", "v:q@c:3"})
	if want := "{hosts:[a:1 b:2 c:3] users:[u:p@w v:q] secure:true}"; err != nil || fmt.Sprintf("%+v", e) != want {
		t.Errorf("%+v %v, want %s", e, err, want)
	}
}
