package app

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

// Without an identity in common, an instance is refused by the nodes of another: 503, and not "busy". Its customers are
// not told which node it is; the log is.
func TestNodesOfAnotherInstance(t *testing.T) {
	t.Parallel()
	args := backends("--zookeeper-hosts="+servers.ZooKeeper(t), "--redis-addrs="+servers.Redis(t).Addr,
		"--zookeeper-root=/"+t.Name(), "--seed-sku="+t.Name(), "--zookeeper-connect-timeout=10s")
	one := begin(t, append(args, "--zookeeper-credentials=stock:s3cret")...)
	other := begin(t, args...)
	one.ready(t, "redis", "zookeeper")
	other.ready(t, "redis", "zookeeper")
	const sale = "/deduct_stock_zk?quantity=1&store=redis"
	one.must(t, http.MethodPost, sale, http.StatusOK)
	r := other.must(t, http.MethodPost, sale, http.StatusServiceUnavailable)
	if !strings.Contains(r.body, "zookeeper.credentials") || strings.Contains(r.body, "/"+t.Name()+"/") {
		t.Errorf("the customer gets %s", r.body)
	}
	if log := other.log.String(); !strings.Contains(log, "/"+t.Name()+"/") || strings.Contains(log, "s3cret") {
		t.Errorf("no node in the log, or a secret:\n%s", log)
	}
	one.must(t, http.MethodPost, sale, http.StatusOK)
}

// While customers buy under locks of ZooKeeper, the instance's certificate is replaced by one of another CA, with the
// same name, and the connection breaks. No sale fails, and the next connection has the new certificate.
func TestZooKeeperCertificateUnderLoad(t *testing.T) {
	t.Parallel()
	before, after := servertest.NewCA(t, "before"), servertest.NewCA(t, "after")
	dir := t.TempDir()
	both := filepath.Join(dir, "ca")
	own := servertest.Pair{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	present := func(p servertest.Pair) {
		servertest.CopyFiles(t, own.Cert, p.Cert)
		servertest.CopyFiles(t, own.Key, p.Key)
	}
	servertest.CopyFiles(t, both, before.File, after.File)
	present(before.Issue(t, "stock"))
	theirs := before.Issue(t, "zookeeper", "127.0.0.1")
	server, err := servertest.Start(t, server.Options{
		ZooKeeperTLS: &server.TLS{Cert: theirs.Cert, Key: theirs.Key, CA: both},
	}).Add(t.Context(), server.ZooKeeper)
	servertest.Started(t, err)
	p, err := wire.Listen(server.Secure, wire.Protocol{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	i := begin(t, backends("--zookeeper-hosts="+p.Addr(), "--redis-addrs="+servers.Redis(t).Addr,
		"--zookeeper-tls-enabled", "--zookeeper-tls-ca="+before.File, "--zookeeper-tls-cert="+own.Cert,
		"--zookeeper-tls-key="+own.Key, "--zookeeper-acl=creator", "--zookeeper-connect-timeout=10s",
		"--seed-sku="+t.Name(), "--seed-quantity=1000000", "--wait=30s")...)
	i.ready(t, "redis", "zookeeper")

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var sold atomic.Int64
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				r := i.ask(http.MethodPost, "/deduct_stock_zk?quantity=1&store=redis")
				if r.status == http.StatusServiceUnavailable { // a handshake may take longer than an outage lasts
					continue
				}
				if r.status != http.StatusOK {
					t.Errorf("a sale: %d %s %v", r.status, r.body, r.err)
					return
				}
				sold.Add(1)
			}
		})
	}
	defer all.Wait()
	defer cancel()
	some := func() {
		was := sold.Load()
		servertest.Eventually(t, time.Minute, "more sales", func() (bool, string) {
			return t.Failed() || sold.Load() > was+20, ""
		})
	}
	some()
	present(after.Issue(t, "stock"))
	p.Cut()
	some()
	if !strings.Contains(i.log.String(), "files read again") {
		t.Error("the new connection has the old certificate")
	}
}
