package app

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// A row of a test of TLS: what an instance is given, and what comes of it.
type tlsRow struct {
	name   string
	args   []string
	reason string // in /readyz; "": it is ready
	cause  string // in the log
}

// run starts an instance for each row, which is ready or says why not, and does not say where.
func (row tlsRow) run(t *testing.T, common ...string) *instance {
	t.Helper()
	i := begin(t, backends(append(common, row.args...)...)...)
	if row.reason == "" {
		i.becomes(t, http.StatusOK, `"ready"`)
		if r := i.ask(http.MethodPost, "/deduct_stock_atomic?quantity=1"); r.status != http.StatusOK {
			t.Errorf("a sale: %d %s", r.status, r.body)
		}
		return i
	}
	i.becomes(t, http.StatusServiceUnavailable, row.reason)
	body := i.ask(http.MethodGet, "/readyz").body
	for _, inside := range []string{".pem", "x509", "127.0.0.1", row.cause} {
		if strings.Contains(body, inside) {
			t.Errorf("/readyz says %q: %s", inside, body)
		}
	}
	servertest.Eventually(t, time.Minute, "the log has the cause", func() (bool, string) {
		return strings.Contains(i.log.String(), row.cause), row.cause
	})
	if r := i.ask(http.MethodPost, "/deduct_stock_atomic?quantity=1"); r.status != http.StatusServiceUnavailable {
		t.Errorf("a sale: %d %s", r.status, r.body)
	}
	return i
}

const refusedTLS = "over TLS"

// tlsArgs returns flags of the settings below server_tls.
func tlsArgs(pairs ...string) (args []string) {
	for i := 0; i < len(pairs); i += 2 {
		args = append(args, "--server-tls-"+pairs[i]+"="+pairs[i+1])
	}
	return args
}

// The server asks for the certificate of a client, and is itself "127.0.0.1", but not "localhost".
func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := servertest.NewCA(t, "ours"), servertest.NewCA(t, "theirs")
	member := ours.Issue(t, "member")
	redis := servertest.RedisTLS(t, ours.Issue(t, "127.0.0.1"), ours.File)
	redis.Set(t, "tls-auth-clients", "yes")
	misnamed := strings.Replace(redis.Secure, "127.0.0.1", "localhost", 1)
	with := func(addr string, pairs ...string) []string {
		return append(tlsArgs(pairs...), "--redis-url=rediss://"+addr, "--redis-timeout=500ms")
	}
	for _, row := range []tlsRow{
		{
			"a member",
			append(with(redis.Secure, "ca", ours.File, "cert", member.Cert, "key", member.Key), "--redis-timeout=10s"),
			"", "",
		},
		{"another CA", with(redis.Secure, "ca", theirs.File), refusedTLS, "unknown authority"},
		{"another name", with(misnamed, "ca", ours.File), refusedTLS, "match localhost"},
		{
			"no member", append(with(redis.Secure, "ca", ours.File), "--redis-timeout=10s"), refusedTLS,
			"certificate required",
		},
		// Which time-out comes first is chance on a busy computer.
		{"TLS to a port without it", with(redis.Addr, "ca", ours.File), "no answer", "cause="},
		{"without TLS to a port with it", []string{"--redis-url=redis://" + redis.Secure}, "reached", "cause="},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

// openRoot opens a pool of root, without TLS.
func openRoot(t *testing.T, dsn string, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec(t, db, statements...)
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func TestMySQLOverTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := servertest.NewCA(t, "ours"), servertest.NewCA(t, "theirs")
	member, pair := ours.Issue(t, "member"), ours.Issue(t, "127.0.0.1")
	root := servertest.MariaDBTLS(t, pair, ours.File)
	db := openRoot(t, root,
		"CREATE USER member@'127.0.0.1' REQUIRE X509", "GRANT ALL ON *.* TO member@'127.0.0.1'")
	plain := servertest.AsUser(t, root, "member", "")
	secure := plain + "?tls=true"
	if strings.Contains(plain, "?") {
		secure = plain + "&tls=true"
	}
	with := func(ca *servertest.CA, dsn string) []string {
		return append(tlsArgs("ca", ca.File, "cert", member.Cert, "key", member.Key),
			"--mysql-dsn="+dsn, "--store=mysql")
	}
	misnamed := strings.Replace(secure, "127.0.0.1", "localhost", 1)
	t.Run("rows", func(t *testing.T) {
		for _, row := range []tlsRow{
			{"a member", with(ours, secure), "", ""},
			{"another CA", with(theirs, secure), refusedTLS, "unknown authority"},
			{"another name", with(ours, misnamed), refusedTLS, "match localhost"},
			{
				"no member", append(tlsArgs("ca", ours.File), "--mysql-dsn="+secure, "--store=mysql"), "access denied",
				"Access denied",
			},
			{"without TLS", []string{"--mysql-dsn=" + plain, "--store=mysql"}, "access denied", "Access denied"},
		} {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				row.run(t)
			})
		}
	})
	m, err := OpenMigrator(t.Context(), mustConfigure(t, with(ours, secure)...))
	if err != nil {
		t.Fatalf("stock migrate, with a certificate: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}

	// A server whose certificate expires is down, and is up again by itself when the certificate is renewed.
	i := tlsRow{args: with(ours, secure)}.run(t)
	present := func(p servertest.Pair) {
		servertest.CopyFiles(t, pair.Cert, p.Cert)
		servertest.CopyFiles(t, pair.Key, p.Key)
		exec(t, db, "FLUSH SSL")
		killOthers(t, db)
	}
	present(ours.IssueExpired(t, "127.0.0.1"))
	i.becomes(t, http.StatusServiceUnavailable, refusedTLS)
	present(ours.Issue(t, "127.0.0.1"))
	i.becomes(t, http.StatusOK, `"ready"`)
}

// killOthers closes all other connections, so that their clients connect again.
func killOthers(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(),
		"SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user <> 'system user'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_, _ = db.ExecContext(t.Context(), fmt.Sprint("KILL ", id)) // it may be gone
	}
}

// Every node of a Redis Cluster is reached over TLS, also those that the first one names.
func TestRedisClusterOverTLS(t *testing.T) {
	t.Parallel()
	ca, other := servertest.NewCA(t, "ca"), servertest.NewCA(t, "other")
	c, err := servertest.Start(t, server.Options{RedisTLS: presented(t, ca)}).StartRedisCluster(t.Context(), 3)
	servertest.Started(t, err)
	of := func(roots *servertest.CA) []string {
		node := c.Nodes[0].Secure
		return append(tlsArgs("ca", roots.File), "--redis-url=rediss://"+node+"?addr="+node, "--redis-timeout=5s")
	}
	i := tlsRow{args: of(ca)}.run(t)
	sold := make(map[*server.Server]bool)
	for n := 0; len(sold) < len(c.Nodes); n++ {
		sku := fmt.Sprint("sku-", n)
		owner, err := c.Owner(t.Context(), "stock:{"+sku+"}")
		if err != nil {
			t.Fatal(err)
		}
		i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=10", http.StatusOK)
		i.must(t, http.MethodPost, "/deduct_stock_atomic?sku="+sku, http.StatusOK)
		sold[owner] = true
	}
	onlyOverTLS(t, c.Nodes)
	tlsRow{args: of(other), reason: refusedTLS, cause: "unknown authority"}.run(t)
}

// Sentinels, and the master that they name, are reached over TLS, also after a fail-over.
func TestSentinelsOverTLS(t *testing.T) {
	t.Parallel()
	ca, other := servertest.NewCA(t, "ca"), servertest.NewCA(t, "other")
	s := servertest.Start(t, server.Options{RedisTLS: presented(t, ca)})
	x, err := s.StartSentinels(t.Context(), server.SentinelOptions{})
	servertest.Started(t, err)
	var sentinels []string
	for _, sentinel := range x.Sentinels {
		sentinels = append(sentinels, sentinel.Secure)
	}
	of := func(roots *servertest.CA) []string {
		url := "rediss://" + sentinels[0] + "?master_name=" + x.Name + "&addr=" + strings.Join(sentinels, "&addr=")
		return append(tlsArgs("ca", roots.File), "--redis-url="+url, "--redis-timeout=5s")
	}
	i := tlsRow{args: of(ca)}.run(t)
	tlsRow{args: of(other), reason: refusedTLS, cause: "unknown authority"}.run(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	old, err := x.Master(ctx)
	if err != nil {
		t.Fatal(err)
	}
	onlyOverTLS(t, append(x.Redis, x.Sentinels...))
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.AwaitMaster(ctx, old); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "it sells on the new master", func() (bool, string) {
		r := i.ask(http.MethodPost, "/deduct_stock_atomic?quantity=1")
		return r.status == http.StatusOK, r.body
	})
}

// presented returns what the servers of a cluster present, to each other, too.
func presented(t *testing.T, ca *servertest.CA) *server.TLS {
	t.Helper()
	pair := ca.Issue(t, "127.0.0.1")
	return &server.TLS{Cert: pair.Cert, Key: pair.Key, CA: ca.File}
}

// onlyOverTLS checks that the port without TLS of each server has no client but the one that asks.
func onlyOverTLS(t *testing.T, servers []*server.Server) {
	t.Helper()
	for _, server := range servers {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1})
		list, err := client.ClientList(t.Context()).Result()
		_ = client.Close()
		if err != nil {
			t.Fatal(err)
		}
		if plain := strings.Count(list, "laddr="+server.Addr); plain != 1 || strings.Count(list, "\n") < 2 {
			t.Errorf("%s: %d clients without TLS:\n%s", server.Name, plain-1, list)
		}
	}
}
