// Package servertest gives tests real servers, never mocks. A server is started when a test first asks for it, and
// stopped when the test ends.
//
// If a server is not installed, the test is skipped with the reason. With REQUIRE_BACKENDS=1 in the environment it
// fails.
package servertest

import (
	"errors"
	"net"
	"os"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/server"
)

// Redis starts a redis-server for this test alone (some 30 ms), without persistence. It can be paused, killed and
// restarted.
func Redis(t testing.TB) *server.Server {
	t.Helper()
	return Server(t, server.Redis)
}

// MariaDB starts a MariaDB for this test alone (some 2 s) and returns a DSN of go-sql-driver for its empty database.
// [Shared] is quicker for more than one test.
func MariaDB(t testing.TB) string {
	t.Helper()
	return Server(t, server.MySQL).URL
}

// Server starts a backend of any kind for this test alone.
func Server(t testing.TB, kind server.Kind) *server.Server {
	t.Helper()
	return real(t, Start(t, server.Options{Want: []server.Kind{kind}}), kind)
}

// GBK starts a MariaDB for this test alone that ignores the character set that a client asks for when it logs in, and
// uses GBK. In GBK a backslash can be the second byte of a character, so a value that was escaped for UTF-8 can end
// early and become SQL.
func GBK(t testing.TB) *server.Server {
	t.Helper()
	return real(t, Start(t, server.Options{Want: []server.Kind{server.MySQL}, More: map[server.Kind][]string{
		server.MySQL: {"--skip-character-set-client-handshake", "--character-set-server=gbk"},
	}}), server.MySQL)
}

// Injections returns texts that end a quoted value early and go on with SQL, if they are escaped for another character
// set than the session's.
func Injections() []string {
	return []string{
		"中'", `中\`, "中' OR 1=1 -- ", "中'; DROP TABLE locks; -- ", "中' UNION SELECT 1 -- ", `\'; DROP TABLE locks; -- `,
		`"中" OR ""="`, "库存 /* 中 */ # 中",
	}
}

// Needs skips a test that starts servers itself if this one is not installed: a stand-in would prove nothing.
func Needs(t testing.TB, kind server.Kind) {
	t.Helper()
	Server(t, kind)
}

// Start starts a stack for this test alone. The end of the test stops it.
func Start(t testing.TB, o server.Options) *server.Stack {
	t.Helper()
	s, err := server.Start(t.Context(), o)
	return StopAtEnd(t, s, err)
}

// Reserve returns an address of 127.0.0.1 on which nothing listens until the test ends, and its port. It is for another
// port of a server: see Options.More.
func Reserve(t testing.TB) (addr, port string) {
	t.Helper()
	addr, err := Start(t, server.Options{}).Reserve()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(addr)
	return addr, port
}

// StopAtEnd returns s, which the end of the test stops. It ends the test now if s did not start: err is not nil.
func StopAtEnd[S interface{ Stop() error }](t testing.TB, s S, err error) S {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Started ends the test unless err, with which servers were started, is nil: it skips the test if a server is not
// installed and may be missing.
func Started(t testing.TB, err error) {
	t.Helper()
	if missing, is := errors.AsType[*server.MissingError](err); is {
		skip(t, missing.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// skip skips the test for a missing server. With REQUIRE_BACKENDS=1 the test fails.
func skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("REQUIRE_BACKENDS") == "1" {
		t.Fatalf("REQUIRE_BACKENDS=1, but %s", reason)
	}
	t.Skip(reason)
}

// real returns the server of that kind. It ends the test if the server is missing, because a stand-in would prove
// nothing.
func real(t testing.TB, s *server.Stack, kind server.Kind) *server.Server {
	t.Helper()
	if reason, missing := s.Missing()[string(kind)]; missing {
		skip(t, reason)
	}
	return s.Server(string(kind))
}

// Rounds returns the number of repetitions in a test: all, or with go test -short, short.
func Rounds(all, short int) int {
	if testing.Short() {
		return short
	}
	return all
}

// Some returns the rows of a test, or with go test -short the first n of them.
func Some[Row any](n int, rows []Row) []Row {
	if testing.Short() {
		return rows[:min(n, len(rows))]
	}
	return rows
}

// IgnoreServers is for goleak.VerifyNone inside a test: every running server has a goroutine. goleak.VerifyTestMain
// does not need it.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction(reflect.TypeFor[server.Server]().PkgPath() + ".(*child).own")
}

// Galera starts a Galera cluster of n MariaDB nodes for this test alone (some 4 s for each node).
func Galera(t testing.TB, n int) *server.Galera {
	t.Helper()
	g, err := Start(t, server.Options{}).StartGalera(t.Context(), n)
	Started(t, err)
	return g
}

// RedisCluster starts a Redis Cluster for this test alone (some 3 s).
func RedisCluster(t testing.TB) *server.RedisCluster {
	t.Helper()
	c, err := Start(t, server.Options{}).StartRedisCluster(t.Context())
	Started(t, err)
	return c
}
