package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
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
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	text := fmt.Sprint(err)
	for _, word := range words {
		if unwanted, no := strings.CutPrefix(word, "!"); no {
			if strings.Contains(text, unwanted) {
				t.Errorf("the error has %q in it:\n%s", unwanted, text)
			}
		} else if err == nil || !strings.Contains(text, word) {
			t.Errorf("the error lacks %q:\n%s", word, text)
		}
	}
}

func TestDefaults(t *testing.T) {
	bare(t)
	c := mustConfigure(t)
	for _, s := range settings() {
		got := field(t, c, s.key)
		if s.key == "instance" {
			host, _ := os.Hostname()
			if got != host+":8088" {
				t.Errorf("instance = %q, want the host name and the port", got)
			}
			continue
		}
		if !reflect.DeepEqual(got, s.value) {
			t.Errorf("%s = %v, want %v", s.key, got, s.value)
		}
	}
	if c := mustConfigure(t, "--addr", "127.0.0.1:4711"); !strings.HasSuffix(c.Instance, ":4711") {
		t.Errorf("instance = %q, want the port of --addr in it", c.Instance)
	}
}

// Every setting can be set in every way, alone.
func TestEverySettingInEveryWay(t *testing.T) {
	bare(t)
	ways := map[string]func(t *testing.T, s setting, value any) []string{
		"flag": func(_ *testing.T, s setting, value any) []string {
			return []string{"--" + s.flag() + "=" + asText(value)}
		},
		"env": func(t *testing.T, s setting, value any) []string {
			t.Setenv(s.env(), asText(value))
			return nil
		},
	}
	for _, format := range []string{"yaml", "toml", "json"} {
		ways[format] = func(t *testing.T, s setting, value any) []string {
			return []string{"--config", file(t, "stock."+format, asFile(t, format, map[string]any{s.key: value}))}
		}
	}
	for _, s := range settings() {
		for name, set := range ways {
			t.Run(s.key+" by "+name, func(t *testing.T) {
				value := other(t, s)
				args := set(t, s, value)
				if s.key == "lab" {
					t.Setenv("STOCK_ADMIN_TOKEN", "t")
				}
				if got := field(t, mustConfigure(t, args...), s.key); !reflect.DeepEqual(got, value) {
					t.Errorf("%s = %#v, want %#v", s.key, got, value)
				}
			})
		}
	}
}

// All at once, and the file by STOCK_CONFIG.
func TestAWholeFile(t *testing.T) {
	bare(t)
	values := make(map[string]any)
	for _, s := range settings() {
		values[s.key] = other(t, s)
	}
	for _, format := range []string{"yaml", "toml", "json"} {
		t.Setenv("STOCK_CONFIG", file(t, "stock."+format, asFile(t, format, values)))
		c := mustConfigure(t)
		for key, value := range values {
			if got := field(t, c, key); !reflect.DeepEqual(got, value) {
				t.Errorf("%s: %s = %#v, want %#v", format, key, got, value)
			}
		}
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
	if c.Wait != 7*time.Second || !reflect.DeepEqual(c.Redis.Addrs, []string{"127.0.0.1:6379"}) || c.Redis.PoolSize != 64 {
		t.Errorf("an empty section: wait %v, redis %+v", c.Wait, c.Redis)
	}
	if c := mustConfigure(t, "--config", file(t, "empty.yaml", "# nothing yet\n")); c.Wait != 10*time.Second {
		t.Errorf("an empty file: wait %v", c.Wait)
	}
}
