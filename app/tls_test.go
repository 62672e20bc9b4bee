package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// tlsArgs returns flags of the settings below a prefix, such as redis-tls.
func tlsArgs(prefix string, pairs ...string) []string {
	args := []string{"--" + prefix + "-enabled"}
	for i := 0; i < len(pairs); i += 2 {
		args = append(args, "--"+prefix+"-"+pairs[i]+"="+pairs[i+1])
	}
	return args
}

func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := servertest.NewCA(t, "ours"), servertest.NewCA(t, "theirs")
	member := ours.Issue(t, "member")
	server := func(hosts ...string) *servertest.TLSRedis {
		return servertest.RedisTLS(t, ours.Issue(t, hosts...), ours.File)
	}
	good, misnamed, closed := server("127.0.0.1"), server("redis.example"), server("127.0.0.1")
	late := servertest.RedisTLS(t, ours.IssueExpired(t, "127.0.0.1"), ours.File)
	closed.Set(t, "tls-auth-clients", "yes")
	with := func(addr string, pairs ...string) []string {
		return append(tlsArgs("redis-tls", pairs...), "--redis-addrs="+addr)
	}
	plain := []string{"--redis-addrs=" + good.Secure}
	for _, row := range []tlsRow{
		{"right", with(good.Secure, "ca", ours.File), "", ""},
		{"another name that is right", with(misnamed.Secure, "ca", ours.File, "server-name", "redis.example"), "", ""},
		{"a member", with(closed.Secure, "ca", ours.File, "cert", member.Cert, "key", member.Key), "", ""},
		{"TLS 1.3", append(with(good.Secure, "ca", ours.File), "--tls-min-version=1.3"), "", ""},
		{"another CA", with(good.Secure, "ca", theirs.File), refusedTLS, "unknown authority"},
		{"expired", with(late.Secure, "ca", ours.File), refusedTLS, "expired"},
		{"another name", with(misnamed.Secure, "ca", ours.File), refusedTLS, "IP SANs"},
		{"no member", with(closed.Secure, "ca", ours.File), refusedTLS, "certificate required"},
		// Which time-out comes first is chance on a busy computer. Package credentials tests what a handshake says.
		{
			"TLS to a port without it", append(with(good.Addr, "ca", ours.File), "--redis-timeout=500ms"),
			"no answer", "cause=",
		},
		{"without TLS to a port with it", plain, "reached", "cause="},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t, "--stores-enabled=redis", "--store=redis")
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
		"CREATE USER secure@'127.0.0.1' REQUIRE SSL", "GRANT ALL ON *.* TO secure@'127.0.0.1'",
		"CREATE USER member@'127.0.0.1' REQUIRE X509", "GRANT ALL ON *.* TO member@'127.0.0.1'")
	secure, closed := servertest.AsUser(t, root, "secure", ""), servertest.AsUser(t, root, "member", "")
	with := func(dsn string, pairs ...string) []string {
		return append(tlsArgs("mysql-tls", pairs...), "--mysql-dsn="+dsn)
	}
	noTLS := servertest.MariaDB(t)
	t.Run("rows", func(t *testing.T) {
		for _, row := range []tlsRow{
			{"right", with(secure, "ca", ours.File), "", ""},
			{"a member", with(closed, "ca", ours.File, "cert", member.Cert, "key", member.Key), "", ""},
			{"another CA", with(secure, "ca", theirs.File), refusedTLS, "unknown authority"},
			{"another name", with(secure, "ca", ours.File, "server-name", "db.example"), refusedTLS, "match db"},
			{"no member", with(closed, "ca", ours.File), "access denied", "Access denied"},
			{"without TLS for a user with it", []string{"--mysql-dsn=" + secure}, "access denied", "Access denied"},
			{"TLS to a server without it", with(noTLS, "ca", ours.File), "reached", "does not support TLS"},
		} {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				row.run(t, "--stores-enabled=mysql", "--store=mysql")
			})
		}
	})

	// A server whose certificate expires is down, and is up again by itself when the certificate is renewed.
	i := tlsRow{args: with(secure, "ca", ours.File)}.run(t, "--stores-enabled=mysql", "--store=mysql")
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

// Every node of redlock is reached over TLS.
func TestRedlockOverTLS(t *testing.T) {
	t.Parallel()
	ca := servertest.NewCA(t, "ca")
	pair := ca.Issue(t, "127.0.0.1")
	var addrs []string
	for range 3 {
		addrs = append(addrs, servertest.RedisTLS(t, pair, ca.File).Secure)
	}
	i := begin(t, backends(append(tlsArgs("redis-tls", "ca", ca.File),
		"--redis-addrs="+addrs[0], "--stores-enabled=redis", "--redlock-addrs="+strings.Join(addrs, ","),
		"--redlock-node-timeout=5s", "--redlock-quarantine=-1s")...)...)
	i.ready(t, "redis", "redlock")
	if r := i.ask(http.MethodPost, "/deduct_stock_redlock?quantity=1"); r.status != http.StatusOK {
		t.Errorf("a sale: %d %s", r.status, r.body)
	}
}

// Every node of a Redis Cluster is reached over TLS, also those that the first one names.
func TestRedisClusterOverTLS(t *testing.T) {
	t.Parallel()
	ca, other := servertest.NewCA(t, "ca"), servertest.NewCA(t, "other")
	c, err := servertest.Start(t, server.Options{RedisTLS: presented(t, ca)}).StartRedisCluster(t.Context(), 3)
	servertest.Started(t, err)
	of := func(roots *servertest.CA) []string {
		return append(tlsArgs("redis-tls", "ca", roots.File), "--stores-enabled=redis", "--store=redis",
			"--redis-addrs="+c.Nodes[0].Secure, "--redis-cluster", "--redis-timeout=5s")
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
		return append(tlsArgs("redis-tls", "ca", roots.File), "--stores-enabled=redis", "--store=redis",
			"--redis-addrs="+strings.Join(sentinels, ","), "--redis-master-name="+x.Name, "--redis-timeout=5s")
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

// A listener is what an instance serves on, with files that change.
type tlsListener struct {
	*instance
	cert, key, clientCA string
}

// beginTLS starts an instance that serves over TLS, and a client that believes the CAs of roots.
func beginTLS(t *testing.T, p servertest.Pair, roots, clientCA string, args ...string) *tlsListener {
	t.Helper()
	dir := t.TempDir()
	l := &tlsListener{cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	l.present(t, p)
	args = append(args, "--tls-cert="+l.cert, "--tls-key="+l.key)
	if clientCA != "" {
		l.clientCA = filepath.Join(dir, "client-ca")
		servertest.CopyFiles(t, l.clientCA, clientCA)
		args = append(args, "--tls-client-ca="+l.clientCA)
	}
	l.instance = begin(t, backends(args...)...)
	l.url = "https://" + l.app.Addr().String()
	l.client = clientOf(t, roots, nil)
	return l
}

func (l *tlsListener) present(t *testing.T, p servertest.Pair) {
	t.Helper()
	servertest.CopyFiles(t, l.cert, p.Cert)
	servertest.CopyFiles(t, l.key, p.Key)
}

// clientOf returns a client that opens a connection for each request.
func clientOf(t *testing.T, roots string, p *servertest.Pair) *http.Client {
	t.Helper()
	text, err := os.ReadFile(roots)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if p != nil {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
}

func TestListenerOverTLS(t *testing.T) {
	t.Parallel()
	ca, clients := servertest.NewCA(t, "ca"), servertest.NewCA(t, "clients")
	redis := servertest.Redis(t)
	first := ca.Issue(t, "first", "127.0.0.1")
	l := beginTLS(t, first, ca.File, "", "--redis-addrs="+redis.Addr, "--stores-enabled=redis")
	l.becomes(t, http.StatusOK, `"ready"`)
	name := func() string {
		resp, err := l.client.Get(l.url + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 1 {
			t.Errorf("protocol %s", resp.Proto)
		}
		return resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "first" {
		t.Errorf("it presents %s", got)
	}
	l.present(t, ca.Issue(t, "second", "127.0.0.1"))
	if got := name(); got != "second" {
		t.Errorf("after the renewal it presents %s", got)
	}
	if r := (&instance{client: http.DefaultClient}).send(http.MethodGet,
		strings.Replace(l.url, "https", "http", 1)+"/livez"); r.status != http.StatusBadRequest {
		t.Errorf("without TLS: %d %s %v", r.status, r.body, r.err)
	}
	// The operators' listener has its own settings: it serves without TLS here.
	if r := l.send(http.MethodGet, l.admin+"/metrics"); r.status != http.StatusOK {
		t.Errorf("the operators: %d %v", r.status, r.err)
	}
	l.end(t)

	closed := beginTLS(t, first, ca.File, clients.File, "--redis-addrs="+redis.Addr, "--stores-enabled=redis",
		"--admin-tls-cert="+first.Cert, "--admin-tls-key="+first.Key)
	if r := closed.ask(http.MethodGet, "/livez"); !strings.Contains(fmt.Sprint(r.err), "certificate required") {
		t.Errorf("without a certificate: %d %v", r.status, r.err)
	}
	strange := ca.Issue(t, "stranger")
	closed.client = clientOf(t, ca.File, &strange)
	if r := closed.ask(http.MethodGet, "/livez"); r.err == nil {
		t.Errorf("with a certificate of another CA: %d", r.status)
	}
	member := clients.Issue(t, "member")
	closed.client = clientOf(t, ca.File, &member)
	if r := closed.ask(http.MethodGet, "/livez"); r.status != http.StatusOK {
		t.Errorf("with a certificate: %d %v", r.status, r.err)
	}
	admin := strings.Replace(closed.admin, "http:", "https:", 1)
	if r := closed.send(http.MethodGet, admin+"/metrics"); r.status != 200 {
		t.Errorf("the operators over TLS: %d %v", r.status, r.err)
	}
}

// While clients buy, the CA of everything is replaced by another one: of Redis, of MySQL, of the listener, and of the
// instance that is their client. Both CAs are trusted in between. No sale fails.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	before, after := servertest.NewCA(t, "before"), servertest.NewCA(t, "after")
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	own := servertest.Pair{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	theirs := servertest.Pair{Cert: filepath.Join(dir, "server.cert"), Key: filepath.Join(dir, "server.key")}
	put := func(to, from servertest.Pair) {
		servertest.CopyFiles(t, to.Cert, from.Cert)
		servertest.CopyFiles(t, to.Key, from.Key)
	}
	servertest.CopyFiles(t, ca, before.File)
	put(own, before.Issue(t, "instance 1"))
	put(theirs, before.Issue(t, "server 1", "127.0.0.1"))
	redis := servertest.RedisTLS(t, theirs, ca)
	redis.Set(t, "tls-auth-clients", "yes")
	dsn := servertest.MariaDBTLS(t, theirs, ca)
	db := openRoot(t, dsn, "CREATE USER member@'127.0.0.1' REQUIRE X509", "GRANT ALL ON *.* TO member@'127.0.0.1'")
	both := append(tlsArgs("redis-tls", "ca", ca, "cert", own.Cert, "key", own.Key),
		tlsArgs("mysql-tls", "ca", ca, "cert", own.Cert, "key", own.Key)...)
	l := beginTLS(t, before.Issue(t, "listener 1", "127.0.0.1"), ca, ca, append(both,
		"--redis-addrs="+redis.Secure, "--mysql-dsn="+servertest.AsUser(t, dsn, "member", ""))...)
	latest := func() *http.Client {
		p := servertest.Pair{Cert: own.Cert, Key: own.Key}
		return clientOf(t, ca, &p)
	}
	var client atomic.Pointer[http.Client]
	client.Store(latest())
	l.client = client.Load()
	l.ready(t, "redis", "mysql")
	stores := []string{"redis", "mysql"}
	for _, store := range stores { // the seed may come later
		l.must(t, http.MethodPut, "/v1/stock/rotated?quantity=1000000&store="+store, 200)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var sold [2]atomic.Int64
	for n := range 4 {
		all.Go(func() {
			for store := n % 2; ctx.Err() == nil; {
				of := stores[store]
				i := &instance{client: client.Load(), url: l.url}
				r := i.ask(http.MethodPost, "/deduct_stock_atomic?sku=rotated&store="+of)
				if r.status != http.StatusOK {
					t.Errorf("a sale of %s: %d %s %v", of, r.status, r.body, r.err)
					return
				}
				sold[store].Add(1)
			}
		})
	}
	defer all.Wait()
	defer cancel()
	// Each step waits for sales that began after it.
	some := func() {
		was := [2]int64{sold[0].Load(), sold[1].Load()}
		servertest.Eventually(t, time.Minute, "sales after a step", func() (bool, string) {
			now := [2]int64{sold[0].Load(), sold[1].Load()}
			return t.Failed() || now[0] > was[0]+5 && now[1] > was[1]+5, fmt.Sprint(now)
		})
	}
	reload := func() {
		redis.Set(t, "tls-cert-file", theirs.Cert, "tls-key-file", theirs.Key, "tls-ca-cert-file", ca)
		exec(t, db, "FLUSH SSL")
		client.Store(latest())
		some()
	}
	some()
	trust := func(files ...string) {
		servertest.CopyFiles(t, ca, files...)
		servertest.CopyFiles(t, l.clientCA, files...)
		reload()
	}
	trust(before.File, after.File)
	put(theirs, after.Issue(t, "server 2", "127.0.0.1"))
	l.present(t, after.Issue(t, "listener 2", "127.0.0.1"))
	reload()
	put(own, after.Issue(t, "instance 2"))
	reload()
	trust(after.File)
}
