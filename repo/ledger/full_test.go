package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// A seller sells one unit in one of the ways in which a store can.
type seller struct {
	name string
	sell func(t *testing.T) error
	want func(t *testing.T, sold int) // that many were sold, and nothing else was written
}

func sellers(t *testing.T, d desk) []seller {
	s := d.shop()
	of := func(name string, sell func(ctx context.Context, o service.Order) error) seller {
		sku := newSKU("full")
		mustSet(t, s, sku, 100_000)
		return seller{
			name,
			func(t *testing.T) error {
				o := order(mustRead(t, s, sku))
				o.RequestID = strings.Repeat("r", 255)
				return sell(short(t), o)
			},
			func(t *testing.T, sold int) {
				stock := mustRead(t, s, sku)
				if stock.Sold != int64(sold) || stock.Quantity+stock.Sold != stock.Initial {
					t.Errorf("%s: %+v, want %d sold", name, stock, sold)
				}
			},
		}
	}
	list := []seller{
		of("Write", s.Write),
		of("Swap", s.Swap),
		of("Deduct", func(ctx context.Context, o service.Order) error { _, err := s.Deduct(ctx, o); return err }),
	}
	if m, is := s.(service.Transactor); is {
		list = append(list, of("Transact", func(ctx context.Context, o service.Order) error {
			return m.Transact(ctx, o.SKU, false, func(ctx context.Context, tx service.Store) error {
				if _, err := tx.Read(ctx, o.SKU); err != nil {
					return err
				}
				return tx.Write(ctx, o)
			})
		}))
	}
	sku := stocked(t, d, newSKU("full-ledger"), 100_000)
	n := 0
	return append(list, seller{
		"Step",
		func(t *testing.T) error {
			n++
			about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed(fmt.Sprint(n))}
			_, _, err := d.Step(short(t), about, place(newID(), "ann", line(sku, 1)))
			return err
		},
		func(t *testing.T, sold int) {
			if stock := mustRead(t, s, sku); stock.Sold != int64(sold) {
				t.Errorf("Step: %+v, want %d sold", stock, sold)
			}
		},
	})
}

// What a server refuses because its disk is full was not written, and the error says both: for every way to sell, and
// for the probe of the demonstration and of the ledger. With room, all of them go on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := stacktest.OnDisk(t, stack.MySQL, "220m")
	db := migrated(t, disk.Server.URL)
	m, probe := repo.NewMySQL(db), repo.NewMySQL(openMySQL(t, disk.Server.URL))
	probe.ProbeOf(m)
	list := sellers(t, deskOn(t, m))
	sold := make([]int, len(list))
	for i, s := range list {
		if err := s.sell(t); err != nil {
			t.Fatalf("%s, with room: %v", s.name, err)
		}
		sold[i]++
	}
	disk.Fill(t)
	for i, s := range list {
		var err error
		for err == nil && sold[i] < 20_000 { // the files have some room of their own
			if err = s.sell(t); err == nil {
				sold[i]++
			}
		}
		full(t, s.name, err)
		s.want(t, sold[i])
	}
	full(t, "the probe of sales", stock.NewMySQL(probe).CanWrite(short(t)))
	full(t, "the probe of steps", ledger.NewMySQL(probe).CanWrite(short(t)))
	disk.Free(t)
	for i, s := range list {
		if err := s.sell(t); err != nil {
			t.Errorf("%s, with room again: %v", s.name, err)
			continue
		}
		s.want(t, sold[i]+1)
	}
	for _, err := range []error{stock.NewMySQL(probe).CanWrite(short(t)), ledger.NewMySQL(probe).CanWrite(short(t))} {
		if err != nil {
			t.Errorf("the probe, with room again: %v", err)
		}
	}
}

// full wants an error that says that there is no room, and that nothing was written.
func full(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, lock.ErrFull) || !errors.Is(err, lock.ErrDown) || errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("%s: %v, want one of a server without room", what, err)
	}
}

// What Redis refuses for a reason of its own was not written, and the probe is refused for the same reason.
func TestRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, says string
		full       bool
		begin, end func(t *testing.T, c *redis.Client, dir string) error
	}{
		{
			"out of memory", "out-of-memory", true,
			func(t *testing.T, c *redis.Client, _ string) error {
				return c.ConfigSet(t.Context(), "maxmemory", "1mb").Err()
			},
			func(t *testing.T, c *redis.Client, _ string) error {
				return c.ConfigSet(t.Context(), "maxmemory", "0").Err()
			},
		},
		{
			"too few replicas", "too-few-replicas", false,
			func(t *testing.T, c *redis.Client, _ string) error {
				return c.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err()
			},
			func(t *testing.T, c *redis.Client, _ string) error {
				return c.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err()
			},
		},
		{
			"a replica", "read-only-replica", false,
			func(t *testing.T, c *redis.Client, _ string) error {
				return c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()
			},
			func(t *testing.T, c *redis.Client, _ string) error {
				return c.ReplicaOf(t.Context(), "NO", "ONE").Err()
			},
		},
		{
			"cannot save", "cannot-save", false,
			func(t *testing.T, c *redis.Client, dir string) error {
				// A folder in the place of the file: root may write where it has no permission.
				if err := os.MkdirAll(dir+"/dump.rdb/in-the-way", 0o700); err != nil {
					return err
				}
				if err := c.ConfigSet(t.Context(), "save", "3600 1").Err(); err != nil {
					return err
				}
				if err := c.BgSave(t.Context()).Err(); err != nil {
					return err
				}
				stacktest.Eventually(t, time.Minute, "saving fails", func() (bool, string) {
					info := c.Info(t.Context(), "persistence").Val()
					return strings.Contains(info, "rdb_last_bgsave_status:err"), info
				})
				return nil
			},
			func(t *testing.T, c *redis.Client, _ string) error { return c.ConfigSet(t.Context(), "save", "").Err() },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := stacktest.Redis(t)
			c := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer c.Close()
			r := repo.NewRedis(dialRedis(t, server.Addr))
			list := sellers(t, deskOn(t, r))
			for _, s := range list {
				if err := s.sell(t); err != nil {
					t.Fatalf("%s, when all is well: %v", s.name, err)
				}
			}
			if err := r.CanWrite(short(t)); err != nil {
				t.Errorf("the probe, when all is well: %v", err)
			}
			dir := c.ConfigGet(t.Context(), "dir").Val()["dir"]
			if err := row.begin(t, c, dir); err != nil {
				t.Fatal(err)
			}
			check := func(what string, err error) {
				t.Helper()
				var down *lock.DownError
				if !errors.As(err, &down) || down.Reason != row.says || down.Full != row.full ||
					errors.Is(err, service.ErrOutcomeUnknown) {
					t.Errorf("%s: %v, want a DownError that says %q, full: %t", what, err, row.says, row.full)
				}
			}
			for _, s := range list {
				check(s.name, s.sell(t))
			}
			check("the probe", r.CanWrite(short(t)))
			if err := row.end(t, c, dir); err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				s.want(t, 1)
				if err := s.sell(t); err != nil {
					t.Errorf("%s, when all is well again: %v", s.name, err)
				}
				s.want(t, 2)
			}
			if err := r.CanWrite(short(t)); err != nil {
				t.Errorf("the probe, when all is well again: %v", err)
			}
			if n := c.Exists(t.Context(), "stock:probe").Val(); n != 0 {
				t.Error("the probe leaves a key")
			}
		})
	}
}

// What the probes write is gone when they have answered: one round trip, and nothing left.
func TestProbesLeaveNothing(t *testing.T) {
	t.Parallel()
	p, through, _ := repotest.Proxied(t, "mysql")
	m := stock.NewMySQL(through.(*repo.MySQL))
	if err := m.CanWrite(short(t)); err != nil { // it connects
		t.Fatal(err)
	}
	trips(t, p, true, "CanWrite", 1, func() error { return m.CanWrite(short(t)) })
	trips(t, p, true, "CanWrite of the ledger", 1, func() error { return ledger.NewMySQL(m.MySQL).CanWrite(short(t)) })
	db := openMySQL(t, sharedMySQL(t))
	for _, left := range []string{
		"SELECT COUNT(*) FROM orders WHERE id LIKE 'probe%'",
		"SELECT COUNT(*) FROM customer_orders WHERE id LIKE 'probe%'",
		"SELECT COUNT(*) FROM movements WHERE sku LIKE 'probe%'",
	} {
		var n int
		if err := db.Raw(left).Row().Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", left, n, err)
		}
	}
	pr, r, _ := repotest.Proxied(t, "redis")
	mustSet(t, repotest.ShopOn(r), newSKU("probed"), 1)
	if err := r.(*repo.Redis).CanWrite(short(t)); err != nil { // the server learns the script
		t.Fatal(err)
	}
	trips(t, pr, true, "CanWrite", 1, func() error { return r.(*repo.Redis).CanWrite(short(t)) })
}

// A COMMIT that waits for an operator's lock and gives up is rolled back: LockWaitTimeout is NotCommitted.
func TestACommitThatGivesUpIsRolledBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	db := migrated(t, stacktest.MariaDB(t))
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	run := func(c *sql.Conn, statements ...string) (err error) {
		for _, statement := range statements {
			if _, err = c.ExecContext(short(t), statement); err != nil {
				return err
			}
		}
		return nil
	}
	clerk, err1 := pool.Conn(t.Context())
	operator, err2 := pool.Conn(t.Context())
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer clerk.Close()
	defer operator.Close()
	err = errors.Join(
		run(clerk, "SET SESSION lock_wait_timeout = 1", "START TRANSACTION",
			"INSERT INTO deliveries VALUES ('a', 1, 1)"),
		run(operator, "BACKUP STAGE START", "BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL",
			"BACKUP STAGE BLOCK_COMMIT"))
	if err != nil {
		t.Fatal(err)
	}
	err = run(clerk, "COMMIT")
	if n := mysqlerr.Number(err); n != mysqlerr.LockWaitTimeout {
		t.Errorf("%v, want %d", err, mysqlerr.LockWaitTimeout)
	}
	if err := run(operator, "BACKUP STAGE END"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := operator.QueryRowContext(short(t), "SELECT COUNT(*) FROM deliveries").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v; want none", n, err)
	}
}
