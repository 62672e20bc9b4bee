package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"example.com/stock/mysqlerr"
)

const (
	// attempts is how often a transaction is tried that InnoDB ends to resolve a deadlock.
	attempts = 5
	// rollbackTimeout bounds a ROLLBACK, which is sent when the caller's ctx may be over. A connection that cannot be told is dropped.
	rollbackTimeout = time.Second
)

// transact runs do between BEGIN and COMMIT: two round trips more than do's own. Deadlocks are tried again, with jitter.
//
// It is not gorm's Transaction, for two reasons. database/sql sends COMMIT without a ctx, so a server that hangs there would hold the
// caller for ever. And the error of a COMMIT must be told from all others: before it nothing can have been written, after it anything.
func (m *MySQL) transact(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	for attempt := 1; ; attempt++ {
		err := m.attempt(ctx, doing, do)
		m.heard(err)
		again := deadlocked(err) || errors.Is(err, errChanged) || errors.Is(err, errStaleConn)
		if !again || attempt == attempts || ctx.Err() != nil {
			return err
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << attempt)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// errStaleConn: the server had closed the pooled connection. The driver looks before it uses one, so this is rare.
var errStaleConn = errors.New("connection was closed while idle")

func (m *MySQL) attempt(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	if ctx.Err() != nil {
		return ended(ctx, doing)
	}
	began := false
	err := m.db.WithContext(ctx).Connection(func(tx *gorm.DB) error {
		began = true
		tx = tx.Session(&gorm.Session{NewDB: true})
		if err := tx.Exec("START TRANSACTION").Error; err != nil {
			discard(tx)
			if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) {
				err = errors.Join(errStaleConn, err)
			}
			return mysqlFault(ctx, doing, err)
		}
		returned := false
		defer func() {
			if !returned {
				discard(tx) // do panicked: somebody may recover, and go on with the pool
			}
		}()
		err := do(tx)
		returned = true
		if err != nil {
			rollback(tx)
			return err
		}
		if ctx.Err() != nil {
			rollback(tx)
			return stopped(ctx, doing)
		}
		return commit(ctx, tx, doing)
	})
	if !began {
		err = m.unread(ctx, doing, err)
	}
	return err
}

// send executes on tx's connection a statement that is written out. gorm's Exec copies the text character by character and runs its callbacks:
// small, but while the row is locked everybody waits for it. BenchmarkPessimistic compares with database/sql.
func send(tx *gorm.DB, text string, args ...any) (rows int64, err error) {
	done, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, text, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

func commit(ctx context.Context, tx *gorm.DB, doing string) error {
	_, err := send(tx, "COMMIT")
	if err == nil {
		return nil
	}
	alive := rollback(tx)
	n := mysqlerr.Number(err)
	// A connection that still takes commands is in step: COMMIT never left. Otherwise it may be the reply that was
	// lost. That ROLLBACK works proves nothing where COMMIT was answered: there may be nothing left to roll back.
	if n == 0 && alive || mysqlerr.NotCommitted(n) {
		return mysqlFault(ctx, doing, err)
	}
	return unknown(doing, err)
}

// rollback takes a round trip. Where it fails the connection is dropped, and the server rolls back when it notices.
func rollback(tx *gorm.DB) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.Statement.Context), rollbackTimeout)
	defer cancel()
	if err := tx.WithContext(ctx).Exec("ROLLBACK").Error; err != nil {
		discard(tx)
		return false
	}
	return true
}

func discard(tx *gorm.DB) {
	if conn, ok := tx.Statement.ConnPool.(*sql.Conn); ok {
		drop(conn)
	}
}

// drop keeps conn from going back to the pool, where its next user would go on in our transaction or hold our lock.
func drop(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }
