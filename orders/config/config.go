// Package config reads the settings: from a file, and from the environment, which counts more. Only this package knows
// viper.
package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// Config has every setting.
type Config struct {
	Instance string
	HTTP     struct {
		Address, Operators string
		Most               int
		Drain              time.Duration
	}
	Log   struct{ Level, Format string }
	MySQL struct {
		DSN         string
		Connections int
		Migrate     bool
	}
	Auth         struct{ Issuer, Audience, KeysURL, Secret string }
	Reservations struct{ Open, Units int }
	Keys         struct{ Keep time.Duration }
	Outbox       struct {
		Sink, Redis, Stream string
		MaxLength           int
		WebhookURL          string
		WebhookSecrets      []string
		Private             bool
	}
	Traces struct{ Endpoint string }
}

// A Setting is one of them. What it is now is in its field.
type Setting struct {
	row
	Source string // what it comes from
}

type row struct {
	Key      string       // in the file; ORDERS_ and the key in capitals in the environment
	field    any          // a pointer
	standard any          // what it is by default
	check    func() error // what it may be
	About    string
}

// settings returns them all, with their defaults, and with checks that need no other setting.
func (c *Config) settings() []Setting {
	name, err := os.Hostname()
	if err != nil {
		name = "orders"
	}
	rows := []row{
		{
			"instance", &c.Instance, name, pattern(&c.Instance, `^[!-~]{1,64}$`),
			"The name of this instance, in the header X-Instance and in traces. By default that of the host",
		},
		{"http.address", &c.HTTP.Address, ":8080", address(&c.HTTP.Address), "Where customers are served"},
		{
			"http.operators", &c.HTTP.Operators, ":8081", address(&c.HTTP.Operators),
			"Where operators are served: /livez, /readyz, /metrics, /version. Not for the public",
		},
		{
			"http.most", &c.HTTP.Most, 256, within(&c.HTTP.Most, 1, 100_000),
			"Requests at a time. Those beyond it are refused at once",
		},
		{
			"http.drain", &c.HTTP.Drain, 5 * time.Second, within(&c.HTTP.Drain, 0, 10*time.Minute),
			"When it is told to stop, how long it still serves and is not ready, so that load balancers notice." +
				" Then requests have 20s to end",
		},
		{"log.level", &c.Log.Level, "info", oneOf(&c.Log.Level, "debug", "info", "warn", "error"), "What is logged"},
		{"log.format", &c.Log.Format, "json", oneOf(&c.Log.Format, "json", "text"), "How it is logged"},
		{
			"mysql.dsn", &c.MySQL.DSN, "", c.dsn,
			"MySQL or MariaDB, such as user:password@tcp(host:3306)/orders",
		},
		{
			"mysql.connections", &c.MySQL.Connections, 40, within(&c.MySQL.Connections, 2, 10_000),
			"Connections that customers' requests share. The instance has up to 4 more",
		},
		{
			"mysql.migrate", &c.MySQL.Migrate, false, anything,
			"Bring the schema up to date at the start, as orders migrate does",
		},
		{
			"auth.issuer", &c.Auth.Issuer, "", link(&c.Auth.Issuer, "http", "https"),
			"The issuer of tokens, exactly as it calls itself, such as https://id.example.com/",
		},
		{"auth.audience", &c.Auth.Audience, "", anything, "What a token must be for (aud)"},
		{
			"auth.keys_url", &c.Auth.KeysURL, "", link(&c.Auth.KeysURL, "http", "https"),
			"Where the issuer's keys are. By default where it says: .well-known/openid-configuration",
		},
		{
			"auth.secret", &c.Auth.Secret, "", c.secretLength,
			"For development, without an issuer: what tokens are signed with, at least 32 bytes",
		},
		{
			"reservations.open", &c.Reservations.Open, 20, within(&c.Reservations.Open, 0, 1_000_000),
			"Open reservations of one customer. 0: no limit",
		},
		{
			"reservations.units", &c.Reservations.Units, 200, within(&c.Reservations.Units, 0, 1_000_000_000),
			"Units in them, of all SKUs. 0: no limit",
		},
		{
			"keys.keep", &c.Keys.Keep, 24 * time.Hour, within(&c.Keys.Keep, time.Minute, 365*24*time.Hour),
			"How long idempotency keys are kept. The contract says 24 hours",
		},
		{
			"outbox.sink", &c.Outbox.Sink, "none", oneOf(&c.Outbox.Sink, "none", "redis", "webhook"),
			"Where every movement of stock is sent",
		},
		{
			"outbox.redis", &c.Outbox.Redis, "", link(&c.Outbox.Redis, "redis", "rediss"),
			"Redis, such as rediss://user:password@host:6379/0",
		},
		{
			"outbox.stream", &c.Outbox.Stream, "orders", pattern(&c.Outbox.Stream, `^[!-~]{1,200}$`),
			"The stream in Redis",
		},
		{
			"outbox.max_length", &c.Outbox.MaxLength, 1_000_000, within(&c.Outbox.MaxLength, 0, 1_000_000_000),
			"The length that Redis trims the stream to, roughly. 0: it never does",
		},
		{
			"outbox.webhook_url", &c.Outbox.WebhookURL, "", link(&c.Outbox.WebhookURL, "http", "https"),
			"Where the webhook is",
		},
		{
			"outbox.webhook_secrets", &c.Outbox.WebhookSecrets, []string(nil), c.webhookSecrets,
			"What requests to it are signed with: whsec_ and 24 to 64 bytes in base64. Two while they change",
		},
		{
			"outbox.private", &c.Outbox.Private, false, anything,
			"The webhook may be in a private network. Otherwise such addresses are refused",
		},
		{
			"traces.endpoint", &c.Traces.Endpoint, "", link(&c.Traces.Endpoint, "http", "https"),
			"Where traces are sent by OTLP over HTTP, such as http://collector:4318. Empty: nowhere",
		},
	}
	all := make([]Setting, len(rows))
	for i, r := range rows {
		all[i].row = r
	}
	return all
}

// secret says whether the value is never printed.
func (s *Setting) secret() bool {
	switch s.Key {
	case "mysql.dsn", "auth.secret", "outbox.redis", "outbox.webhook_url", "outbox.webhook_secrets":
		return true
	}
	return false
}

// NeedsDatabase returns what a command lacks that only uses the database.
func (c *Config) NeedsDatabase() error {
	if c.MySQL.DSN == "" {
		return errors.New("mysql.dsn (ORDERS_MYSQL_DSN): it is empty, and nothing goes without a database")
	}
	return nil
}

// NeedsAll returns what lacks or contradicts itself, if this is to serve.
func (c *Config) NeedsAll() error {
	a, o := c.Auth, c.Outbox
	bad := []error{c.NeedsDatabase()}
	must := func(fails bool, text string) {
		if fails {
			bad = append(bad, errors.New(text))
		}
	}
	must(a.Issuer == "" && a.Secret == "", "auth.issuer: it is empty (for development, auth.secret does instead)")
	must(a.Issuer != "" && a.Secret != "", "auth.secret: there is auth.issuer, too, and either could sign tokens")
	must(a.Issuer != "" && a.Audience == "", "auth.audience: it is empty, so tokens for other services would be valid")
	must(a.Issuer == "" && a.KeysURL != "", "auth.keys_url: there is no auth.issuer")
	must(o.Sink == "redis" && o.Redis == "", "outbox.redis: it is empty, and outbox.sink is redis")
	must(o.Sink == "webhook" && o.WebhookURL == "", "outbox.webhook_url: it is empty, and outbox.sink is webhook")
	must(o.Sink == "webhook" && len(o.WebhookSecrets) == 0, "outbox.webhook_secrets: none, and outbox.sink is webhook")
	must(c.HTTP.Address == c.HTTP.Operators, "http.operators: it is the same as http.address")
	return errors.Join(bad...)
}

func (c *Config) dsn() error {
	// The driver's own errors can have a part of it.
	if like := regexp.MustCompile(`^.+@(tcp|unix)\(.+\)/[^/]+$`); c.MySQL.DSN != "" && !like.MatchString(c.MySQL.DSN) {
		return errors.New("must be such as user:password@tcp(host:3306)/orders")
	}
	return nil
}

func (c *Config) secretLength() error {
	if n := len(c.Auth.Secret); n > 0 && n < 32 {
		return fmt.Errorf("has %d bytes, and must have at least 32", n)
	}
	return nil
}

func (c *Config) webhookSecrets() error {
	for i, secret := range c.Outbox.WebhookSecrets {
		text, prefixed := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if !prefixed || err != nil || len(key) < 24 || len(key) > 64 {
			return fmt.Errorf("number %d must be whsec_ and 24 to 64 bytes in base64", i+1)
		}
	}
	return nil
}
