package repo_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// A lame client fails at one command, before it is sent.
type lame struct{ at, seen int }

var errLame = errors.New("no way to the server")

// fails counts commands, but not those with which the client greets the server on a new connection.
func (l *lame) fails(first redis.Cmder) bool {
	name := first.Name()
	return name != "hello" && name != "client" && l.count()
}

func (l *lame) count() bool {
	l.seen++
	return l.seen == l.at
}

func (*lame) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lame) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if l.fails(cmd) {
			cmd.SetErr(errLame)
			return errLame
		}
		return next(ctx, cmd)
	}
}

func (l *lame) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, list []redis.Cmder) error {
		if l.fails(list[0]) {
			for _, cmd := range list {
				cmd.SetErr(errLame)
			}
			return errLame
		}
		return next(ctx, list)
	}
}

// An operation is prepared for a SKU, on a store without faults; what is returned is done on one with a fault.
type operation func(t *testing.T, d desk, sku service.SKU) func(ctx context.Context) error

// A wholeStore and a wholeLedger are all that both stores can do.
type (
	wholeStore interface {
		shop
		orders.DeadLetters
		service.Origins
		service.Memory
		Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error)
		Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error
		CanWrite(ctx context.Context) error
	}
	wholeLedger interface {
		books
		orders.Outbox
		orders.Archivable
	}
)

// operations are those of both stores.
func operations(r wholeStore, ledger wholeLedger) map[string]operation {
	sold := func(do func(context.Context, service.Order) error) operation {
		return func(t *testing.T, d desk, sku service.SKU) func(context.Context) error {
			o := order(mustSet(t, d.shop, sku, 10))
			return func(ctx context.Context) error { return do(ctx, o) }
		}
	}
	read := func(do func(context.Context, service.SKU) error) operation {
		return func(t *testing.T, d desk, sku service.SKU) func(context.Context) error {
			mustSet(t, d.shop, sku, 10)
			return func(ctx context.Context) error { return do(ctx, sku) }
		}
	}
	kept := func(do func(context.Context, service.SKU) error) operation {
		return func(t *testing.T, d desk, sku service.SKU) func(context.Context) error {
			stocked(t, d, sku, 10)
			held(t, d, "ann", time.Microsecond, line(sku, 1))
			ordered(t, d, "ann", line(sku, 1))
			return func(ctx context.Context) error { return do(ctx, sku) }
		}
	}
	known := func(do func(context.Context, string, string) error) operation {
		return func(t *testing.T, d desk, sku service.SKU) func(context.Context) error {
			stocked(t, d, sku, 10)
			reservation, order := held(t, d, "ann", time.Hour, line(sku, 1)), ordered(t, d, "ann", line(sku, 1))
			return func(ctx context.Context) error { return do(ctx, reservation, order) }
		}
	}
	return map[string]operation{
		"Write": sold(r.Write),
		"Swap":  sold(r.Swap),
		"Deduct": sold(func(ctx context.Context, o service.Order) error {
			_, err := r.Deduct(ctx, o)
			return err
		}),
		"Batch": sold(func(ctx context.Context, o service.Order) error {
			_, err := r.Batch(ctx, 0, []service.Order{o})
			return err
		}),
		"Set": read(func(ctx context.Context, sku service.SKU) error {
			_, err := r.Set(ctx, sku, 5)
			return err
		}),
		"Read": read(func(ctx context.Context, sku service.SKU) error {
			_, err := r.Read(ctx, sku)
			return err
		}),
		"Orders": read(func(ctx context.Context, sku service.SKU) error {
			_, _, err := r.Orders(ctx, sku, "", 5)
			return err
		}),
		"Settle": read(func(ctx context.Context, sku service.SKU) error {
			_, _, err := r.Settle(ctx, sku, newID())
			return err
		}),
		"Segments": read(func(ctx context.Context, sku service.SKU) error {
			_, err := r.Segments(ctx, sku)
			return err
		}),
		"Refill": read(func(ctx context.Context, sku service.SKU) error {
			return r.Refill(ctx, service.Refill{
				SKU: sku, Epoch: 1, Strategy: "none", Into: service.Segment{Number: 1}, Reserve: 1,
			})
		}),
		"Raise": read(func(ctx context.Context, sku service.SKU) error { return r.Raise(ctx, sku, 0, "none", 7) }),
		"Replay": read(func(ctx context.Context, sku service.SKU) error {
			_, _, err := r.Replay(ctx, sku, service.Key{ID: newID(), Fingerprint: "f"})
			return err
		}),
		"CanWrite": read(func(ctx context.Context, _ service.SKU) error { return r.CanWrite(ctx) }),
		"Origin": read(func(ctx context.Context, _ service.SKU) error {
			_, err := r.Origin(ctx)
			return err
		}),
		"Now": read(func(ctx context.Context, _ service.SKU) error { _, err := r.Now(ctx); return err }),
		"Recall": read(func(ctx context.Context, _ service.SKU) error {
			_, err := r.Recall(ctx, "mysql")
			return err
		}),
		"Remember": read(func(ctx context.Context, _ service.SKU) error {
			return r.Remember(ctx, "mysql", service.Origin{ID: newID(), Generation: 1})
		}),
		"Replace": read(func(ctx context.Context, _ service.SKU) error {
			_, err := r.Replace(ctx, service.Origin{}, service.Origin{})
			return err
		}),
		"Park": read(func(ctx context.Context, sku service.SKU) error {
			return r.Park(ctx, orders.DeadLetter{SKU: sku, Number: 1})
		}),
		"Parked": read(func(ctx context.Context, _ service.SKU) error {
			_, err := r.Parked(ctx, "", 5)
			return err
		}),
		"Decide": func(t *testing.T, _ desk, sku service.SKU) func(context.Context) error {
			if err := r.Park(short(t), orders.DeadLetter{SKU: sku, Number: 1}); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error { return r.Decide(ctx, sku, 1, orders.Skip) }
		},
		"Step": kept(func(ctx context.Context, sku service.SKU) error {
			about := orders.About{SKUs: []service.SKU{sku}, Customer: "bob", Key: keyed("1")}
			_, _, err := ledger.Step(ctx, about, place(newID(), "bob", line(sku, 1)))
			return err
		}),
		"Batch of steps": kept(func(ctx context.Context, sku service.SKU) error {
			return ledger.Batch(ctx, []orders.Request{{
				About: orders.About{SKUs: []service.SKU{sku}}, Decide: adjust(sku, 1),
			}})[0].Err
		}),
		"Step of a reservation": known(func(ctx context.Context, reservation, _ string) error {
			_, _, err := ledger.Step(ctx, orders.About{Reservation: reservation}, end(orders.Released, ""))
			return err
		}),
		"Step of an order": known(func(ctx context.Context, _, order string) error {
			_, _, err := ledger.Step(ctx, orders.About{Order: order}, giveBack)
			return err
		}),
		"Order": known(func(ctx context.Context, _, order string) error {
			_, err := ledger.Order(ctx, order)
			return err
		}),
		"Reservation": known(func(ctx context.Context, reservation, _ string) error {
			_, err := ledger.Reservation(ctx, reservation)
			return err
		}),
		"Orders of a customer": kept(func(ctx context.Context, _ service.SKU) error {
			_, _, err := ledger.Orders(ctx, "ann", "", 5)
			return err
		}),
		"Level": kept(func(ctx context.Context, sku service.SKU) error {
			_, err := ledger.Level(ctx, sku)
			return err
		}),
		"Movements": kept(func(ctx context.Context, sku service.SKU) error {
			_, err := ledger.Movements(ctx, sku, 0, 5)
			return err
		}),
		"Movements that are none": read(func(ctx context.Context, sku service.SKU) error {
			_, err := ledger.Movements(ctx, sku, 99, 5)
			return err
		}),
		"SetPolicy": kept(func(ctx context.Context, sku service.SKU) error { return ledger.SetPolicy(ctx, sku, 3) }),
		"Due": kept(func(ctx context.Context, _ service.SKU) error {
			_, err := ledger.Due(ctx, 5)
			return err
		}),
		"Behind": kept(func(ctx context.Context, _ service.SKU) error {
			_, err := ledger.Behind(ctx, "", 5)
			return err
		}),
		"Delivered": kept(func(ctx context.Context, sku service.SKU) error {
			return ledger.Delivered(ctx, orders.Delivered{SKU: sku, Number: 1}, 1)
		}),
		"Archived": kept(func(ctx context.Context, _ service.SKU) error {
			_, _, err := ledger.Archived(ctx)
			return err
		}),
		"Shelves": kept(func(ctx context.Context, _ service.SKU) error {
			_, _, err := ledger.Shelves(ctx, "", 5)
			return err
		}),
		"Old": kept(func(ctx context.Context, _ service.SKU) error {
			_, _, err := ledger.Old(ctx, time.Now().Add(time.Hour), "", 5)
			return err
		}),
		"Present": known(func(ctx context.Context, reservation, order string) error {
			_, err := ledger.Present(ctx, []string{reservation, order})
			return err
		}),
	}
}

// A lameConnector makes connections that fail at one statement, before it is sent.
type lameConnector struct {
	driver.Connector
	fault *lame
}

func (c lameConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return lameConn{conn.(mysqlConn), c.fault}, nil
}

// A mysqlConn is what the driver's connections can do.
type mysqlConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type lameConn struct {
	mysqlConn
	fault *lame
}

// tidying reports whether a statement is one whose failure nobody is told of, because it is made up for later.
func tidying(text string) bool {
	return strings.HasPrefix(text, "SELECT seq, created_at") || // old rows are removed the next time
		text == "SET SESSION innodb_lock_wait_timeout = @lock_wait" // or else the connection is dropped
}

func (c lameConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if !tidying(text) && c.fault.count() {
		return nil, errLame
	}
	return c.mysqlConn.ExecContext(ctx, text, args)
}

func (c lameConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if !tidying(text) && c.fault.count() {
		return nil, errLame
	}
	return c.mysqlConn.QueryContext(ctx, text, args)
}

// lameMySQL returns a MySQL of the test's own that fails as fault says.
func lameMySQL(t *testing.T, fault *lame) *repo.MySQL {
	t.Helper()
	dsn := database(t)
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.ParseTime, c.Loc, c.InterpolateParams, c.MultiStatements = true, time.UTC, true, true // as OpenMySQL does
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(lameConnector{connector, fault})
	db := openMySQL(t, dsn)
	if plain, err := db.DB(); err != nil || plain.Close() != nil {
		t.Fatal(err)
	}
	db.ConnPool, db.Statement.ConnPool = pool, pool // closed at the end as that of openMySQL
	return repo.NewMySQL(db)
}

// Whichever command of an operation does not reach the server, the operation fails, and says that the server is down
// or that nobody knows. The same operation succeeds without the fault.
func TestNoFaultIsSwallowed(t *testing.T) {
	t.Parallel()
	sweep := func(t *testing.T, fault *lame, d desk, all map[string]operation) {
		t.Parallel()
		for name, prepare := range all {
			for at := 1; ; at++ {
				fault.at = 0
				do := prepare(t, d, newSKU(strings.ReplaceAll(name, " ", "-")))
				*fault = lame{at: at}
				err := do(short(t))
				if fault.seen < at {
					if err != nil || at == 1 {
						t.Errorf("%s without a fault: %v", name, err)
					}
					break
				}
				if !errors.Is(err, lock.ErrDown) && !errors.Is(err, service.ErrOutcomeUnknown) ||
					!strings.Contains(fmt.Sprint(err), errLame.Error()) {
					t.Errorf("%s, command %d fails: %v", name, at, err)
				}
			}
		}
	}
	t.Run("redis", func(t *testing.T) {
		client, fault := dialRedis(t, miniAddr(t)), &lame{}
		client.AddHook(fault)
		r := repo.NewRedis(client)
		ledger, err := r.Ledger()
		if err != nil {
			t.Fatal(err)
		}
		sweep(t, fault, desk{books: ledger, Outbox: ledger, shop: r}, operations(r, ledger))
	})
	t.Run("mysql", func(t *testing.T) {
		fault := &lame{}
		m := lameMySQL(t, fault)
		all := operations(m, m.Ledger())
		all["Forget"] = func(*testing.T, desk, service.SKU) func(context.Context) error {
			return func(ctx context.Context) error { _, err := m.Ledger().Forget(ctx, time.Hour, 5); return err }
		}
		all["Transact"] = func(t *testing.T, d desk, sku service.SKU) func(context.Context) error {
			o := order(mustSet(t, d.shop, sku, 10))
			return func(ctx context.Context) error {
				return m.Transact(ctx, sku, false, func(ctx context.Context, tx service.Store) error {
					if _, err := tx.Read(ctx, sku); err != nil {
						return err
					}
					return tx.Write(ctx, o)
				})
			}
		}
		sweep(t, fault, desk{books: m.Ledger(), Outbox: m.Ledger(), shop: m}, all)
	})
}
