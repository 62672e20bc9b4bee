// Package zklock locks keys with ZooKeeper nodes that live as long as the session of the process that made them.
//
// There are two locks, and both use one Session: [Sequential], a fair queue in which every waiter watches the one
// before it, and [Ephemeral], one node that every waiter watches. Read in this order:
//
//	sequential.go  the plain algorithm from enter to delete, and in queue.go the names of its nodes;
//	               ephemeral.go is the other recipe
//	acquire.go     what both recipes share, from Acquire to the release: locker.Acquire, attempt.run, the recipe's
//	               enter and awaitTurn, attempt.createNode, attempt.grant, locker.release; and locker.sweep, which
//	               deletes nodes that could not be deleted in time
//	generation.go  one ZooKeeper session: its state, its heartbeat and its loss; session.go has one after another
//	link.go        one TCP connection to a server, and which server comes next
//	request.go     requests that end with a context: ask sends one once, retry repeats it; in errors.go their errors
//	fence.go       fences that grow even if the ensemble is rebuilt
//
// watch.go watches the node before ours, and our own; inspect.go shows holders and waiters, and evicts.
package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock/driver"
)

// A Config describes the ensemble and how to connect to it. A zero field means its default.
type Config struct {
	// Hosts are servers of one ensemble, as host or host:port. The port is 2181 unless given. Required.
	Hosts []string
	// SessionTimeout is how long the server keeps our nodes after our last request. The server may grant another time.
	// Default: 10 s.
	SessionTimeout time.Duration
	// ConnectTimeout limits one attempt to connect, and the time for which Acquire waits for a connection.
	// Default: 1 s.
	ConnectTimeout time.Duration
	// Root is the node below which every key has a folder. Default: "/stock/locks".
	Root string
	// Dialer connects to a server, with TLS for example, within the time limit of ctx. Default: plain TCP.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// Credentials are identities "user:password" of ZooKeeper's scheme digest. Each connection begins with them, for a
	// round trip each. ZooKeeper does not check them: another password is another user. Default: none.
	Credentials []string
	// CreatorOnly gives new nodes an ACL by which only this session's identities may do anything with them: those of
	// Credentials, and the client certificate's (x509) if Dialer sends one. Other users then cannot lock below Root,
	// and get a driver.DownError. Nodes that exist keep their ACL. Default: everybody may do everything, as with
	// Curator.
	CreatorOnly bool
	// Called is called before a lock makes requests to acquire a key, with what they are for: "enter" or "wait". The
	// result, which must not be nil, is called when they have been answered. Default: none.
	Called func(ctx context.Context, name string) func(error)
	// Logger logs the states of the session and, at debug level, the client library's messages. Default: none.
	Logger *slog.Logger
}

// withDefaults returns the Config with its defaults filled in, or an error for a wrong field.
func (c Config) withDefaults() (Config, error) {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, time.Second)
	c.Root = strings.TrimRight(cmp.Or(c.Root, "/stock/locks"), "/")
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Called == nil {
		c.Called = func(context.Context, string) func(error) { return func(error) {} }
	}
	if len(c.Hosts) == 0 {
		return c, errors.New("no hosts are given")
	}
	err := cmp.Or(
		driver.AtLeast("SessionTimeout", c.SessionTimeout, driver.MinLease),
		driver.AtLeast("ConnectTimeout", c.ConnectTimeout, 0),
		checkRoot(c.Root),
		c.checkIdentity(),
	)
	if c.Dialer == nil {
		c.Dialer = new(net.Dialer).DialContext
	}
	return c, err
}

// checkRoot refuses a root that cannot have lock folders below it. "/zookeeper" is the server's own.
func checkRoot(root string) error {
	strange := func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }
	if root != "" && (path.Clean("/"+root) != root || strings.HasPrefix(root+"/", "/zookeeper/")) ||
		strings.ContainsFunc(root, strange) {
		return fmt.Errorf("root %q cannot be the path of a node", root)
	}
	return nil
}

// checkIdentity returns an error for credentials that no server accepts, and for nodes that nobody could use.
func (c Config) checkIdentity() error {
	for _, credentials := range c.Credentials {
		if user, _, found := strings.Cut(credentials, ":"); !found || user == "" {
			return errors.New("credentials must be user:password") // not quoted: they are secret
		}
	}
	if c.CreatorOnly && len(c.Credentials) == 0 && c.Dialer == nil {
		return errors.New("nodes for their creator alone need credentials, or a dialer with a client certificate")
	}
	return nil
}

// acl is the ACL of our nodes. With the scheme "auth" the server puts in every identity of the connection. If the
// connection has none, it refuses the request (zk.ErrInvalidACL), so no node is open by mistake.
func (s *Session) acl() []zk.ACL {
	if s.config.CreatorOnly {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll) // as in Curator, so that operators can unlock
}

// folder returns the path of the node that holds the queue of key.
func (l locker) folder(key string) string {
	return l.session.config.Root + "/" + escape(key) + l.recipe.suffix()
}

// escape returns a node name for any key, and different names for different keys. Letters, digits and most ASCII
// punctuation stay; every other byte becomes %XX. ZooKeeper itself refuses "/", control characters and, because it uses
// UTF-16, all characters outside the basic plane. "." and ".." have a meaning in paths, and "zookeeper" is reserved
// below "/".
func escape(key string) string {
	var b strings.Builder
	b.Grow(len(key))
	reserved := key == "." || key == ".." || key == "zookeeper"
	for i := range len(key) {
		c := key[i]
		if c <= ' ' || c > '~' || c == '/' || c == '%' || reserved && i == 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
