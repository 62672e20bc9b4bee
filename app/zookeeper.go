package app

import (
	"fmt"

	"example.com/stock/app/health"
	"example.com/stock/lock/zklock"
	"example.com/stock/service/strategy"
)

func (a *App) openZooKeeper() error {
	c := a.cfg.ZooKeeper
	if len(c.Hosts) == 0 {
		a.backends[strategy.ZooKeeper] = health.Absent(strategy.ZooKeeper, "zookeeper-not-configured")
		return nil
	}
	secure, err := a.wire("zookeeper.tls.", c.TLS, c.ConnectTimeout)
	if err != nil {
		return err
	}
	_ = secure
	session, err := zklock.Dial(zklock.Config{
		Hosts: c.Hosts, SessionTimeout: c.SessionTimeout, ConnectTimeout: c.ConnectTimeout, Root: c.Root, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("open zookeeper: %w", err)
	}
	a.servers.ZooKeeper = session
	a.closers = append(a.closers, func() error { session.Close(); return nil })
	a.backends[strategy.ZooKeeper] = health.New(strategy.ZooKeeper, session.Check)
	return nil
}
