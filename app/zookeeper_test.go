package app

import (
	"net/http"
	"strings"
	"testing"
)

// Without an identity in common, an instance is refused by the nodes of another: 503, and not "busy". Its customers are
// not told which node it is; the log is.
func TestNodesOfAnotherInstance(t *testing.T) {
	t.Parallel()
	ensemble := servers.ZooKeeper(t)
	args := backends("--zookeeper-hosts="+ensemble, "--redis-url=redis://"+servers.Redis(t).Addr,
		"--zookeeper-root=/"+t.Name(), "--seed-sku="+t.Name())
	one := begin(t, append(args, "--zookeeper-hosts=stock:s3cret@"+ensemble)...)
	other := begin(t, args...)
	one.ready(t, "redis", "zookeeper")
	other.ready(t, "redis", "zookeeper")
	const sale = "/deduct_stock_zk?quantity=1&store=redis"
	one.must(t, http.MethodPost, sale, http.StatusOK)
	r := other.must(t, http.MethodPost, sale, http.StatusServiceUnavailable)
	if !strings.Contains(r.body, "zookeeper.hosts") || strings.Contains(r.body, "/"+t.Name()+"/") {
		t.Errorf("the customer gets %s", r.body)
	}
	if log := other.log.String(); !strings.Contains(log, "/"+t.Name()+"/") || strings.Contains(log, "s3cret") {
		t.Errorf("no node in the log, or a secret:\n%s", log)
	}
	one.must(t, http.MethodPost, sale, http.StatusOK)
}
