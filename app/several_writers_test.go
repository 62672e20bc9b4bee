package app

import (
	"net/http"
	"strings"
	"testing"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// On a cluster that accepts writes on several nodes an instance refuses to sell, and says why and what to do, as long
// as there are several. With mysql.single_writer it sells. The user has no rights but those on the schema.
func TestSeveralWriters(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	g := servertest.Galera(t, 2)
	_, clerk := clerkOf(t, g.Nodes[0].URL)
	at := func(node *server.Server, more ...string) *instance {
		dsn := strings.Replace(clerk, g.Nodes[0].Addr, node.Addr, 1)
		return begin(t, backends(append(more, "--mysql-dsn="+dsn, "--log-level=warn")...)...)
	}
	const reason, sale = "mysql.single_writer", "/deduct_stock_atomic?sku=widget&store=mysql"
	demo := at(g.Nodes[0], "--store=mysql")
	other := at(g.Nodes[1], "--store=mysql")
	locks := at(g.Nodes[0], "--redis-url=redis://"+servers.Redis(t).Addr)
	refused := func() {
		t.Helper()
		for _, i := range []*instance{demo, other} {
			i.becomes(t, 503, reason, "of a Galera cluster of 2")
		}
		locks.becomes(t, 200, reason)
		for i, path := range map[*instance]string{
			demo: sale, locks: "/deduct_stock_mysql_get_lock?sku=widget&store=redis",
		} {
			r := i.must(t, http.MethodPost, path, 503)
			if name(r) != "backend_down" || !strings.Contains(r.body, reason) {
				t.Errorf("%s: %s", path, r.body)
			}
			if r = i.ask(http.MethodGet, "/v1/strategies"); !strings.Contains(r.body, reason) {
				t.Errorf("/v1/strategies: %s", r.body)
			}
			if !strings.Contains(i.log.String(), reason) {
				t.Errorf("the log does not say why: %s", i.log)
			}
		}
	}
	refused()
	one := at(g.Nodes[0], "--store=mysql", "--mysql-single-writer")
	one.becomes(t, 200, "of a Galera cluster of 2")
	one.must(t, http.MethodPut, "/v1/stock/widget?quantity=9", 200)
	one.must(t, http.MethodPost, sale, 200)
	one.must(t, http.MethodPut, "/v1/stock/other?quantity=9", 200)
	one.must(t, http.MethodPost, "/deduct_stock_mysql_get_lock?sku=other", 200)

	if err := g.Nodes[1].Stop(); err != nil { // a cluster of one node has one writer
		t.Fatal(err)
	}
	demo.becomes(t, 200, "of a Galera cluster of 1")
	demo.must(t, http.MethodPost, sale, 200)
	locks.ready(t, "mysql")
	if err := g.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused()
}
