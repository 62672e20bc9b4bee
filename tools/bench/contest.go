package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo"
)

// A contest holds the servers and what is known of this computer.
type contest struct {
	settings settings
	servers  *server.Stack
	slow     map[server.Kind]*wire.Proxy // that delay
	redis    *redis.Client               // past the delay
	db       *gorm.DB
	missing  map[string]string // entrants that cannot run here, with the reason
	versions []string
	cells    int
	began    time.Time
}

func openContest(ctx context.Context, s settings) (c *contest, err error) {
	c = &contest{settings: s, slow: map[server.Kind]*wire.Proxy{}, missing: map[string]string{}, began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.servers, err = server.Start(ctx, server.Options{Want: c.wanted(), Progress: tell}); err != nil {
		return nil, err
	}
	if err := c.openServers(ctx); err != nil {
		return nil, err
	}
	for _, e := range beside(entrants(), s.beside) {
		if !s.only.MatchString(e.name) {
			continue
		}
		for _, kind := range e.needs() {
			if server := c.servers.Server(string(kind)); server == nil || server.StandIn != "" {
				c.missing[e.name] = fmt.Sprintf("%s is not installed", kind)
			}
		}
	}
	return c, nil
}

// wanted returns the servers that the entrants need.
func (c *contest) wanted() []server.Kind {
	kinds := []server.Kind{server.Redis} // counters and the limit are there
	for _, kind := range []server.Kind{server.ZooKeeper, server.MySQL} {
		for _, e := range entrants() {
			if e.server == kind && c.settings.only.MatchString(e.name) {
				kinds = append(kinds, kind)
				break
			}
		}
	}
	return kinds
}

func (c *contest) openServers(ctx context.Context) error {
	for _, kind := range []server.Kind{server.Redis, server.ZooKeeper} {
		server := c.servers.Server(string(kind))
		if server == nil || server.StandIn != "" {
			continue
		}
		proxy, err := wire.Listen(server.Addr, wire.Protocol{})
		if err != nil {
			return err
		}
		proxy.Slow(c.settings.delay / 2)
		c.slow[kind] = proxy
	}
	if server := c.servers.Server(string(server.Redis)); server != nil {
		c.redis = redis.NewClient(&redis.Options{Addr: server.Addr})
	}
	if server := c.servers.Server(string(server.MySQL)); server != nil {
		var err error
		if c.db, err = repo.OpenMySQL(server.URL, repo.Pool{}); err != nil {
			return err
		}
		m, err := repo.NewMigrator(c.db)
		if err != nil {
			return err
		}
		if _, err := m.Up(ctx); err != nil {
			return err
		}
	}
	c.versions = append(c.versions, c.serverVersions(ctx)...)
	return nil
}

func (c *contest) close() error {
	var errs []error
	if c.redis != nil {
		errs = append(errs, c.redis.Close())
	}
	for _, proxy := range c.slow {
		errs = append(errs, proxy.Close())
	}
	if c.servers != nil {
		errs = append(errs, c.servers.Stop())
	}
	return errors.Join(errs...)
}

// addr returns the address of a server for a worker, or "" if there is none.
func (c *contest) addr(kind server.Kind, delayed bool) string {
	if proxy := c.slow[kind]; delayed && proxy != nil {
		return proxy.Addr()
	}
	if server := c.servers.Server(string(kind)); server != nil {
		return server.URL
	}
	return ""
}
