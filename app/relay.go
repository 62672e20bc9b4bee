package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
	"example.com/stock/service/strategy"
)

// Sinks of the setting relay.sink.
const (
	sinkStreams = "streams"
	sinkWebhook = "webhook"
)

// relayKey returns the key of the relay's lock for a store. No SKU contains a "#".
func relayKey(store string) string { return "relay#" + store }

// relayLocks returns the names of the locks that can protect a relay. They must be renewed, because a relay holds its
// lock for a minute, and have fencing tokens.
func relayLocks() (names []string) {
	for _, s := range AllLocks() {
		if s.Promise.Fenced && s.Promise.Blocking {
			names = append(names, s.Name)
		}
	}
	return names
}

// relayNeeds reports whether the relay needs this server in addition to the store.
func (c *Config) relayNeeds(server string) bool {
	if c.Relay.Sink == sinkStreams && server == strategy.Redis {
		return true
	}
	s, err := FindLock(c.Relay.Lock)
	return err == nil && slices.Contains(s.Needs, server)
}

func (c *Config) webhookSecrets() []string {
	secrets, _ := list(c.Relay.WebhookSecrets)
	return secrets
}

// parseWebhookSecrets returns the keys of secrets with commas between them.
func parseWebhookSecrets(text string) (keys [][]byte, err error) {
	secrets, _ := list(text)
	return relay.ParseSecrets(secrets)
}

// checkRelay returns an error for every setting that an enabled relay lacks. It does not check the form of secrets,
// which openSink does, because a printed configuration, with masked secrets, must be valid, too.
func (c *Config) checkRelay() (bad []error) {
	switch {
	case c.Relay.Sink == sinkStreams && len(c.Redis.Addrs) == 0:
		bad = append(bad, wrong("relay.sink", "needs", "value", sinkStreams, "key", "redis.addrs"))
	case c.Relay.Sink == sinkWebhook && c.Relay.WebhookURL == "":
		bad = append(bad, wrong("relay.sink", "needs", "value", sinkWebhook, "key", "relay.webhook_url"))
	case c.Relay.Sink == sinkWebhook && len(c.webhookSecrets()) == 0:
		bad = append(bad, wrong("relay.sink", "secrets"))
	}
	return bad
}

// books has the methods of a ledger that the relay and stock relay need.
type books interface {
	order.Outbox
	order.Book
	order.DeadLetters
}

// openLedger opens the ledger of the default store, on separate connections, so that the relay and the sales do not
// wait for each other.
func (a *App) openLedger() (books, error) {
	if a.cfg.Store == strategy.Redis {
		if len(a.cfg.Redis.Addrs) == 0 {
			return nil, isEmpty("redis.addrs", "redis-addrs", "STOCK_REDIS_ADDRS")
		}
		client, err := a.relayRedis()
		if err != nil {
			return nil, err
		}
		return ledger.NewRedis(repo.NewRedis(client))
	}
	if a.cfg.MySQL.DSN == "" {
		return nil, isEmpty("mysql.dsn", "mysql-dsn", "STOCK_MYSQL_DSN")
	}
	before, err := a.beforeMySQL()
	if err != nil {
		return nil, err
	}
	only := repo.Pool{Open: relayConnections, Idle: 1, Before: before, New: a.traces.SQL()}
	db, connections, err := pool(repo.OpenMySQL(a.cfg.MySQL.DSN, only))
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, connections.Close)
	return ledger.NewMySQL(repo.NewMySQL(db)), nil
}

// relayConnections limits a relay's connections to MySQL. A relay that waits for its lock uses none.
const relayConnections = 8

// buildRelay returns the relay. The servers of its lock must be open.
func (a *App) buildRelay() (*relay.Relay, error) {
	books, err := a.openLedger()
	if err != nil {
		return nil, err
	}
	sink, err := a.openSink()
	if err != nil {
		return nil, err
	}
	s, err := FindLock(a.cfg.Relay.Lock)
	if err != nil {
		return nil, fmt.Errorf("relay.lock: %w", err)
	}
	servers := a.servers
	servers.PlainLocks = true // one contender in this process
	servers.LeaseTime = 0     // no fixed lease: the relay's term is longer
	l, err := (&Locks{&App{servers: servers, backends: a.backends}}).Open(s)
	if err != nil {
		return nil, fmt.Errorf("relay.lock: %w", err)
	}
	if c, ok := l.(interface{ Close() error }); ok {
		a.closers = append(a.closers, c.Close)
	}
	counts := a.metrics.Relay()
	return relay.New(relay.Config{
		Outbox: books, Book: books, Dead: books, Sink: sink,
		Lock: l, Key: relayKey(a.cfg.Store), Owner: a.cfg.Instance,
		Parallel: a.cfg.Relay.Parallel, Attempts: a.cfg.Relay.Attempts,
		Term: min(time.Minute, a.cfg.Lock.MaxHold/2), Log: a.log.With("part", "relay"),
		Observer: relay.Observer{
			Active: counts.Active, Delivered: counts.Delivered, Failed: counts.Failed,
			Deliver: a.traces.Deliver(a.cfg.Relay.Sink),
			Lag:     func(l relay.Lag) { counts.Lag(l.Undelivered, l.Oldest, l.Parked) },
		},
	}), nil
}

func (a *App) openSink() (relay.Sink, error) {
	c := a.cfg.Relay
	if c.Sink == sinkWebhook {
		keys, err := reread(a, "relay.webhook_secrets", c.WebhookSecrets, parseWebhookSecrets)
		if err != nil {
			return nil, err
		}
		options := relay.WebhookOptions{
			URL: c.WebhookURL, Keys: keys, AllowInternal: c.WebhookInternal,
			Timeout: c.WebhookTimeout, Log: a.log.With("part", "relay"), Traceparent: a.traces.Traceparent(),
		}
		if secure, err := a.dialer("relay.webhook_tls.", c.WebhookTLS, 0); err != nil {
			return nil, err
		} else if secure != nil {
			options.TLS = secure.Client
		}
		w, err := relay.NewWebhook(options)
		if err != nil {
			return nil, fmt.Errorf("relay.webhook_url, relay.webhook_secrets: %w", err)
		}
		a.closers = append(a.closers, w.Close)
		return w, nil
	}
	client, err := a.relayRedis()
	if err != nil {
		return nil, err
	}
	return relay.NewStreams(client, a.log), nil
}

// relayRedis returns a Redis client for the relay alone, because each SKU that is being delivered needs a connection.
func (a *App) relayRedis() (redis.UniversalClient, error) {
	c := a.cfg.Redis
	options, err := a.redisOptions()
	if err != nil {
		return nil, err
	}
	options.Addrs, options.MasterName, options.IsClusterMode = c.Addrs, c.MasterName, c.Cluster
	options.DB, options.SentinelPassword, options.PoolSize = c.DB, c.SentinelPassword, a.cfg.Relay.Parallel+2
	client := redis.NewUniversalClient(&options)
	a.traces.Redis(client)
	a.closers = append(a.closers, client.Close)
	return client, nil
}

// startRelay runs the relay, if there is one, until ctx ends or stop is called. stop waits for its end.
func (a *App) startRelay(ctx context.Context) (stop func()) {
	if a.relay == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.relay.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// A Relay is a relay outside an instance, for "stock relay".
type Relay struct{ app *App }

// OpenRelay opens the clients of a relay. It waits for no server. The caller must call Run, which closes them.
func OpenRelay(cfg Config, version string, log *slog.Logger) (*Relay, error) {
	if err := errors.Join(cfg.checkRelay()...); err != nil {
		return nil, err
	}
	a := newApp(cfg, version, log)
	if err := a.openTraces(); err != nil {
		return nil, err
	}
	s, err := FindLock(cfg.Relay.Lock)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("relay.lock: %w", err), a.close())
	}
	for _, server := range a.openers() { // ledger and sink have separate connections
		if !slices.Contains(s.Needs, server.name) {
			continue
		}
		if err := server.open(); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	if a.relay, err = a.buildRelay(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return &Relay{a}, nil
}

// Run relays until ctx ends, and closes the clients.
func (r *Relay) Run(ctx context.Context) error {
	r.app.log.Info("relaying", "sink", r.app.cfg.Relay.Sink, "lock", r.app.cfg.Relay.Lock)
	r.app.relay.Run(ctx)
	return r.app.close()
}
