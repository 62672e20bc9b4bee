// Package config reads the settings: from a file, and from the environment, which counts more. Only this package knows
// viper.
package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
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

// A Setting is one of them. What it is now is in the field.
type Setting struct {
	Key    string // in the file; ORDERS_ and the key in capitals in the environment
	About  string
	Source string // what it comes from

	field    any // a pointer
	standard any
	secret   bool
	check    func() error // nil: every value of the type will do
}

// settings returns them all, with their defaults, and with checks that need no other setting.
func (c *Config) settings() []Setting {
	name, err := os.Hostname()
	if err != nil {
		name = "orders"
	}
	return []Setting{
		{
			Key: "instance", field: &c.Instance, standard: name, check: c.instanceName,
			About: "The name of this instance, in the header X-Instance and in traces. By default that of the host",
		},
		{
			Key: "http.address", field: &c.HTTP.Address, standard: ":8080", check: address(&c.HTTP.Address),
			About: "Where customers are served",
		},
		{
			Key: "http.operators", field: &c.HTTP.Operators, standard: ":8081", check: address(&c.HTTP.Operators),
			About: "Where operators are served: /livez, /readyz, /metrics, /version. Not for the public",
		},
		{
			Key: "http.most", field: &c.HTTP.Most, standard: 256, check: within(&c.HTTP.Most, 1, 100_000),
			About: "Requests at a time. Those beyond it are refused at once",
		},
		{
			Key: "http.drain", field: &c.HTTP.Drain, standard: 5 * time.Second,
			check: within(&c.HTTP.Drain, 0, 10*time.Minute),
			About: "How long it still serves, and is not ready, when it is told to stop, so that load balancers notice." +
				" Then requests have 20s to end",
		},
		{
			Key: "log.level", field: &c.Log.Level, standard: "info",
			check: oneOf(&c.Log.Level, "debug", "info", "warn", "error"), About: "debug, info, warn or error",
		},
		{
			Key: "log.format", field: &c.Log.Format, standard: "json", check: oneOf(&c.Log.Format, "json", "text"),
			About: "json or text",
		},
		{
			Key: "mysql.dsn", field: &c.MySQL.DSN, standard: "", secret: true, check: c.dsn,
			About: "MySQL or MariaDB, such as user:password@tcp(host:3306)/orders",
		},
		{
			Key: "mysql.connections", field: &c.MySQL.Connections, standard: 40,
			check: within(&c.MySQL.Connections, 2, 10_000),
			About: "Connections that customers' requests share. The instance has up to 4 more",
		},
		{
			Key: "mysql.migrate", field: &c.MySQL.Migrate, standard: false,
			About: "Bring the schema up to date at the start, as orders migrate does",
		},
		{
			Key: "auth.issuer", field: &c.Auth.Issuer, standard: "", check: webURL(&c.Auth.Issuer),
			About: "The issuer of tokens, exactly as it calls itself, such as https://id.example.com/",
		},
		{
			Key: "auth.audience", field: &c.Auth.Audience, standard: "",
			About: "What a token must be for (aud)",
		},
		{
			Key: "auth.keys_url", field: &c.Auth.KeysURL, standard: "", check: webURL(&c.Auth.KeysURL),
			About: "Where the issuer's keys are. By default where it says: .well-known/openid-configuration",
		},
		{
			Key: "auth.secret", field: &c.Auth.Secret, standard: "", secret: true, check: c.secretLength,
			About: "For development, without an issuer: what tokens are signed with, at least 32 bytes",
		},
		{
			Key: "reservations.open", field: &c.Reservations.Open, standard: 20,
			check: within(&c.Reservations.Open, 0, 1_000_000), About: "Open reservations of one customer. 0: no limit",
		},
		{
			Key: "reservations.units", field: &c.Reservations.Units, standard: 200,
			check: within(&c.Reservations.Units, 0, 1_000_000_000), About: "Units in them, of all SKUs. 0: no limit",
		},
		{
			Key: "keys.keep", field: &c.Keys.Keep, standard: 24 * time.Hour,
			check: within(&c.Keys.Keep, time.Minute, 365*24*time.Hour),
			About: "How long idempotency keys are kept. The contract says 24 hours",
		},
		{
			Key: "outbox.sink", field: &c.Outbox.Sink, standard: "none",
			check: oneOf(&c.Outbox.Sink, "none", "redis", "webhook"),
			About: "Where every movement of stock is sent: none, redis or webhook",
		},
		{
			Key: "outbox.redis", field: &c.Outbox.Redis, standard: "", secret: true, check: c.redisURL,
			About: "Redis, such as rediss://user:password@host:6379/0",
		},
		{
			Key: "outbox.stream", field: &c.Outbox.Stream, standard: "orders", check: c.streamName,
			About: "The stream in Redis",
		},
		{
			Key: "outbox.max_length", field: &c.Outbox.MaxLength, standard: 1_000_000,
			check: within(&c.Outbox.MaxLength, 0, 1_000_000_000),
			About: "The length that Redis trims the stream to, roughly. 0: it never does",
		},
		{
			Key: "outbox.webhook_url", field: &c.Outbox.WebhookURL, standard: "", secret: true,
			check: webURL(&c.Outbox.WebhookURL), About: "Where the webhook is",
		},
		{
			Key: "outbox.webhook_secrets", field: &c.Outbox.WebhookSecrets, standard: []string(nil), secret: true,
			check: c.webhookSecrets,
			About: "What requests to it are signed with, at least 24 bytes each. Two while they change",
		},
		{
			Key: "outbox.private", field: &c.Outbox.Private, standard: false,
			About: "The webhook may be in a private network. Otherwise such addresses are refused",
		},
		{
			Key: "traces.endpoint", field: &c.Traces.Endpoint, standard: "", check: webURL(&c.Traces.Endpoint),
			About: "Where traces are sent by OTLP over HTTP, such as http://collector:4318. Empty: nowhere",
		},
	}
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
	must(a.Issuer != "" && a.Secret != "", "auth.secret: there is auth.issuer, too, and whoever has either could sign tokens")
	must(a.Issuer != "" && a.Audience == "", "auth.audience: it is empty, so tokens for other services would be valid")
	must(a.Issuer == "" && a.KeysURL != "", "auth.keys_url: there is no auth.issuer")
	must(o.Sink == "redis" && o.Redis == "", "outbox.redis: it is empty, and outbox.sink is redis")
	must(o.Sink == "webhook" && o.WebhookURL == "", "outbox.webhook_url: it is empty, and outbox.sink is webhook")
	must(o.Sink == "webhook" && len(o.WebhookSecrets) == 0, "outbox.webhook_secrets: there is none, and outbox.sink is webhook")
	must(c.HTTP.Address == c.HTTP.Operators, "http.operators: it is the same as http.address")
	return errors.Join(bad...)
}

func (c *Config) instanceName() error {
	if c.Instance == "" || len(c.Instance) > 64 || strings.ContainsFunc(c.Instance, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return errors.New("must have 1 to 64 characters, from ! to ~")
	}
	return nil
}

func (c *Config) dsn() error {
	if _, err := mysql.ParseDSN(c.MySQL.DSN); c.MySQL.DSN != "" && err != nil {
		return errors.New("must be such as user:password@tcp(host:3306)/orders") // err may have a part of it
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
		if len(secret) < 24 {
			return fmt.Errorf("number %d has %d bytes, and must have at least 24", i+1, len(secret))
		}
	}
	return nil
}

func (c *Config) redisURL() error {
	u, err := url.Parse(c.Outbox.Redis)
	if c.Outbox.Redis != "" && (err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "") {
		return errors.New("must be such as redis://host:6379/0, or rediss:// with TLS")
	}
	return nil
}

func (c *Config) streamName() error {
	if n := len(c.Outbox.Stream); n == 0 || n > 200 {
		return errors.New("must have 1 to 200 bytes")
	}
	return nil
}
