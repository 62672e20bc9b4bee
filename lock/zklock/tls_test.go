package zklock

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// secure returns a dialer that trusts ca, and presents a certificate, if it has one.
func secure(t testing.TB, ca *servertest.CA, pair servertest.Pair) *tls.Dialer {
	t.Helper()
	text, err := os.ReadFile(ca.File)
	must(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(text)
	if pair.Cert != "" {
		own, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
		must(t, err)
		config.Certificates = []tls.Certificate{own}
	}
	return &tls.Dialer{Config: config}
}

// store returns a file with the certificate and its key, as ZooKeeper wants it.
func store(t *testing.T, pair servertest.Pair) string {
	t.Helper()
	key, err := os.ReadFile(pair.Key)
	must(t, err)
	cert, err := os.ReadFile(pair.Cert)
	must(t, err)
	file := filepath.Join(t.TempDir(), "server.pem")
	must(t, os.WriteFile(file, append(key, cert...), 0o644)) // the server may run as another user
	return file
}

// What the server and we must have for a connection: where something is wrong there is none, and the log says what.
// With a client certificate it is the certificate that the nodes belong to. Who has another one is refused, and the
// plain port, if it is open, does not help.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := servertest.NewCA(t, "zookeeper-ca"), servertest.NewCA(t, "other-ca")
	pair := ca.Issue(t, "localhost", "127.0.0.1")
	address, port := servertest.Reserve(t)
	server, err := servertest.Start(t, server.Options{More: map[server.Kind][]string{server.ZooKeeper: {
		"secureClientPort=" + port, "secureClientPortAddress=127.0.0.1",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.clientAuth=need", "ssl.keyStore.type=PEM", "ssl.trustStore.type=PEM",
		"ssl.keyStore.location=" + store(t, pair), "ssl.trustStore.location=" + ca.File,
	}}}).Add(t.Context(), server.ZooKeeper)
	servertest.Started(t, err)
	locktest.Eventually(t, "the port for TLS", func() bool { // a session logs one failure a minute
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	own := ca.Issue(t, "stock")
	for _, row := range []struct {
		name string
		dial *tls.Dialer
		want string // in the log
	}{
		{"another CA of the server", secure(t, other, own), "unknown authority"},
		{"no certificate of ours", secure(t, ca, servertest.Pair{}), "remote error: tls"},
	} {
		var log logged
		s := begin(t, Config{Hosts: []string{address}, Dialer: row.dial.DialContext, Logger: log.logger()})
		log.must(t, row.want)
		if s.isConnected() {
			t.Errorf("%s: it is connected", row.name)
		}
	}

	config := Config{Hosts: []string{address}, CreatorOnly: true, Dialer: secure(t, ca, own).DialContext}
	s := open(t, config)
	holder := acquire(t, NewSequential(s))
	acl, _, err := s.current.Load().conn.GetACL(rootOf(t) + "/" + key)
	if err != nil || len(acl) != 1 || acl[0] != (zk.ACL{Perms: zk.PermAll, Scheme: "x509", ID: "CN=stock"}) {
		t.Errorf("ACL %v, %v", acl, err)
	}
	config.Dialer = secure(t, ca, ca.Issue(t, "somebody")).DialContext
	saysDown(t, "another certificate", refused(t, NewSequential(open(t, config)), lock.Options{}), "not-allowed")
	must(t, holder.Err())
	locktest.Release(t, holder)
	// Without an identity there are no nodes at all, rather than open ones.
	config.Hosts, config.Root, config.Dialer = []string{server.Addr}, "/nobody", new(net.Dialer).DialContext
	saysDown(t, "nobody", refused(t, NewSequential(open(t, config)), lock.Options{}), "wants-authentication")
}
