package stack_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
)

// TestServersPauseAndComeBack: one sentence for each thing that a fault lab does to a server.
func TestServersPauseAndComeBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    stack.Options
		put  func(ctx context.Context, s *stack.Server) error
		get  func(ctx context.Context, s *stack.Server) (found bool, err error)
		kept bool // the data is there after Kill and Restart
	}{
		{"redis forgets", stack.Options{Want: []stack.Kind{stack.Redis}}, redisPut, redisGet, false},
		{
			"redis with AOF remembers",
			stack.Options{Want: []stack.Kind{stack.Redis}, AOF: true},
			redisPut, redisGet,
			true,
		},
		{"zookeeper remembers", stack.Options{Want: []stack.Kind{stack.ZooKeeper}}, zkPut, zkGet, true},
		{"mysql remembers", stack.Options{Want: []stack.Kind{stack.MySQL}}, mysqlPut, mysqlGet, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.o)
			server := need(t, s, string(c.o.Want[0]))
			ask := func(limit time.Duration) (bool, error) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				return c.get(ctx, server)
			}
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			ok(c.put(ctx, server))

			ok(server.Pause())
			if found, err := ask(400 * time.Millisecond); err == nil {
				t.Errorf("a paused server answered (found: %v)", found)
			}
			ok(server.Resume())
			if found, err := ask(time.Minute); err != nil || !found {
				t.Fatalf("after Resume: found %v, %v; want the data", found, err)
			}

			exited, addr := server.Exited(), server.Addr
			ok(server.Kill())
			<-exited
			if server.Pid() != 0 || listens(addr) {
				t.Errorf("after Kill: pid %d, listens %v; want it gone", server.Pid(), listens(addr))
			}
			if err := server.Pause(); err == nil {
				t.Error("a killed server can be paused")
			}
			ok(server.Kill())
			ok(server.Restart(ctx))
			if found, err := ask(time.Minute); err != nil || found != c.kept {
				t.Errorf("after Kill and Restart: found %v, %v; want %v", found, err, c.kept)
			}
			if server.Addr != addr {
				t.Errorf("after Restart: %s, was %s", server.Addr, addr)
			}

			ok(c.put(ctx, server))
			before := server.Pid()
			ok(server.Restart(ctx))
			if server.Pid() == before || server.Pid() == 0 {
				t.Errorf("after Restart: pid %d, was %d", server.Pid(), before)
			}
			if found, err := ask(time.Minute); err != nil || found != c.kept {
				t.Errorf("after Stop and Restart: found %v, %v; want %v", found, err, c.kept)
			}

			ok(server.Pause()) // a paused server must not hold up the end
		})
	}
}

func redisPut(ctx context.Context, s *stack.Server) error {
	db := redisClient(s)
	defer db.Close()
	return db.Set(ctx, "sku", "1", 0).Err()
}

func redisGet(ctx context.Context, s *stack.Server) (bool, error) {
	db := redisClient(s)
	defer db.Close()
	n, err := db.Exists(ctx, "sku").Result()
	return n == 1, err
}

func redisClient(s *stack.Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.URL, ContextTimeoutEnabled: true, MaxRetries: -1})
}

func zkPut(ctx context.Context, s *stack.Server) error {
	return zkDo(ctx, s, func(c *zk.Conn) error {
		_, err := c.CreateContainer("/sku", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}

func zkGet(ctx context.Context, s *stack.Server) (found bool, err error) {
	err = zkDo(ctx, s, func(c *zk.Conn) error {
		var err error
		found, _, err = c.Exists("/sku")
		return err
	})
	return found, err
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func zkDo(ctx context.Context, s *stack.Server, do func(*zk.Conn) error) error {
	conn, _, err := zk.Connect([]string{s.URL}, 5*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do(conn) }()
	select {
	case err = <-done:
		conn.Close()
		return err
	case <-ctx.Done():
		conn.Close() // ends do
		<-done
		return ctx.Err()
	}
}

func mysqlPut(ctx context.Context, s *stack.Server) error {
	return mysqlDo(s, func(db *sql.DB) error {
		if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS sku (id INT PRIMARY KEY)"); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, "REPLACE INTO sku VALUES (1)")
		return err
	})
}

func mysqlGet(ctx context.Context, s *stack.Server) (found bool, err error) {
	err = mysqlDo(s, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM sku").Scan(&found)
	})
	return found, err
}

func mysqlDo(s *stack.Server, do func(*sql.DB) error) error {
	config, err := mysql.ParseDSN(s.URL)
	if err != nil {
		return fmt.Errorf("the URL of mysql is no DSN: %w", err)
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return do(db)
}
