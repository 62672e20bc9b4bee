package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

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
	ensemble, err := parseEnsemble(c.Hosts)
	if err != nil {
		return fmt.Errorf("zookeeper.hosts: %w", err)
	}
	config := zklock.Config{
		Hosts: ensemble.hosts, Credentials: ensemble.users, Root: c.Root, SessionTimeout: c.SessionTimeout,
		ConnectTimeout: max(c.SessionTimeout/10, time.Second), Logger: a.log, Called: a.traces.ZooKeeper(),
		CreatorOnly: c.ACL == creatorACL || c.ACL == "" && len(ensemble.users) > 0,
	}
	if ensemble.secure {
		secure, err := a.serverTLS()
		if err != nil {
			return err
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: config.ConnectTimeout}, Config: secure}
		config.Dialer = dialer.DialContext
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

// An ensemble is what zookeeper.hosts says.
type ensemble struct {
	hosts  []string // host:port
	users  []string // user:password, of the scheme digest; several while they are rotated
	secure bool     // reached over TLS
}

// parseEnsemble splits items such as "tls://user:password@host:port". tls:// before one is for all, and so are users,
// which may stand before any. The error does not quote an item, which may have a password.
func parseEnsemble(items []string) (e ensemble, err error) {
	for _, item := range items {
		rest, secure := strings.CutPrefix(item, "tls://")
		e.secure = e.secure || secure
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			user, _, _ := strings.Cut(rest[:at], ":")
			if user == "" || user == rest[:at] {
				return ensemble{}, errors.New("has something before an @ that is not user:password")
			}
			e.users = append(e.users, rest[:at])
			rest = rest[at+1:]
		}
		if isAddress(rest) != nil {
			return ensemble{}, errors.New("has an item that is not [tls://][user:password@]host:port")
		}
		e.hosts = append(e.hosts, rest)
	}
	return e, nil
}
