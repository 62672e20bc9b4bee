package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestConfigMasksSecrets(t *testing.T) {
	bare(t)
	for _, dsn := range []string{
		"stock:s3cret@tcp(db:3306)/shop", "stock:s3:cr@et/x@tcp(db:3306)/shop?timeout=2s", ":s3cret@tcp(db:3306)/shop", "s3cret",
	} {
		for _, other := range []string{"s3cret", "s3cret@/x", "s3cret:s3cret@tcp(h:1)/x"} { // the last two could be DSNs
			t.Setenv("STOCK_MYSQL_DSN", dsn)
			t.Setenv("STOCK_ADMIN_TOKEN", other)
			t.Setenv("STOCK_REDIS_PASSWORD", other)
			t.Setenv("STOCK_REDIS_SENTINEL_PASSWORD", other)
			out, errs, err := run(t.Context(), "config")
			for _, secret := range []string{"s3cret", "s3:cr@et"} {
				if strings.Contains(out+errs+fmt.Sprint(err), secret) {
					t.Errorf("dsn %q, others %q: %q is shown in\n%s%s%v", dsn, other, secret, out, errs, err)
				}
			}
			if dsn == "s3cret" { // no DSN at all
				says(t, err, "mysql.dsn")
				continue
			}
			for _, line := range []string{`admin_token: "***"`, `  password: "***"`, `  sentinel_password: "***"`, "@tcp(db:3306)/shop"} {
				if err != nil || dsn[0] != ':' && !strings.Contains(out, line) {
					t.Errorf("dsn %q, %v: no %s in\n%s", dsn, err, line, out)
				}
			}
		}
	}
}

// A DSN without a password, and secrets that are not set, are shown as they are: whether there is one is no secret.
func TestConfigShowsThatNoSecretIsSet(t *testing.T) {
	bare(t)
	t.Setenv("STOCK_MYSQL_DSN", "root@tcp(db:3306)/shop")
	out, _, err := run(t.Context(), "config")
	for _, line := range []string{`admin_token: ""`, `  password: ""`, `  dsn: "root@tcp(db:3306)/shop"`} {
		if err != nil || !strings.Contains(out, line+"\n") {
			t.Errorf("%v: no %s in\n%s", err, line, out)
		}
	}
}

// What "stock config" prints is a configuration file that says the same, whatever the values came from.
func TestConfigIsAConfigurationFile(t *testing.T) {
	bare(t)
	values := make(map[string]any)
	for _, s := range settings() {
		values[s.key] = other(t, s)
	}
	values["instance"] = "a: 'b' #\"c\" \\ é\t{x} 库"
	ways := map[string]func(t *testing.T) []string{
		"nothing": func(*testing.T) []string { return nil },
		"flags": func(*testing.T) (args []string) {
			for _, s := range settings() {
				args = append(args, "--"+s.flag()+"="+asText(values[s.key]))
			}
			return args
		},
		"variables": func(t *testing.T) []string {
			for _, s := range settings() {
				t.Setenv(s.env(), asText(values[s.key]))
			}
			return nil
		},
		"none of anything": func(t *testing.T) []string {
			for _, name := range []string{"REDIS_ADDRS", "ZOOKEEPER_HOSTS", "MYSQL_DSN", "LAB"} {
				t.Setenv(envPrefix+name, "")
			}
			return nil
		},
	}
	for _, format := range []string{"yaml", "toml", "json"} {
		ways[format] = func(t *testing.T) []string {
			return []string{"--config", file(t, "stock."+format, asFile(t, format, values))}
		}
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			args := way(t)
			want := mustConfigure(t, args...)
			out, _, err := run(t.Context(), append([]string{"config"}, args...)...)
			if err != nil {
				t.Fatal(err)
			}
			bare(t)
			got := mustConfigure(t, "--config", file(t, "printed.yaml", out))
			for _, s := range settings() {
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
			again, _, err := run(t.Context(), "config", "--config", file(t, "printed.yaml", out))
			if err != nil || again != out {
				t.Errorf("printed once more (%v):\n%s\nthan:\n%s", err, again, out)
			}
		})
	}
}
