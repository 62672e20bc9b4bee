package config_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/orders/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "orders.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t *testing.T, file string) (*config.Config, []config.Setting) {
	t.Helper()
	c, all, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return c, all
}

const (
	secret        = "a secret for tests, of 32 bytes."
	webhookSecret = "whsec_hiddenhiddenhiddenhiddenhiddenhi"
)

func TestWhereSettingsComeFrom(t *testing.T) {
	file := write(t, "http:\n  most: 7\n  drain: 1m\nlog: {level: warn}\noutbox:\n  webhook_secrets: ["+
		webhookSecret+", "+webhookSecret+"]\nmysql:\n")
	t.Setenv("ORDERS_CONFIG", file)
	t.Setenv("ORDERS_LOG_LEVEL", "error")
	t.Setenv("ORDERS_MYSQL_MIGRATE", "true")
	t.Setenv("ORDERS_AUTH_AUDIENCE", "") // as if it were absent
	t.Setenv("ORDERS_SERVICE_HOST", "10.0.0.1")
	t.Setenv("ORDERS_PORT_8080_TCP", "tcp://10.0.0.1:8080") // of Kubernetes
	c, all := load(t, "")
	if c.HTTP.Most != 7 || c.HTTP.Drain != time.Minute || c.Log.Level != "error" || !c.MySQL.Migrate ||
		c.Keys.Keep != 24*time.Hour || len(c.Outbox.WebhookSecrets) != 2 || c.HTTP.Address != ":8080" {
		t.Errorf("%+v", c)
	}
	for key, want := range map[string]string{
		"http.most": file, "log.level": "ORDERS_LOG_LEVEL", "keys.keep": "default",
	} {
		i := slices.IndexFunc(all, func(s config.Setting) bool { return s.Key == key })
		if all[i].Source != want {
			t.Errorf("%s comes from %s, want %s", key, all[i].Source, want)
		}
	}
}

// TestRefused: an error names the setting and what it may be, and no value, which may be a secret.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"mysql: {dns: private}":                     "mysql.dns: there is no such setting; the nearest is mysql.dsn",
		"htpp: {most: 1}":                           "htpp.most: there is no such setting; the nearest is http.most",
		"mysql: private":                            "mysql: there is no such setting",
		"instance: 'a b'":                           "instance (from .*): must match ^[!-~]{1,64}$",
		"http: {most: 0}":                           "http.most (from .*): must be from 1 to 100000",
		"http: {most: private}":                     "http.most (from .*): must be a whole number",
		"http: {drain: 20}":                         "http.drain (from .*): must be a time such as 20s",
		"http: {drain: 1h}":                         "http.drain (from .*): must be from 0s to 10m0s",
		"http: {address: private}":                  "http.address (from .*): must be a host and a port",
		"log: {level: private}":                     "log.level (from .*): must be one of debug, info, warn, error",
		"mysql: {migrate: 2}":                       "mysql.migrate (from .*): must be true or false",
		"mysql: {dsn: private}":                     "mysql.dsn (from .*): must be such as user:",
		"mysql: {dsn: 'private:private@private/x'}": "mysql.dsn (from .*): must be such as user:",
		"mysql: {connections: 1}":                   "mysql.connections (from .*): must be from 2 to 10000",
		"auth: {issuer: private}":                   "auth.issuer (from .*): must be such as http:// or https://host",
		"auth: {issuer: 'https://u:p@h'}":           "auth.issuer (from .*): must have no password in it",
		"auth: {secret: private}":                   "auth.secret (from .*): has 7 bytes, and must have at least 32",
		"auth: {secret: [private]}":                 "auth.secret (from .*): must be text",
		"reservations: {open: -1}":                  "reservations.open (from .*): must be from 0",
		"keys: {keep: 1s}":                          "keys.keep (from .*): must be from 1m0s",
		"outbox: {redis: private}":                  "outbox.redis (from .*): must be such as redis://",
		"outbox: {sink: private}":                   "outbox.sink (from .*): must be one of none, redis, webhook",
		"outbox: {webhook_secrets: [private]}":      "outbox.webhook_secrets (from .*): number 1 must be whsec_ and 24",
		"traces: {endpoint: 'private:43'}":          "traces.endpoint (from .*): must be such as http://",
	} {
		file := write(t, text)
		_, _, err := config.Load(file)
		if err == nil {
			t.Errorf("%s is taken", text)
			continue
		}
		got := strings.ReplaceAll(err.Error(), file, ".*")
		if !strings.Contains(got, want) || strings.Contains(got, "private") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if _, _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there")
	}
	t.Setenv("ORDERS_AUTH_ISUER", "https://id.example")
	if _, _, err := config.Load(""); err == nil || !strings.Contains(err.Error(), "the nearest is ORDERS_AUTH_ISSUER") {
		t.Error(err)
	}
}

func TestNeeds(t *testing.T) {
	for want, change := range map[string]func(*config.Config){
		"":              func(*config.Config) {},
		"mysql.dsn":     func(c *config.Config) { c.MySQL.DSN = "" },
		"auth.issuer":   func(c *config.Config) { c.Auth.Secret = "" },
		"auth.secret":   func(c *config.Config) { c.Auth.Issuer, c.Auth.Audience = "https://a", "b" },
		"auth.audience": func(c *config.Config) { c.Auth.Issuer, c.Auth.Secret = "https://a", "" },
		"auth.keys_url": func(c *config.Config) { c.Auth.KeysURL = "https://a" },
		"outbox.redis":  func(c *config.Config) { c.Outbox.Sink = "redis" },
		"outbox.webhook_url": func(c *config.Config) {
			c.Outbox.Sink, c.Outbox.WebhookSecrets = "webhook", []string{webhookSecret}
		},
		"outbox.webhook_secrets": func(c *config.Config) {
			c.Outbox.Sink, c.Outbox.WebhookURL = "webhook", "https://a"
		},
		"http.operators": func(c *config.Config) { c.HTTP.Operators = c.HTTP.Address },
	} {
		c, _ := load(t, write(t, "mysql: {dsn: 'a@tcp(b)/c'}\nauth: {secret: '"+secret+"'}"))
		change(c)
		err := c.NeedsAll()
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.HasPrefix(got, cmp.Or(want, "<nil>")) ||
			strings.Contains(got, "\n") {
			t.Errorf("%v, want one about %q", err, want)
		}
	}
}

// TestPrinted: what is printed has no secret, and is itself a file with the same settings.
func TestPrinted(t *testing.T) {
	t.Setenv("ORDERS_MYSQL_DSN", "u:hidden@tcp(h)/orders")
	t.Setenv("ORDERS_AUTH_SECRET", "hidden"+secret)
	t.Setenv("ORDERS_OUTBOX_REDIS", "redis://:hidden@h")
	t.Setenv("ORDERS_OUTBOX_WEBHOOK_URL", "https://h/hidden")
	t.Setenv("ORDERS_OUTBOX_WEBHOOK_SECRETS", webhookSecret)
	t.Setenv("ORDERS_HTTP_MOST", "9")
	_, all := load(t, "")
	var first, second strings.Builder
	if err := config.Print(&first, all); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(first.String(), "hidden") || strings.Count(first.String(), "***") != 5 || len(all) > 25 ||
		!strings.Contains(first.String(), "http.most: 9 # ORDERS_HTTP_MOST") {
		t.Errorf("%d settings:\n%s", len(all), &first)
	}
	for _, s := range all {
		t.Setenv("ORDERS_"+strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_")), "")
	}
	values := func(text string) []string { return value.FindAllString(text, -1) }
	_, again := load(t, write(t, strings.Join(values(first.String()), "\n")))
	if err := config.Print(&second, again); err != nil {
		t.Fatal(err)
	}
	for _, pair := range values(first.String()) {
		if !slices.Contains(values(second.String()), pair) {
			t.Errorf("%s is lost", pair)
		}
	}
}

var value = regexp.MustCompile(`(?m)^[a-z._]+: ("[^*"]*"|[^"\[ ]+)`) // which is no secret
