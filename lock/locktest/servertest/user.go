package servertest

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/server"
)

// A TLSRedis is a Redis with a second port, for TLS. Its clients must present a certificate of the CA only after
// [TLSRedis.Set] has set tls-auth-clients to "yes".
type TLSRedis struct{ *server.Server }

// RedisTLS starts a Redis that presents that certificate.
func RedisTLS(t testing.TB, p Pair, ca string) *TLSRedis {
	t.Helper()
	s := Start(t, server.Options{
		Want: []server.Kind{server.Redis}, RedisTLS: &server.TLS{Cert: p.Cert, Key: p.Key, CA: ca},
	})
	return &TLSRedis{real(t, s, server.Redis)}
}

// Set sets parameters of CONFIG SET, in pairs, in one step. Redis then reads the files of certificates again.
func (r *TLSRedis) Set(t testing.TB, pairs ...string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer client.Close()
	args := []any{"CONFIG", "SET"}
	for _, p := range pairs {
		args = append(args, p)
	}
	if err := client.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// MariaDBTLS starts a MariaDB that presents that certificate, and returns a DSN for its empty database. FLUSH SSL makes
// it read the files again.
func MariaDBTLS(t testing.TB, p Pair, ca string) (dsn string) {
	t.Helper()
	s := Start(t, server.Options{
		Want: []server.Kind{server.MySQL}, More: map[server.Kind][]string{server.MySQL: {
			"--ssl-cert=" + p.Cert, "--ssl-key=" + p.Key, "--ssl-ca=" + ca,
		}},
	})
	return real(t, s, server.MySQL).URL
}

// AsUser returns a DSN with another user and password.
func AsUser(t testing.TB, dsn, user, password string) string {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.User, c.Passwd = user, password
	return c.FormatDSN()
}
