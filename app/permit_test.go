package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/service/strategy"
)

// deniedTo starts an instance whose user of the shared Redis, who has the name of the test, has these rights.
func deniedTo(t *testing.T, rules ...any) (i *instance, admin *redis.Client) {
	t.Helper()
	addr := servers.Redis(t).Addr
	admin = redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = admin.Close() })
	user := append([]any{"ACL", "SETUSER", own(t), "on", ">pw", "~*"}, rules...)
	if err := admin.Do(t.Context(), user...).Err(); err != nil {
		t.Fatal(err)
	}
	url := "redis://" + own(t) + ":pw@" + addr
	return begin(t, backends("--redis-url="+url, "--redis-timeout=5s", "--seed-sku="+own(t))...), admin
}

// What the user of Redis may not do is said for each strategy that needs it, before anybody asks for it.
func TestAStrategyThatTheServerDenies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		rules  []any
		right  string
		denied []string
		grant  []any
	}{
		{
			"no channels",
			[]any{"+@all", "resetchannels"},
			"channel",
			[]string{"redis-rlock", "redis-watchdog", "segmented"},
			[]any{"&*"},
		},
		{"no MULTI", []any{"&*", "+@all", "-multi"}, "+multi", []string{"redis-setnx-watch"}, []any{"+multi"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			i, admin := deniedTo(t, row.rules...)
			i.becomes(t, http.StatusOK, append(row.denied, row.right)...)
			listed := i.must(t, http.MethodGet, "/v1/strategies", 200)
			list, _ := listed.field("strategies").([]any)
			for _, entry := range list {
				s, _ := entry.(map[string]any)
				name, reason := fmt.Sprint(s["name"]), fmt.Sprint(s["reason"])
				is := slices.Contains(row.denied, name)
				if told := strings.Contains(reason, row.right); told != is {
					t.Errorf("%s: available %v, reason %s; want it denied: %t", name, s["available"], reason, is)
				}
			}
			i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"-a?quantity=9", 200)
			i.must(t, http.MethodPost, "/deduct_stock_atomic?sku="+own(t)+"-a", 200)
			path := map[string]string{
				"redis-rlock": "/deduct_stock_rlock", "redis-setnx-watch": "/deduct_stock_setnx_watch",
			}[row.denied[0]]
			if r := i.ask(http.MethodPost, path); r.status != 503 || name(r) != "backend_down" ||
				!strings.Contains(r.body, row.right) {
				t.Errorf("%d %s, want backend_down that names %s", r.status, r.body, row.right)
			}
			grant := append([]any{"ACL", "SETUSER", own(t)}, row.grant...)
			if err := admin.Do(t.Context(), grant...).Err(); err != nil {
				t.Fatal(err)
			}
			servertest.Eventually(t, time.Minute, "it is permitted", func() (bool, string) {
				r := i.ask(http.MethodGet, "/readyz")
				return !strings.Contains(r.body, "denied"), r.body
			})
			i.must(t, http.MethodPost, path, 200)
		})
	}
}

// A MySQL that writes its binary log by statements refuses what a lock writes at READ COMMITTED. That is said for this
// lock before a sale, and the others sell.
func statementsLogged(t *testing.T, lone *breakable) {
	admin := openRoot(t, lone.dsn, "SET GLOBAL binlog_format = 'STATEMENT'")
	defer exec(t, admin, "SET GLOBAL binlog_format = 'MIXED'")
	i := begin(t, backends("--mysql-dsn="+lone.dsn, "--store=mysql")...)
	i.becomes(t, http.StatusOK, `"ready"`, "mysql-for-update", "binlog_format")
	for _, s := range strategy.All() {
		if slices.ContainsFunc(s.Needs, func(n string) bool { return n != strategy.MySQL }) {
			continue
		}
		i.must(t, http.MethodPut, "/v1/stock/"+s.Name+"?quantity=9", 200)
		r := i.ask(http.MethodPost, s.Endpoint+"?sku="+s.Name)
		denied := s.Name == "mysql-for-update"
		named := name(r) == "backend_down" && strings.Contains(r.body, "binlog_format")
		if denied != named || !denied && r.status != 200 {
			t.Errorf("%s: %d %s; want it denied: %t", s.Name, r.status, r.body, denied)
		}
	}
}
