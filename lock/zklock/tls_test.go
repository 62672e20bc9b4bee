package zklock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

// A dialer is a Config.Dialer.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// secure returns a dialer that trusts ca, expects a server with that name, and presents a certificate, if it has one.
func secure(t testing.TB, ca *stacktest.CA, name string, pair stacktest.Pair) dialer {
	t.Helper()
	text, err := os.ReadFile(ca.File)
	must(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name, MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(text)
	if pair.Cert != "" {
		own, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		must(t, err)
		config.Certificates = []tls.Certificate{own}
	}
	return (&tls.Dialer{Config: config}).DialContext
}

// secured starts a ZooKeeper with TLS, which wants certificates of ca.
func secured(t testing.TB, ca *stacktest.CA, pair stacktest.Pair) *stack.Server {
	t.Helper()
	s := stacktest.Start(t, stack.Options{
		ZooKeeperTLS: &stack.TLS{Cert: pair.Cert, Key: pair.Key, CA: ca.File},
	})
	server, err := s.Add(t.Context(), stack.ZooKeeper)
	stacktest.Started(t, err)
	return server
}

// What the server and we must have for a connection. Where something is wrong there is none, and the log says what.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := stacktest.NewCA(t, "zookeeper-ca"), stacktest.NewCA(t, "other-ca")
	server := secured(t, ca, ca.Issue(t, "localhost", "127.0.0.1"))
	own := ca.Issue(t, "stock")
	for _, row := range []struct {
		name string
		dial dialer
		want string // in the log
	}{
		{"another CA of the server", secure(t, other, "localhost", own), "unknown authority"},
		{"another name of the server", secure(t, ca, "zookeeper.example.com", own), "not zookeeper.example.com"},
		{"no certificate of ours", secure(t, ca, "localhost", stacktest.Pair{}), "remote error: tls"},
		{"another CA of ours", secure(t, ca, "localhost", other.Issue(t, "stock")), "remote error: tls"},
		{"ours has expired", secure(t, ca, "localhost", ca.IssueExpired(t, "stock")), "remote error: tls"},
		{"no TLS", nil, "cannot be reached"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var log logged
			s, err := Dial(Config{
				Hosts: []string{server.Secure}, Dialer: row.dial, Root: rootOf(t), ConnectTimeout: 10 * time.Second,
				Logger: log.logger(),
			})
			must(t, err)
			defer s.Close()
			eventually(t, row.want, func() bool { return strings.Contains(log.String(), row.want) })
			if s.State() == Connected {
				t.Error("it is connected")
			}
		})
	}
}

// With a client certificate it is the certificate that the nodes belong to. Who has none of the CA, or a certificate
// with another name, is refused; and the plain port, if it is open, does not help.
func TestNodesOfACertificate(t *testing.T) {
	t.Parallel()
	ca := stacktest.NewCA(t, "zookeeper-ca")
	server := secured(t, ca, ca.Issue(t, "localhost", "127.0.0.1"))
	config := Config{
		Hosts: []string{server.Secure}, ConnectTimeout: 10 * time.Second, CreatorOnly: true,
		Dialer: secure(t, ca, "localhost", ca.Issue(t, "stock")),
	}
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			config := config
			config.Root = rootOf(t) + "-" + k.name
			holder := acquire(t, k.open(open(t, config)))
			c := connect(t, server.Secure, config.Dialer)
			for _, path := range nodesBelow(t, c, config.Root) {
				acl, _, err := c.GetACL(path)
				must(t, err)
				if len(acl) != 1 || acl[0] != (zk.ACL{Perms: zk.PermAll, Scheme: "x509", ID: "CN=stock"}) {
					t.Errorf("%s: %v", path, acl)
				}
				refusesAll(t, raw(t, server.Addr), path)
			}
			foreign := config
			foreign.Dialer = secure(t, ca, "localhost", ca.Issue(t, "somebody"))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := refused(ctx, zk.ErrNoAuth, k.open(open(t, foreign)), keyOf(t), lock.Options{})
			namesTheFix(t, "another certificate", err, zk.ErrNoAuth, "not-allowed")
			must(t, holder.Err())
			release(t, holder)
		})
	}

	// Without an identity there are no nodes at all, rather than open ones.
	config.Hosts, config.Root = []string{server.Addr}, rootOf(t)+"-nobody"
	config.Dialer = new(net.Dialer).DialContext
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := refused(ctx, zk.ErrInvalidACL, NewSequential(open(t, config)), keyOf(t), lock.Options{})
	namesTheFix(t, "without an identity", err, zk.ErrInvalidACL, "wants-authentication")
}

// connect is raw with a dialer.
func connect(t testing.TB, host string, dial dialer) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{host}, 10*time.Second, zk.WithLogInfo(false),
		zk.WithLogger(debugLog{slog.New(slog.DiscardHandler)}),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
			return dial(t.Context(), network, addr)
		}))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}

// A server whose certificate has expired is not used.
func TestTheServersCertificateHasExpired(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: make verify")
	}
	ca := stacktest.NewCA(t, "zookeeper-ca")
	server := secured(t, ca, ca.IssueExpired(t, "localhost", "127.0.0.1"))
	var log logged
	s, err := Dial(Config{
		Hosts: []string{server.Secure}, Dialer: secure(t, ca, "localhost", ca.Issue(t, "stock")), Root: rootOf(t),
		ConnectTimeout: 10 * time.Second, Logger: log.logger(), // the first handshake of a JVM is slow
	})
	must(t, err)
	defer s.Close()
	eventually(t, "a line of the log", func() bool { return strings.Contains(log.String(), "has expired") })
}
