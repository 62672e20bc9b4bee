package mysqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/lock"
)

// A brokenAt is a server whose connections fail at one statement, which is not sent.
type brokenAt struct {
	driver.Connector
	at, seen atomic.Int64 // 0: at none
}

var errBroken = errors.New("no way to the server")

func (b *brokenAt) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := b.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return brokenConn{conn.(wholeConn), b}, nil
}

func (b *brokenAt) fails() bool { return b.seen.Add(1) == b.at.Load() }

// A wholeConn is what the driver's connections can do.
type wholeConn interface {
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

type brokenConn struct {
	wholeConn
	by *brokenAt
}

func (c brokenConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if c.by.fails() {
		return nil, errBroken
	}
	return c.wholeConn.ExecContext(ctx, text, args)
}

func (c brokenConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if c.by.fails() {
		return nil, errBroken
	}
	return c.wholeConn.QueryContext(ctx, text, args)
}

// Without a server every operation says so, at once: nothing is tried again until the wait is over.
func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	for _, k := range all {
		connector, err := mysql.NewConnector(&mysql.Config{Net: "tcp", Addr: "127.0.0.1:1", DBName: "stock", User: "u"})
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		l := k.make(db, 0)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = l.Acquire(ctx, "k", lock.Options{})
		for doing, err := range map[string]error{
			"acquire": err,
			"inspect": last(l.(lock.Inspector).Inspect(ctx, "k")),
			"list":    last(l.(lock.Lister).Keys(ctx)),
			"evict":   last(l.(lock.Evictor).Evict(ctx, "k")),
		} {
			if !errors.Is(err, lock.ErrDown) || ctx.Err() != nil {
				t.Errorf("%s: %s: %v", k.name, doing, err)
			}
		}
		cancel()
		_ = l.Close()
		_ = db.Close()
	}
}

func last[T any](_ T, err error) error { return err }

// Whichever statement of an acquisition does not reach the server, there is an error, or a lease that is one, and
// nothing is left behind. What cannot be read is no answer.
func TestAStatementIsNotSent(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		c, err := mysql.ParseDSN(database(t))
		if err != nil {
			t.Fatal(err)
		}
		c.ParseTime, c.Loc, c.InterpolateParams, c.MultiStatements = true, time.UTC, true, true
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		server := &brokenAt{Connector: connector}
		db := sql.OpenDB(server)
		defer db.Close()
		l := k.make(db, 0)
		defer l.Close()
		for doing, do := range map[string]func(ctx context.Context) error{
			"inspect": func(ctx context.Context) error { return last(l.(lock.Inspector).Inspect(ctx, "held")) },
			"list":    func(ctx context.Context) error { return last(l.(lock.Lister).Keys(ctx)) },
		} {
			held := acquire(t, l, "held")
			release(t, acquire(t, l, "k"))
			for at := int64(1); at < 20; at++ {
				server.seen.Store(0)
				server.at.Store(at)
				err := do(t.Context())
				server.at.Store(0)
				if server.seen.Load() < at {
					break
				}
				if !errors.Is(err, lock.ErrDown) {
					t.Errorf("%s, statement %d: %v", doing, at, err)
				}
			}
			release(t, held)
		}
		for at := int64(1); at < 20; at++ {
			server.seen.Store(0)
			server.at.Store(at)
			lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			reached := server.seen.Load() >= at
			server.at.Store(0)
			switch {
			case err == nil:
				if err := lease.Release(); err != nil {
					t.Errorf("statement %d: release: %v", at, err)
				}
			case !errors.Is(err, lock.ErrDown) && !errors.Is(err, lock.ErrHeld):
				t.Errorf("statement %d: %v", at, err)
			}
			release(t, acquire(t, l, "k"))
			if !reached {
				break
			}
		}
	})
}
