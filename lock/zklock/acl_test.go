package zklock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

const ours = "stock:secret"

// owned makes a session whose nodes are its own.
func owned(t testing.TB, host string) *Session {
	t.Helper()
	return open(t, Config{
		Hosts: []string{host}, SessionTimeout: 40 * time.Second, ConnectTimeout: 10 * time.Second,
		Credentials: []string{ours}, CreatorOnly: true,
	})
}

// withAuth is a plain client that has our credentials.
func withAuth(t testing.TB, host string) *zk.Conn {
	t.Helper()
	c := raw(t, host)
	must(t, c.AddAuth("digest", []byte(ours)))
	return c
}

// nodesBelow returns root and all nodes below it.
func nodesBelow(t testing.TB, c *zk.Conn, root string) []string {
	t.Helper()
	all := []string{root}
	for i := 0; i < len(all); i++ {
		names, _, err := c.Children(all[i])
		must(t, unlessGone(err))
		for _, name := range names {
			all = append(all, all[i]+"/"+name)
		}
	}
	return all
}

// open nodes are those that somebody without our credentials can use.
func openNodes(t testing.TB, c *zk.Conn, root string) (found []string) {
	t.Helper()
	for _, path := range nodesBelow(t, c, root) {
		acl, _, err := c.GetACL(path)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		must(t, err)
		if len(acl) == 0 || slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "world" }) {
			found = append(found, path)
		}
	}
	return found
}

// Somebody without credentials can reach the server, and nothing of ours: he cannot take the lock from its holder, put
// himself in the queue, change a fence, or read who waits. The holder keeps its lease all the time.
func TestAForeignClientIsRefused(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			root := rootOf(t) + "-" + k.name + "/locks"
			one := open(t, Config{Hosts: []string{host}, Root: root, Credentials: []string{ours}, CreatorOnly: true})
			two := open(t, Config{Hosts: []string{host}, Root: root, Credentials: []string{ours}, CreatorOnly: true})
			holder := acquire(t, k.open(one))
			next := acquireLater(t, k.open(two))
			eventually(t, "a waiter", func() bool { return two.watchCount() == 1 })
			foreign, stranger := raw(t, host), raw(t, host)
			must(t, stranger.AddAuth("digest", []byte("stock:guessed")))
			nodes := nodesBelow(t, withAuth(t, host), rootOf(t)+"-"+k.name)
			if len(nodes) < 6 { // two roots, two of the fence, the folder, the holder
				t.Errorf("only %v", nodes)
			}
			for _, c := range []*zk.Conn{foreign, stranger} {
				for _, path := range nodes {
					refusesAll(t, c, path)
				}
			}
			if err := holder.Err(); err != nil {
				t.Errorf("the holder lost its lease: %v", err)
			}
			release(t, holder)
			release(t, <-next)
		})
	}
}

// refusesAll fails if c may do anything with the node.
func refusesAll(t *testing.T, c *zk.Conn, path string) {
	t.Helper()
	acl := zk.WorldACL(zk.PermAll)
	_, _, get := c.Get(path)
	_, _, list := c.Children(path)
	_, set := c.Set(path, []byte("mine"), -1)
	_, create := c.Create(path+"/_c_0-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	_, container := c.CreateContainer(path+"/mine", nil, zk.FlagContainer, acl)
	_, setACL := c.SetACL(path, acl, -1)
	_, multi := c.Multi(&zk.DeleteRequest{Path: path, Version: -1})
	for what, err := range map[string]error{
		"get": get, "list": list, "set": set, "create": create, "create a container": container, "set ACL": setACL,
	} {
		if !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("%s %s: %v, want %v", what, path, err, zk.ErrNoAuth)
		}
	}
	// The parent's ACL decides who deletes. The first node is in "/", which is open, but it is not empty.
	for _, err := range []error{c.Delete(path, -1), multi} {
		if !errors.Is(err, zk.ErrNoAuth) && !(errors.Is(err, zk.ErrNotEmpty) && strings.Count(path, "/") == 1) {
			t.Errorf("delete %s: %v, want %v", path, err, zk.ErrNoAuth)
		}
	}
}

// A process without the credentials of the nodes, or with other ones, is told so at once: that is no busy lock and no
// missing server. The log names the node.
func TestWithoutOurCredentials(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, k := range kinds() {
		for name, credentials := range map[string][]string{"none": nil, "other": {"stock:old"}} {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				root := rootOf(t) + "-" + k.name + "-" + name
				config := Config{Hosts: []string{host}, Root: root, Credentials: []string{ours}, CreatorOnly: true}
				holder := acquire(t, k.open(open(t, config)))
				var log logged
				config = Config{Hosts: []string{host}, Root: root, Credentials: credentials, Logger: log.logger()}
				s := open(t, config)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for _, o := range []lock.Options{{}, {TryOnce: true}} {
					err := refused(ctx, zk.ErrNoAuth, k.open(s), keyOf(t), o)
					namesTheFix(t, "acquire", err, zk.ErrNoAuth, "not-allowed (root="+root)
					if errors.Is(err, lock.ErrHeld) {
						t.Errorf("%v says that the lock is held", err)
					}
				}
				if text := log.String(); !strings.Contains(text, root+"/") || strings.Contains(text, "secret") {
					t.Errorf("the log must name a node below %s, and no secret:\n%s", root, text)
				}
				_, _, _ = s.Migrate(ctx, nil) // must not help him
				if err := holder.Err(); err != nil {
					t.Error(err)
				}
				if found := openNodes(t, withAuth(t, host), root); len(found) > 0 {
					t.Errorf("open: %v", found)
				}
				release(t, holder)
			})
		}
	}
}

// A logged is a log that a test reads.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Each connection begins with the credentials: after a broken one, after a restart of the server, and in the next
// session. Otherwise requests would be refused, or nodes open.
func TestCredentialsOnEachConnection(t *testing.T) {
	t.Parallel()
	server := stacktest.Server(t, stack.ZooKeeper)
	p := newProxy(t, server.Addr)
	s := owned(t, p.Addr())
	q := NewSequential(s)
	lease := acquire(t, q)
	id := s.id()
	for _, broken := range []struct {
		name string
		do   func()
	}{
		{"the connection is cut", p.Cut},
		{"the server is restarted", func() {
			must(t, server.Kill())
			must(t, server.Restart(t.Context()))
		}},
	} {
		broken.do()
		connected(t, s)
		must(t, s.Check(t.Context()))
		// On a busy computer the restart may take longer than the lease: that is no matter of credentials.
		if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Fatalf("release after %s: %v", broken.name, err)
		}
		lease = acquire(t, q)
	}
	if now := s.id(); now != id {
		t.Logf("the session was lost: it was %s, and is %s", id, now)
	}
	release(t, lease)
	id = s.id()
	p.closeSession(t)
	eventually(t, "another session", func() bool { return s.id() != id && s.State() == Connected })
	lease = acquire(t, q)
	if found := openNodes(t, withAuth(t, server.Addr), rootOf(t)); len(found) > 0 {
		t.Errorf("open: %v", found)
	}
	release(t, lease)
}

// A server without the scheme digest refuses the credentials and closes the connection. The log says so.
func TestAServerWithoutDigest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: make verify")
	}
	server, err := stacktest.Start(t, stack.Options{
		More: map[stack.Kind][]string{stack.ZooKeeper: {"DigestAuthenticationProvider.enabled=false"}},
	}).Add(t.Context(), stack.ZooKeeper)
	stacktest.Started(t, err)
	var log logged
	s, err := Dial(Config{
		Hosts: []string{server.Addr}, Root: rootOf(t), Credentials: []string{ours},
		CreatorOnly: true, Logger: log.logger(),
	})
	must(t, err)
	defer s.Close()
	eventually(t, "a line of the log", func() bool {
		return strings.Contains(log.String(), "does not accept zookeeper.credentials")
	})
	if text := log.String(); strings.Contains(text, "secret") {
		t.Errorf("a secret in the log:\n%s", text)
	}
}

func TestWrongCredentials(t *testing.T) {
	for _, c := range []Config{
		{Credentials: []string{"secret"}},
		{Credentials: []string{":secret"}},
		{Credentials: []string{ours, ""}},
		{CreatorOnly: true},
	} {
		c.Hosts = []string{"127.0.0.1:1"}
		s, err := Dial(c)
		if err == nil {
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
