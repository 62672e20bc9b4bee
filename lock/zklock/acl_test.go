package zklock

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

// openNodes returns root and the nodes below it that somebody without our credentials can use.
func openNodes(t testing.TB, host, root string) (found []string) {
	t.Helper()
	c, all := raw(t, host, ours), []string{root}
	for i := 0; i < len(all); i++ {
		acl, _, err := c.GetACL(all[i])
		must(t, unlessGone(err))
		if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "world" }) {
			found = append(found, all[i])
		}
		names, _, err := c.Children(all[i])
		must(t, unlessGone(err))
		for _, name := range names {
			all = append(all, all[i]+"/"+name)
		}
	}
	return found
}

// A process without our credentials, or with other ones, is told so at once, and not that the lock is busy or the
// server down. The log names the node. The holder keeps its lease all the time, and the waiter its place.
func TestWithoutOurCredentials(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	owned := Config{Hosts: []string{host}, Credentials: []string{ours}, CreatorOnly: true}
	for _, k := range kinds {
		holder := acquire(t, k.open(open(t, owned)))
		two := open(t, owned)
		next := acquireLater(t, k.open(two))
		locktest.Eventually(t, "a waiter", func() bool { return two.watchCount() == 1 })
		for _, identity := range []string{"", "stock:guessed"} {
			var log logged
			config := Config{Hosts: []string{host}, Logger: log.logger()}
			if identity != "" {
				config.Credentials = []string{identity}
			}
			l := k.open(open(t, config))
			for _, o := range []lock.Options{{}, {TryOnce: true}} {
				saysDown(t, k.name, refused(t, l, o), "not-allowed (root="+rootOf(t))
			}
			if text := log.String(); !strings.Contains(text, rootOf(t)+"/") || strings.Contains(text, "guessed") {
				t.Errorf("the log must name a node below %s, and no secret:\n%s", rootOf(t), text)
			}
		}
		must(t, holder.Err())
		locktest.Release(t, holder)
		locktest.Release(t, <-next)
	}
	if found := openNodes(t, host, rootOf(t)); len(found) > 0 {
		t.Errorf("open: %v", found)
	}
}

// Each connection begins with the credentials: after a broken one, and in the next session. Otherwise requests would be
// refused, or nodes open.
func TestCredentialsOnEachConnection(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := proxied(t, host)
	s := open(t, Config{Hosts: []string{p.Addr()}, Credentials: []string{ours, "stock:next"}, CreatorOnly: true})
	q := NewSequential(s)
	lease := acquire(t, q)
	for name, breaks := range map[string]func(){
		"the connection is cut":  p.Cut,
		"the session is another": func() { s.current.Load().oversleep() },
	} {
		before := s.current.Load().now().link
		breaks()
		locktest.Eventually(t, "another connection", func() bool {
			return s.current.Load().now().link != before && s.isConnected()
		})
		if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Errorf("release after %s: %v", name, err)
		}
		lease = acquire(t, q)
	}
	if found := openNodes(t, host, rootOf(t)); len(found) > 0 {
		t.Errorf("open: %v", found)
	}
	locktest.Release(t, lease)
}
