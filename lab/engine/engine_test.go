package engine_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab/engine"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// run tests servers, quickly.
func run(t *testing.T, ctx context.Context, o engine.Options) (*engine.Report, error) {
	t.Helper()
	o.Binary = program.Path(t)
	o.Plan.Stock, o.Plan.Concurrency, o.Plan.Recheck = 300, 12, new(time.Duration)
	o.Plan.Requests = 450
	o.Visits = 60
	report, err := engine.Run(ctx, o)
	if text, failed := json.Marshal(report); failed != nil || len(text) == 0 {
		t.Error(failed)
	}
	for _, p := range report.Parts {
		for _, r := range p.Runs {
			t.Logf("several writers %t, %s on %s: %s, %d accepted, %d oversold, %d lost", p.SeveralWriters,
				r.Plan.Strategy, r.Plan.Store, r.Verdict.Finding, r.Verdict.Accepted, r.Verdict.OversoldUnits,
				r.Verdict.LostUnits)
		}
		for _, r := range p.Refused {
			t.Logf("several writers %t, refused: %s on %s: %s", p.SeveralWriters, r.What, r.Store, r.Why)
		}
	}
	if c := report.Checkout; c != nil {
		t.Logf("checkout: %s", c.Verdict.Sentence.EN)
	}
	return report, err
}

// schemas lists the schemas of a server that are not its own.
func schemas(t *testing.T, addr string) (list []string) {
	t.Helper()
	db := open(t, "root@tcp("+addr+")/?wsrep_sync_wait=1") // another node of a cluster may not have applied all yet
	rows, err := db.QueryContext(t.Context(), "SHOW DATABASES")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		theirs := []string{"mysql", "sys", "information_schema", "performance_schema", "stock", "orders"}
		if !slices.Contains(theirs, name) {
			list = append(list, name)
		}
	}
	return list
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// clean checks that a Redis has no key but those of others.
func clean(t *testing.T, others []string, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
		defer client.Close()
		if left, err := client.Keys(t.Context(), "*").Result(); err != nil || !slices.Equal(left, others) {
			t.Errorf("%s has the keys %q, %v; want %q", addr, left, err, others)
		}
	}
}

// On a MariaDB, a Redis and a ZooKeeper everything holds that promises to, and nothing is left behind: neither in a new
// schema, nor in one that was given.
func TestServersOnWhichAllHolds(t *testing.T) {
	t.Parallel()
	mysql, cache := servertest.Server(t, server.MySQL), servertest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: cache.Addr, Protocol: 2})
	defer client.Close()
	if err := client.Set(t.Context(), "lock:theirs", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	o := engine.Options{
		MySQL: []string{"root@tcp(" + mysql.Addr + ")/"}, Redis: "redis://" + cache.Addr,
		ZooKeeper:  []string{servertest.Server(t, server.ZooKeeper).URL},
		Strategies: []string{"none", "redis-watchdog", "zk-sequential", "mysql-get-lock", "atomic", "merged"},
	}
	for _, dsn := range []string{"root@tcp(" + mysql.Addr + ")/", mysql.URL} {
		o.MySQL = []string{dsn}
		report, err := run(t, t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if runs := report.Failed(); len(runs) > 0 || report.CheckoutFailed() || report.Undecided() > 0 {
			t.Errorf("%d runs are broken, and the checkout: %t", len(runs), report.CheckoutFailed())
		}
		if p := report.Parts; len(p) != 1 || len(p[0].Runs) != 12 || report.Checkout == nil {
			t.Errorf("%d parts", len(p))
		}
		raced := slices.ContainsFunc(report.Parts[0].Runs, func(r *loadtest.Result) bool { return r.Verdict.RaceSeen })
		if !raced {
			t.Error("no run without a lock lost an update: the load shows nothing")
		}
		if left := schemas(t, mysql.Addr); len(left) > 0 {
			t.Errorf("schemas are left: %q", left)
		}
		clean(t, []string{"lock:theirs"}, cache.Addr)
		if testing.Short() {
			break
		}
	}
	var tables int
	err := open(t, mysql.URL).QueryRow("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'stock'").
		Scan(&tables)
	if err != nil || tables > 0 {
		t.Errorf("%d tables are left in the schema that was given: %v", tables, err)
	}
}

// With one writer, which is declared, all holds on a Galera cluster. With three, the service refuses to sell, and a
// second part shows what becomes of it with a false declaration.
func TestGalera(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	g := servertest.Galera(t, 3)
	var dsns []string
	for _, node := range g.Nodes {
		dsns = append(dsns, "root@tcp("+node.Addr+")/")
	}
	o := engine.Options{
		MySQL: dsns[:1], Env: []string{"STOCK_MYSQL_SINGLE_WRITER=true"},
		Strategies: []string{"mysql-table", "mysql-get-lock", "pessimistic", "optimistic", "atomic", "merged"},
	}
	report, err := run(t, t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	runs := report.Failed()
	if len(runs) > 0 || report.CheckoutFailed() || len(report.Parts) != 1 || len(report.Parts[0].Runs) != 6 {
		t.Errorf("one writer: %d runs are broken, and the checkout: %t", len(runs), report.CheckoutFailed())
	}
	o.MySQL, o.Env = dsns, nil
	if report, err = run(t, t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p := report.Parts
	if len(p) != 2 || len(p[0].Runs) > 0 || len(p[0].Refused) != 6 {
		t.Fatalf("three writers are not refused: %+v", p)
	}
	if !p[1].SeveralWriters || len(p[1].Runs) != 6 {
		t.Errorf("with a false declaration: %d runs", len(p[1].Runs))
	}
	if report.Checkout == nil || report.CheckoutFailed() {
		t.Error("the order service, which writes to one node, has no right books")
	}
	// A node executes the statements of another a moment later.
	servertest.Eventually(t, time.Minute, "no schema is left", func() (bool, string) {
		left := schemas(t, g.Nodes[2].Addr)
		return len(left) == 0, fmt.Sprint(left)
	})
}

// A Redis Cluster has all strategies, and no checkout: the order service sells from MySQL.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := servertest.RedisCluster(t)
	report, err := run(t, t.Context(), engine.Options{
		Redis:      "redis://" + c.Addrs()[0] + "?addr=" + c.Addrs()[0],
		Strategies: []string{"atomic", "redis-watchdog", "segmented"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := report.Parts[0]
	if runs := report.Failed(); len(runs) > 0 || len(p.Runs) != 3 || report.Checkout != nil || len(p.Refused) > 0 {
		t.Errorf("%d runs, %d broken, refused: %+v", len(p.Runs), len(runs), p.Refused)
	}
	clean(t, []string{}, c.Addrs()...)
}

// What cannot be used is refused with the reason, and keeps what it has.
func TestRefusedServers(t *testing.T) {
	t.Parallel()
	mysql, cache := servertest.Server(t, server.MySQL), servertest.Redis(t)
	db := open(t, mysql.URL)
	for _, statement := range []string{
		"CREATE TABLE theirs (id INT)", "CREATE USER reader", "CREATE DATABASE shared", "CREATE USER stranger",
		"GRANT SELECT ON shared.* TO reader",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: cache.Addr, Protocol: 2})
	defer client.Close()
	if err := client.Set(t.Context(), "stock:origin", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	at := "@tcp(" + mysql.Addr + ")/"
	for _, row := range []struct {
		name string
		o    engine.Options
		want string
	}{
		{"no DSN", engine.Options{MySQL: []string{"bogus"}}, "DSN 1, such as user:password@tcp(host:3306)/"},
		{
			"two schemas",
			engine.Options{MySQL: []string{"root" + at + "a", "root" + at + "b"}},
			"the DSNs name two schemas, a and b",
		},
		{"nobody there", engine.Options{MySQL: []string{"root@tcp(127.0.0.1:1)/"}}, "cannot connect to MySQL"},
		{"a wrong password", engine.Options{MySQL: []string{"root:secret" + at}}, "Access denied"},
		{"not empty", engine.Options{MySQL: []string{mysql.URL}}, "the schema stock has 1 table:"},
		{"may not create", engine.Options{MySQL: []string{"stranger" + at}}, "cannot create the schema stock_engine_"},
		{"may only read", engine.Options{MySQL: []string{"reader" + at + "shared"}}, "needs all rights on the schema"},
		{
			"an instance's Redis",
			engine.Options{Redis: "redis://" + cache.Addr},
			"has the key stock:origin of an instance of this service",
		},
		{"no Redis", engine.Options{Redis: "redis://127.0.0.1:1"}, "cannot read Redis"},
		{
			"MySQL is made ready, and Redis is not",
			engine.Options{MySQL: []string{"root" + at}, Redis: "redis://" + cache.Addr},
			"has the key stock:origin",
		},
	} {
		_, err := run(t, t.Context(), row.o)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	if left := schemas(t, mysql.Addr); !slices.Equal(left, []string{"shared"}) {
		t.Errorf("schemas: %q", left)
	}
	if _, err := db.ExecContext(t.Context(), "SELECT * FROM theirs"); err != nil {
		t.Error(err)
	}
	clean(t, []string{"stock:origin"}, cache.Addr)
}

// An interrupted test leaves nothing behind.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := servertest.Server(t, server.MySQL)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	o := engine.Options{MySQL: []string{"root@tcp(" + server.Addr + ")/"}, Strategies: []string{"atomic", "none"}}
	o.Run = func(string, string) func(loadtest.Progress) { return func(loadtest.Progress) { interrupt() } }
	if _, err := run(t, ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if left := schemas(t, server.Addr); len(left) > 0 {
		t.Errorf("schemas are left: %q", left)
	}
}
