package app

import (
	"fmt"
	"slices"
	"strings"

	"example.com/stock/app/credentials"
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
	secure, err := a.client("zookeeper.tls.", c.TLS)
	if err != nil {
		return err
	}
	config := zklock.Config{
		Hosts: c.Hosts, SessionTimeout: c.SessionTimeout, ConnectTimeout: c.ConnectTimeout, Root: c.Root, Logger: a.log,
		Credentials: a.cfg.zookeeperUsers(), CreatorOnly: a.cfg.ownNodes(), Called: a.traces.ZooKeeper(),
	}
	if secure != nil {
		config.Dialer = credentials.Dialer{Config: secure, Timeout: c.ConnectTimeout}.DialContext
	}
	session, err := zklock.Dial(config)
	if err != nil {
		return fmt.Errorf("open zookeeper: %w", err)
	}
	a.servers.ZooKeeper = session
	a.closers = append(a.closers, func() error { session.Close(); return nil })
	a.backends[strategy.ZooKeeper] = health.New(strategy.ZooKeeper, session.Check)
	return nil
}

// Values of the setting zookeeper.acl.
const (
	worldACL   = "world"
	creatorACL = "creator"
)

// ownNodes reports whether the nodes that we create belong to us alone.
func (c *Config) ownNodes() bool {
	return c.ZooKeeper.ACL == creatorACL || c.ZooKeeper.ACL == "" && c.ZooKeeper.Credentials != ""
}

func (c *Config) zookeeperUsers() []string {
	users, _ := list(c.ZooKeeper.Credentials)
	return users
}

// checkNodes returns an error for every key that says who our nodes in ZooKeeper belong to.
func (c *Config) checkNodes() (bad []error) {
	z := &c.ZooKeeper
	if !slices.Contains([]string{"", worldACL, creatorACL}, z.ACL) {
		list := worldACL + ", " + creatorACL
		bad = append(bad, wrong("zookeeper.acl", "none-of", "value", quote(z.ACL), "list", list))
	}
	if z.ACL == creatorACL && z.Credentials == "" && z.TLS.Cert == "" {
		bad = append(bad, wrong("zookeeper.acl", "no-creator"))
	}
	for _, one := range c.zookeeperUsers() {
		if user, _, found := strings.Cut(one, ":"); !found || user == "" {
			bad = append(bad, wrong("zookeeper.credentials", "digest")) // not quoted: it is secret
			break
		}
	}
	return bad
}
