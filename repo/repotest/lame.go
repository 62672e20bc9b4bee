package repotest

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
)

// An Operation prepares a SKU on a store without faults, and returns the operation to run with a fault.
type Operation func(t *testing.T, sku service.SKU) func(ctx context.Context) error

// A Lame makes a client fail at the at-th command or statement, before this is sent; 0: never.
type Lame struct{ at, seen int }

var errLame = errors.New("no way to the server")

// fails counts commands, except those with which the client greets the server on a new connection.
func (l *Lame) fails(first redis.Cmder) bool {
	name := first.Name()
	return name != "hello" && name != "client" && l.count()
}

func (l *Lame) count() bool {
	l.seen++
	return l.seen == l.at
}

func (*Lame) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *Lame) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if l.fails(cmd) {
			cmd.SetErr(errLame)
			return errLame
		}
		return next(ctx, cmd)
	}
}

func (l *Lame) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
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

// LameRedis returns a new Redis whose faults the Lame controls.
func LameRedis(t *testing.T) (*repo.Redis, *Lame) {
	t.Helper()
	client, fault := DialRedis(t, MiniAddr(t)), &Lame{}
	client.AddHook(fault)
	return repo.NewRedis(client), fault
}

// A lameConnector makes connections that fail at one statement, before it is sent.
type lameConnector struct {
	driver.Connector
	fault *Lame
}

func (c lameConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return lameConn{conn.(mysqlConn), c.fault}, nil
}

// A mysqlConn has the interfaces that a connection of the driver implements.
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
	fault *Lame
}

// tidying reports whether text is a statement of a clean-up. The store does not report its failure, because the
// clean-up is repeated later.
func tidying(text string) bool {
	return strings.HasPrefix(text, "SELECT seq, created_at") || // the next call removes the old rows
		text == "SET SESSION innodb_lock_wait_timeout = @lock_wait" // the connection is closed instead
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

// LameMySQL returns a new MySQL whose faults the Lame controls.
func LameMySQL(t *testing.T) (*repo.MySQL, *Lame) {
	t.Helper()
	dsn, fault := Database(t), &Lame{}
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
	db := OpenMySQL(t, dsn)
	if plain, err := db.DB(); err != nil || plain.Close() != nil {
		t.Fatal(err)
	}
	db.ConnPool, db.Statement.ConnPool = pool, pool // closed at the end, like the pool of OpenMySQL
	return repo.NewMySQL(db), fault
}

// NoneSwallowed runs each operation once for each of its commands, and lets that command fail. It expects an error
// each time, which matches lock.ErrDown or service.ErrOutcomeUnknown, and success without a fault.
func (l *Lame) NoneSwallowed(t *testing.T, all map[string]Operation) {
	t.Helper()
	for name, prepare := range all {
		for at := 1; ; at++ {
			l.at = 0
			do := prepare(t, NewSKU(strings.ReplaceAll(name, " ", "-")))
			*l = Lame{at: at}
			err := do(Short(t))
			if l.seen < at {
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
