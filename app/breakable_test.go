package app

import (
	"testing"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// A breakable is a Redis and a MariaDB that tests stop, reconfigure and empty, one test at a time.
type breakable struct {
	redis, mysql *server.Server
	secure       string          // the address of the Redis with TLS
	dsn          string          // of root
	ca           *servertest.CA  // of both, which are also reached over TLS
	pair         servertest.Pair // of the MariaDB
}

// TestServersThatBreak breaks the servers in one way after the other. Each part leaves them as they were.
func TestServersThatBreak(t *testing.T) {
	t.Parallel()
	lone := &breakable{ca: servertest.NewCA(t, "ours")}
	lone.pair = lone.ca.Issue(t, "127.0.0.1")
	pair := lone.ca.Issue(t, "127.0.0.1")
	var port string
	lone.secure, port = servertest.Reserve(t)
	stack := servertest.Start(t, server.Options{
		Want: []server.Kind{server.Redis, server.MySQL},
		More: map[server.Kind][]string{
			server.Redis: {
				"--tls-port", port, "--tls-auth-clients", "no",
				"--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key, "--tls-ca-cert-file", lone.ca.File,
			},
			server.MySQL: {
				"--ssl-cert=" + lone.pair.Cert, "--ssl-key=" + lone.pair.Key, "--ssl-ca=" + lone.ca.File,
				"--log-bin=binlog", "--server-id=1", "--binlog-format=MIXED",
			},
		},
	})
	lone.redis, lone.mysql = stack.Server("redis"), stack.Server("mysql")
	if lone.redis == nil || lone.redis.StandIn != "" || lone.mysql == nil {
		servertest.Needs(t, server.Redis)
		servertest.Needs(t, server.MySQL)
	}
	lone.dsn = lone.mysql.URL
	for _, part := range []struct {
		name string
		test func(*testing.T, *breakable)
	}{
		{"a server that stands still", standstill},
		{"ready is what a sale needs", readyIsWhatASaleNeeds},
		{"ready is what a sale in MySQL needs", readyIsWhatASaleInMySQLNeeds},
		{"statements in the binary log", statementsLogged},
		{"the documented user of Redis", documentedUser},
		{"Redis over TLS", redisOverTLS},
		{"MySQL over TLS", mysqlOverTLS},
	} {
		tell(t, lone.redis.Addr, "FLUSHALL")
		t.Run(part.name, func(t *testing.T) { part.test(t, lone) })
	}
}
