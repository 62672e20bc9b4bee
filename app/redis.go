package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"example.com/stock/app/health"
	"example.com/stock/internal/redisurl"
	"example.com/stock/lock/redislock"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// Connections of a pool, and operations that wait for one before further ones get 503 overloaded.
const (
	redisPool  = 64
	redisQueue = 2048
)

// redisOptions returns the options of the clients of a Redis.
func (a *App) redisOptions(url string) (*redis.UniversalOptions, error) {
	o, err := redisurl.Parse(url)
	if err != nil {
		return nil, err
	}
	o.PoolSize = cmp.Or(o.PoolSize, redisPool)
	// Without this option a command ignores the deadline of its context, and waits for a silent server for ReadTimeout.
	o.ContextTimeoutEnabled = true
	// With RESP3 the client checks for push messages before each command, which takes 6 % of a sale's time. This
	// service uses no push messages.
	o.Protocol = 2
	// A retry after a lost reply would run a script twice. Callers retry where a retry is safe.
	o.MaxRetries = -1
	limit := a.cfg.Redis.Timeout
	o.DialTimeout, o.DialerRetries = limit/2, 1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = limit, limit, limit
	if o.TLSConfig != nil {
		secure, err := a.serverTLS()
		if err != nil {
			return nil, err
		}
		// The client's own dialer would check each node against the host of the URL.
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: o.DialTimeout}, Config: secure}
		o.TLSConfig, o.Dialer = nil, dialer.DialContext
	}
	return &o, nil
}

func (a *App) openRedis() error {
	if a.cfg.Redis.URL == "" {
		a.withoutStore(strategy.Redis, "redis-not-configured")
		return nil
	}
	options, err := a.redisOptions(a.cfg.Redis.URL)
	if err != nil {
		return fmt.Errorf("redis.url: %w", err)
	}
	// Locks, store and health probe have separate pools. So a wait for a connection of the locks does not make the
	// store look slow, and each request that the queue in front of the store admits gets a connection.
	locks, sales := redis.NewUniversalClient(options), redis.NewUniversalClient(options)
	a.traces.Redis(locks)
	a.traces.Redis(sales)
	a.servers.Redis = locks
	a.closers = append(a.closers, locks.Close, sales.Close)
	probe, ping := a.redisProbe(options, locks, sales)
	connections := options.PoolSize
	if options.IsClusterMode {
		connections *= max(3, len(options.Addrs)) // each node has a pool, and a hung node must not fill the queue
	}
	queue := repo.NewQueue(connections, redisQueue)
	a.metrics.Queue(strategy.Redis, queue.Load)
	a.addStore(store{
		name: strategy.Redis, parts: options.IsClusterMode, ping: ping,
		sales: stock.NewRedis(repo.NewRedis(sales).Behind(queue)),
		data: service.NewDataCheck(service.DataCheckConfig{
			Name: strategy.Redis, Origins: stock.NewRedis(repo.NewRedis(probe)),
			Seed: service.SKU(a.cfg.Seed.SKU), Quantity: int64(a.cfg.Seed.Quantity),
			Changed: func(bad error) { a.dataChanged(strategy.Redis, bad) },
		}),
	})
	return nil
}

// redisProbe returns the health check and its client, which also checks the store's data. The client is separate, so
// that the check works even if the other pools are busy. It uses one connection, but its pool is larger, because
// go-redis stops dialing for a second after as many failed dials as the pool has connections.
//
// For the same reason, one of pools may still refuse requests when the probe already succeeds. So the check also sends
// a request through each of pools; see through.
func (a *App) redisProbe(
	options *redis.UniversalOptions, pools ...redis.UniversalClient,
) (redis.UniversalClient, func(context.Context) error) {
	probe := redis.NewUniversalClient(options)
	a.closers = append(a.closers, probe.Close)
	if cluster, is := probe.(*redis.ClusterClient); is {
		return probe, clusterCheck(cluster)
	}
	asked := repo.NewRedis(probe)
	check := through(asked.CanWrite, pools)
	return probe, func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			return err
		}
		return evicts(asked.Evicts(ctx))
	}
}

// evicts returns the warning about a Redis with this policy of eviction, or nil for "". A lock, a fence or an
// idempotency key that was evicted is gone without a word, and its holder works on.
func evicts(policy string) error {
	if policy == "" {
		return nil
	}
	why := phrases.Error("evicts", "policy", policy)
	return &health.ImpairedError{Reason: why.Error(), Cause: why}
}

// poolTime limits how long the probe waits for a connection of each pool and for the reply on this connection.
const poolTime = health.Timeout / 4

// through returns a check that runs check, and also fails if the pool of a client cannot connect. It sends a PING
// through all clients at once. A pool that is only busy or slow does not fail the check. The check takes at most
// poolTime longer than check.
func through(check func(context.Context) error, clients []redis.UniversalClient) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, poolTime)
		defer cancel()
		refused := make([]error, len(clients))
		var all sync.WaitGroup
		for i, client := range clients {
			all.Go(func() {
				err := client.Ping(short).Err()
				busy := errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
				if err != nil && !busy && !isSlow(err) && short.Err() == nil {
					refused[i] = repo.RedisFault(short, "ask a pool", "", err)
				}
			})
		}
		all.Wait()
		return errors.Join(refused...)
	}
}

// openRedlock opens the independent masters of redlock. The backend is up while a majority of distinct masters answers.
func (a *App) openRedlock() error {
	c := a.cfg.Redlock
	if len(c.URLs) == 0 {
		a.backends[strategy.Redlock] = health.Absent(strategy.Redlock, "redlock-not-configured")
		return nil
	}
	var probes []*redis.Client // separate connections, as in redisProbe
	for _, url := range c.URLs {
		options, err := a.redisOptions(url)
		if err != nil {
			return fmt.Errorf("redlock.urls: %w", err)
		}
		node, probe := redis.NewClient(options.Simple()), redis.NewClient(options.Simple())
		a.traces.Redis(node)
		probes = append(probes, probe)
		a.servers.Redlock = append(a.servers.Redlock, node)
		a.closers = append(a.closers, node.Close, probe.Close)
	}
	a.servers.RedlockLease, a.servers.RedlockQuarantine = c.Lease, c.Quarantine
	a.servers.RedlockNodeTimeout = c.NodeTimeout
	quarantine := cmp.Or(c.Quarantine, c.Lease) // as in the lock: a node in quarantine is not up
	logged := false                             // in replies the nodes have numbers; only the log has their addresses
	a.backends[strategy.Redlock] = health.New(strategy.Redlock, func(ctx context.Context) error {
		err := redislock.CheckMasters(ctx, probes, quarantine)
		if err != nil && !logged && !errors.Is(ctx.Err(), context.Canceled) {
			a.log.Warn("redlock has no majority", "err", err)
		}
		logged = err != nil
		return err
	})
	return nil
}
