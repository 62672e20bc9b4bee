// Package repo keeps the orders in MySQL or MariaDB.
package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"example.com/stock/orders/service"
)

// A Store is the database. All its times are in UTC, by the clock of the database server. It is safe for concurrent
// use.
type Store struct {
	db      *gorm.DB
	patient driver.Connector // for migrations
	o       Options
}

// Options of a Store.
type Options struct {
	Connections int  // open at most; a request waits for one
	Events      bool // whether every movement is written to the outbox

	Pool  func(driver.Connector) *sql.DB // for traces and statistics; nil: sql.OpenDB
	Moved func([]service.Movement)       // is told of every movement that was committed; nil: nobody is
}

// Times. A statement waits less long for a row than for an answer, so a wait that fails has written nothing. After
// idle, the server ends a connection without a statement, and unlocks its rows: otherwise those of a host that has lost
// its power or its network would be locked for 8 hours. A batch of package outbox may take half of it.
const (
	lockWait = time.Second
	answer   = 10 * time.Second // the longest wait for the answer to a statement, COMMIT included
	idle     = time.Minute
)

// Open does not connect; the first statement does.
func Open(dsn string, o Options) (*Store, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN, such as user:password@tcp(host:3306)/orders: %w", err)
	}
	c.ParseTime, c.Loc, c.Collation = true, time.UTC, "utf8mb4_bin"
	c.InterpolateParams = true // one round trip a statement, not three
	c.Timeout, c.ReadTimeout, c.WriteTimeout = time.Second, answer, answer
	c.Logger = &mysql.NopLogger{} // errors are returned
	c.Params = map[string]string{
		"time_zone":                "'+00:00'",
		"sql_mode":                 "'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"innodb_lock_wait_timeout": fmt.Sprint(lockWait.Seconds()),
		"wait_timeout":             fmt.Sprint(idle.Seconds()),
	}
	if err := c.Apply(mysql.Charset("utf8mb4", "utf8mb4_bin")); err != nil { // whatever the server's own is
		return nil, err
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	// A migration may take long, and the connection with its lock is idle meanwhile.
	c.ReadTimeout = 0
	delete(c.Params, "wait_timeout")
	patient, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	open := sql.OpenDB
	if o.Pool != nil {
		open = o.Pool
	}
	pool := open(readCommitted{connector})
	pool.SetMaxOpenConns(o.Connections)
	pool.SetMaxIdleConns(o.Connections)
	pool.SetConnMaxLifetime(3 * time.Minute)
	pool.SetConnMaxIdleTime(idle / 2)
	db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true}), &gorm.Config{
		DisableAutomaticPing:   true,
		SkipDefaultTransaction: true, // a statement outside of a step is its own transaction already
		Logger:                 logger.Discard,
	})
	return &Store{db, readCommitted{patient}, o}, err
}

// readCommitted sets the isolation level of every connection. At REPEATABLE READ, the default, a locking read of what
// does not exist locks the gap there, and two of them deadlock when they insert.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	const set = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, set, nil); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	pool, err := s.db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}
