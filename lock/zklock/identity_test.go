package zklock

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
)

// openNodes returns root and the nodes below it that somebody without our credentials can use.
func openNodes(t testing.TB, c *zk.Conn, root string) (found []string) {
	t.Helper()
	acl, _, err := c.GetACL(root)
	must(t, unlessGone(err))
	if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "world" }) {
		found = append(found, root)
	}
	names, _, err := c.Children(root)
	must(t, unlessGone(err))
	for _, name := range names {
		found = append(found, openNodes(t, c, root+"/"+name)...)
	}
	return found
}

// Each connection begins with the credentials: after a broken one, and in the next session. Otherwise requests would be
// refused, or nodes open.
func TestCredentialsOnEachConnection(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := proxied(t, host)
	s := open(t, Config{Hosts: []string{p.Addr()}, Credentials: []string{ours, "stock:next"}, CreatorOnly: true})
	for name, breaks := range map[string]func(){
		"the connection is cut":  p.Cut,
		"the session is another": func() { s.current.Load().oversleep() },
	} {
		lease := acquire(t, NewSequential(s))
		before := s.current.Load().now().link
		breaks()
		locktest.Eventually(t, "another connection", func() bool {
			return s.current.Load().now().link != before && s.isConnected()
		})
		if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Errorf("release after %s: %v", name, err)
		}
	}
	defer locktest.Release(t, acquire(t, NewSequential(s)))
	if found := openNodes(t, raw(t, host), rootOf(t)); len(found) > 0 {
		t.Errorf("open: %v", found)
	}
}

// A server greets, and serves nothing: it demands an identity, does not accept ours, or closes each connection without
// a word. That is no connection. The log has one line of it in a minute, which names the credentials, and callers learn
// the reason.
func TestAServerThatOnlyGreets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		trap        wire.Trap
		credentials []string
		says, logs  string
	}{
		{wire.Trap{Match: afterGreeting, Do: wire.Cut}, nil, "no-session", "closes the connection"},
		{
			wire.Trap{Match: afterGreeting, Do: wire.Answer, Answer: refusal(-124)},
			nil,
			"wants-authentication", "demands authentication",
		},
		{ // as a server without the scheme digest does
			wire.Trap{Match: is(opAuth), Do: wire.Answer, Answer: refusal(-115)},
			[]string{ours},
			"wants-authentication", "does not accept credentials",
		},
	} {
		p := proxied(t, Servers.ZooKeeper(t))
		row.trap.Every = true
		deaf := p.Set(row.trap)
		var log logged
		began := time.Now()
		s := begin(t, Config{
			Hosts: []string{p.Addr()}, Credentials: row.credentials, Logger: log.logger(),
			ConnectTimeout: time.Second,
		})
		log.must(t, row.logs)
		_, err := NewSequential(s).Acquire(t.Context(), key, lock.Options{})
		saysDown(t, row.logs, err, row.says)
		if s.isConnected() {
			t.Errorf("%s: connected to a server that has answered no request", row.logs)
		}
		text, most := log.must(t, "credentials"), 1+int(time.Since(began)/time.Minute)
		if n := strings.Count(text, row.logs); n > most {
			t.Errorf("%d lines, want 1 to %d:\n%s", n, most, text)
		}
		deaf.Release()
		locktest.Release(t, acquire(t, NewSequential(s)))
	}
}
