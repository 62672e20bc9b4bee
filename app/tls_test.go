package app

import (
	"database/sql"
	"net/http"
	"strings"
	"testing"
	"time"

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
func redisOverTLS(t *testing.T, lone *breakable) {
	ours, theirs := lone.ca, servertest.NewCA(t, "theirs")
	member := ours.Issue(t, "member")
	redis := lone.redis
	tell(t, redis.Addr, "CONFIG SET tls-auth-clients yes")
	misnamed := strings.Replace(lone.secure, "127.0.0.1", "localhost", 1)
	with := func(addr string, pairs ...string) []string {
		return append(tlsArgs(pairs...), "--redis-url=rediss://"+addr, "--redis-timeout=500ms")
	}
	for _, row := range []tlsRow{
		{
			"a member",
			append(with(lone.secure, "ca", ours.File, "cert", member.Cert, "key", member.Key), "--redis-timeout=10s"),
			"", "",
		},
		{"another CA", with(lone.secure, "ca", theirs.File), refusedTLS, "unknown authority"},
		{"another name", with(misnamed, "ca", ours.File), refusedTLS, "match localhost"},
		{
			"no member", append(with(lone.secure, "ca", ours.File), "--redis-timeout=10s"), refusedTLS,
			"certificate required",
		},
		// Which time-out comes first is chance on a busy computer.
		{"TLS to a port without it", with(redis.Addr, "ca", ours.File), "no answer", "cause="},
		{"without TLS to a port with it", []string{"--redis-url=redis://" + lone.secure}, "reached", "cause="},
	} {
		t.Run(row.name, func(t *testing.T) { row.run(t) })
	}
}

// The nodes of a cluster, sentinels, and the master that they name, are reached as the first server is. A request whose
// reply is lost is not sent again by the client: a script would run twice.
func TestEveryServerOfRedisIsReachedOverTLS(t *testing.T) {
	for url, secure := range map[string]bool{
		"rediss://a:1": true, "rediss://a:1?addr=b:1": true, "rediss://a:1?master_name=m&addr=b:1": true,
		"redis://a:1?addr=b:1": false,
	} {
		a := &App{cfg: mustConfigure(t)}
		a.serverTLS = a.readServerTLS
		o, err := a.redisOptions(url)
		if err != nil || (o.Dialer != nil) != secure {
			t.Errorf("%s: over TLS %t, %v", url, err == nil && o.Dialer != nil, err)
		}
		if err == nil && o.MaxRetries != -1 {
			t.Errorf("%s: %d retries", url, o.MaxRetries)
		}
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

func mysqlOverTLS(t *testing.T, lone *breakable) {
	ours, theirs := lone.ca, servertest.NewCA(t, "theirs")
	member := ours.Issue(t, "member")
	root := lone.dsn
	openRoot(t, root,
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
}
