package stacktest

import (
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
)

// A TLSRedis is a Redis with a second port, for TLS. Its clients must present a certificate of the CA only after
// [TLSRedis.Set] has set tls-auth-clients to "yes".
type TLSRedis struct {
	*stack.Server
	TLSAddr string
}

// RedisTLS starts a Redis that presents that certificate.
func RedisTLS(t testing.TB, p Pair, ca string) *TLSRedis {
	t.Helper()
	r := &TLSRedis{Server: Redis(t)}
	r.Set(t, "tls-cert-file", p.Cert, "tls-key-file", p.Key, "tls-ca-cert-file", ca, "tls-auth-clients", "no")
	for range 10 { // another program may take the port
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r.TLSAddr = free.Addr().String()
		_, port, _ := net.SplitHostPort(r.TLSAddr)
		_ = free.Close()
		if err = r.set(t, "tls-port", port); err == nil {
			return r
		}
		t.Log(err)
	}
	t.Fatal("Redis gets no port for TLS")
	return nil
}

// Set sets parameters of CONFIG SET, in pairs, in one step. Redis then reads the files of certificates again.
func (r *TLSRedis) Set(t testing.TB, pairs ...string) {
	t.Helper()
	if err := r.set(t, pairs...); err != nil {
		t.Fatal(err)
	}
}

func (r *TLSRedis) set(t testing.TB, pairs ...string) error {
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer client.Close()
	args := []any{"CONFIG", "SET"}
	for _, p := range pairs {
		args = append(args, p)
	}
	return client.Do(t.Context(), args...).Err()
}

// MariaDBTLS starts a MariaDB that presents that certificate, and returns a DSN for its empty database. FLUSH SSL makes
// it read the files again.
func MariaDBTLS(t testing.TB, p Pair, ca string) (dsn string) {
	t.Helper()
	s := Start(t, stack.Options{
		Want: []stack.Kind{stack.MySQL}, More: map[stack.Kind][]string{stack.MySQL: {
			"--ssl-cert=" + p.Cert, "--ssl-key=" + p.Key, "--ssl-ca=" + ca,
		}},
	})
	return real(t, s, stack.MySQL).URL
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
