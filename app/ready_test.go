package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
)

// becomes waits until /readyz answers with that status and words.
func (i *instance) becomes(t *testing.T, status int, words ...string) {
	t.Helper()
	servertest.Eventually(t, 30*time.Second, fmt.Sprintf("/readyz is %d and says %q", status, words),
		func() (bool, string) {
			r := i.ask(http.MethodGet, "/readyz")
			so := r.status == status
			for _, word := range words {
				so = so && strings.Contains(r.body, word)
			}
			return so, r.body
		})
}

// A store that refuses what a sale writes is not ready, for the reason that the sale is told.
func readyIsWhatASaleNeeds(t *testing.T, lone *breakable) {
	addr := lone.redis.Addr
	i := begin(t, backends("--redis-url=redis://"+addr, "--redis-timeout=5s", "--store=redis")...)
	for _, row := range []struct{ name, problem, reason, begin, end string }{
		{"full", "store_full", "out of memory", "CONFIG SET maxmemory 1mb", "CONFIG SET maxmemory 0"},
		{
			"alone", "backend_down", "fewer replicas", "CONFIG SET min-replicas-to-write 1",
			"CONFIG SET min-replicas-to-write 0",
		},
		{"replica", "backend_down", "read-only replica", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		{
			"scriptless", "backend_down", "lacks a permission", "ACL SETUSER default -eval -evalsha",
			"ACL SETUSER default +eval +evalsha",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			i.sells(t, row.name, row.reason, row.problem,
				func() { tell(t, addr, row.begin) }, func() { tell(t, addr, row.end) })
		})
	}
	t.Run("unsaved", func(t *testing.T) {
		i.sells(t, "unsaved", "cannot save", "backend_down",
			func() { failSave(t, addr) }, func() { saveAgain(t, addr) })
	})
	// One that evicts is used, and named.
	if r := i.ask(http.MethodGet, "/readyz"); strings.Contains(r.body, "evicts") {
		t.Errorf("noeviction: %s", r.body)
	}
	tell(t, addr, "CONFIG SET maxmemory-policy volatile-lru")
	i.becomes(t, http.StatusOK, `"ready"`, "evicts", "volatile-lru")
	if r := i.must(t, http.MethodGet, "/v1/strategies", 200); !strings.Contains(r.body, "volatile-lru") {
		t.Errorf("%s, want the warning", r.body)
	}
	i.must(t, http.MethodPost, "/deduct_stock_redisson", 200)
	tell(t, addr, "CONFIG SET maxmemory-policy noeviction")
}

// The same of MySQL. A right that only the update of the stock needs is missed by the probe, also while nobody buys.
func readyIsWhatASaleInMySQLNeeds(t *testing.T, lone *breakable) {
	root := openRoot(t, lone.dsn, // read_only does not bind root
		"CREATE OR REPLACE USER clerk@'127.0.0.1'", "GRANT ALL ON stock.* TO clerk@'127.0.0.1'")
	run := func(statements ...string) { exec(t, root, statements...) }
	clerk := strings.Replace(lone.dsn, "root@", "clerk@", 1)
	i := begin(t, backends("--mysql-dsn="+clerk, "--store=mysql")...)
	i.sells(t, "mysql", "read-only", "backend_down",
		func() { run("SET GLOBAL read_only = 1") }, func() { run("SET GLOBAL read_only = 0") })
	const anew = "KILL USER clerk@'127.0.0.1'" // a connection keeps its rights
	run("REVOKE UPDATE ON stock.* FROM clerk@'127.0.0.1'", anew)
	i.becomes(t, http.StatusServiceUnavailable, "access denied")
	run("GRANT UPDATE ON stock.* TO clerk@'127.0.0.1'", anew)
	i.becomes(t, http.StatusOK, `"ready"`)
}

// With a user of MySQL who has no rights on the schema, an instance serves where the schema is there. Where it is
// missing, the instance is not ready, and its log says which right the user lacks.
func TestAMySQLUserWhoMayNotChangeTables(t *testing.T) {
	t.Parallel()
	const rights = "SELECT, INSERT, UPDATE, DELETE"
	for name, row := range map[string]struct {
		dsn   func(*testing.T) string
		ready int
		says  string
	}{
		"schema":    {migrated, http.StatusOK, `"ready"`},
		"no schema": {func(t *testing.T) string { return servers.MariaDB(t) }, 503, "access denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := row.dsn(t)
			database, user := dsn[strings.LastIndex(dsn, "/")+1:], "u"+fmt.Sprint(row.ready)
			openRoot(t, dsn, "CREATE USER "+user+"@'127.0.0.1'",
				"GRANT "+rights+" ON "+database+".* TO "+user+"@'127.0.0.1'")
			i := begin(t, backends("--mysql-dsn="+servertest.AsUser(t, dsn, user, ""), "--store=mysql")...)
			i.becomes(t, row.ready, row.says)
			if row.ready == http.StatusOK {
				for _, sku := range []string{"atomic", "pessimistic"} {
					i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=1", 200)
					i.must(t, http.MethodPost, "/deduct_stock_"+sku+"?sku="+sku, 200)
				}
			} else if !strings.Contains(i.log.String(), "CREATE command denied") {
				t.Errorf("the log does not say which right is missing:\n%s", i.log)
			}
		})
	}
}

// failSave makes Redis fail to save: the name of its file is that of a folder.
func failSave(t *testing.T, addr string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	dir := c.ConfigGet(t.Context(), "dir").Val()["dir"]
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "save", "3600 1000000").Err(); err != nil { // else writes are not refused
		t.Fatal(err)
	}
	saved(t, c, "err")
}

func saveAgain(t *testing.T, addr string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	if err := os.Remove(filepath.Join(c.ConfigGet(t.Context(), "dir").Val()["dir"], "dump.rdb")); err != nil {
		t.Fatal(err)
	}
	saved(t, c, "ok")
}

// saved saves until the result of the last save is that.
func saved(t *testing.T, c *redis.Client, result string) {
	t.Helper()
	servertest.Eventually(t, time.Minute, "the last save is "+result, func() (bool, string) {
		_ = c.BgSave(t.Context()).Err()
		info := c.Info(t.Context(), "persistence").Val()
		return strings.Contains(info, "rdb_last_bgsave_status:"+result), info
	})
}

// sells wants an instance to sell and be ready, to do neither between begin and end, and then to do both again.
func (i *instance) sells(t *testing.T, sku, reason, problem string, begin, end func()) {
	t.Helper()
	i.becomes(t, http.StatusOK, `"ready"`)
	i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=100", 200)
	sell := func() reply { return i.buy(sku) }
	if r := sell(); r.status/100 != 2 {
		t.Fatalf("when all is well: %d %s", r.status, r.body)
	}
	begin()
	for n := range 5 { // by the store at first, and by the probe later
		r := sell()
		detail, _ := r.field("detail").(string)
		if r.status != 503 || name(r) != problem || !strings.Contains(detail, reason) {
			t.Errorf("sale %d: %d %s, want %s because %s", n, r.status, r.body, problem, reason)
		}
	}
	i.becomes(t, http.StatusServiceUnavailable, reason)
	if r := sell(); name(r) != problem {
		t.Errorf("a sale while it is not ready: %d %s, want %s", r.status, r.body, problem)
	}
	end()
	i.becomes(t, http.StatusOK, `"ready"`)
	if r := sell(); r.status/100 != 2 {
		t.Errorf("it is ready, and a sale is %d %s", r.status, r.body)
	}
}

// A pool of which all connections are in use says nothing, and does not keep the probe for long.
func TestABusyPoolIsNoOutage(t *testing.T) {
	t.Parallel()
	pool := redis.NewClient(&redis.Options{Addr: servers.Redis(t).Addr, PoolSize: 1, ContextTimeoutEnabled: true})
	defer pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	busy := pool.Subscribe(ctx, "nothing") // of a connection of its own
	defer busy.Close()
	conn := pool.Conn() // the only one of the pool
	defer conn.Close()
	if err := conn.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	check := through(func(context.Context) error { asked++; return nil }, []redis.UniversalClient{pool})
	if err := check(ctx); err != nil || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

// Redis is not ready before the pools of the requests are: go-redis lets a pool that could not connect refuse for a
// second without a try.
func TestAPoolThatCannotConnectIsAnOutage(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	check := through(func(context.Context) error { return nil }, []redis.UniversalClient{client})
	if err := check(t.Context()); !errors.Is(err, lock.ErrDown) {
		t.Errorf("%v, want down", err)
	}
}

// buy asks for one unit.
func (i *instance) buy(sku string) reply {
	return i.ask(http.MethodPost, "/deduct_stock_atomic?sku="+sku)
}
