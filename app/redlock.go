package app

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"example.com/stock/app/health"
	"example.com/stock/lock/redislock"
	"example.com/stock/service/strategy"
)

// openRedlock opens the independent masters of redlock. The backend is up while a majority of distinct masters answers.
func (a *App) openRedlock() error {
	c := a.cfg.Redlock
	if len(c.Addrs) == 0 {
		a.backends[strategy.Redlock] = health.Absent(strategy.Redlock,
			"redlock-not-configured")
		return nil
	}
	shared := a.redisOptions()
	var probes []redis.UniversalClient // separate connections, as in redisProbe
	for _, addr := range c.Addrs {
		options := shared.Simple()
		options.Addr = addr
		node, probe := redis.NewClient(options), redis.NewClient(options)
		probes = append(probes, probe)
		a.servers.Redlock = append(a.servers.Redlock, node)
		a.closers = append(a.closers, node.Close, probe.Close)
	}
	a.servers.RedlockLease, a.servers.RedlockQuarantine = c.Lease, c.Quarantine
	a.servers.RedlockNodeTimeout = c.NodeTimeout
	quarantine := cmp.Or(c.Quarantine, c.Lease) // as in the lock: a node in quarantine is not up
	logged := false                             // replies number the nodes; only the log has their addresses
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
