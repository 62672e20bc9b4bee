package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"example.com/stock/health"
	"example.com/stock/lock/redislock"
	"example.com/stock/strategy"
)

// openRedlock makes the independent masters of redlock known. They are up while a majority of distinct masters answers.
func (a *app) openRedlock() error {
	c := a.cfg.Redlock
	if len(c.Addrs) == 0 {
		a.backends[strategy.Redlock] = health.Absent(strategy.Redlock, "it is not configured: set redlock.addrs (STOCK_REDLOCK_ADDRS) to five independent masters")
		return nil
	}
	timeout := a.cfg.Redis.Timeout
	var probes []redis.UniversalClient // of connections that nothing else uses, as in redisProbe
	for _, addr := range c.Addrs {
		options := redis.Options{
			Addr: addr, Username: a.cfg.Redis.Username, Password: a.cfg.Redis.Password, PoolSize: a.cfg.Redis.PoolSize,
			ContextTimeoutEnabled: true, MaxRetries: -1, // as in openRedis
			DialTimeout: timeout / 2, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		}
		node, probe := redis.NewClient(&options), redis.NewClient(&options)
		probes = append(probes, probe)
		a.servers.Redlock = append(a.servers.Redlock, node)
		a.closers = append(a.closers, node.Close, probe.Close)
	}
	a.servers.RedlockLease, a.servers.RedlockQuarantine, a.servers.RedlockNodeTimeout = c.Lease, c.Quarantine, c.NodeTimeout
	quarantine := cmp.Or(c.Quarantine, c.Lease) // as the lock has it: what it would refuse is not up
	told := false                               // health shows the numbers of nodes, to anybody; their addresses are for the log
	a.backends[strategy.Redlock] = health.New(strategy.Redlock, func(ctx context.Context) error {
		err := redislock.CheckMasters(ctx, probes, quarantine)
		if err != nil && !told && !errors.Is(ctx.Err(), context.Canceled) {
			a.log.Warn("redlock has no majority", "err", err)
		}
		told = err != nil
		return err
	})
	return nil
}
