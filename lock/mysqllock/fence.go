package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// An execer is a connection, or a pool.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// execute runs a statement that is a transaction of its own, again if it lost to another. A deadlock undoes all of it, and so
// does a lock wait that timed out: with more than one statement in the transaction that would undo the last one only.
func execute(ctx context.Context, on execer, query string, args ...any) (sql.Result, error) {
	for try := 1; ; try++ {
		result, err := on.ExecContext(ctx, query, args...)
		if !collided(err) || try == collisions || lock.Sleep(ctx, jitter(5*time.Millisecond<<try)) != nil {
			return result, err
		}
	}
}

// grown is the fence after that in the row: the server's clock in microseconds, or the last fence and [span], if that is larger. It grows when
// the clock is set back, and also when somebody has deleted the row.
const grown = "LAST_INSERT_ID(GREATEST(fence + ?, " + microseconds + "))"

// mint draws the next fence of a key. Who calls holds the key, or takes it from who does.
//
// on must be in autocommit mode. In the transaction that holds a row lock the counter would be rolled back with it, when the
// connection breaks, and the next holder would draw the same number.
func mint(ctx context.Context, on execer, name string) (lock.Fence, error) {
	result, err := execute(ctx, on, "INSERT INTO lock_fences (name, fence) VALUES (?, LAST_INSERT_ID("+microseconds+"))"+
		" ON DUPLICATE KEY UPDATE fence = "+grown, name, span)
	if err != nil {
		return 0, err
	}
	return drawn(result)
}

// mintAs is mint, and leaves word who has drawn it and on which connection. Of the assignments to a row each sees what those before it have done.
func mintAs(ctx context.Context, on execer, name, who string, thread int64) (lock.Fence, error) {
	result, err := execute(ctx, on, "INSERT INTO lock_fences (name, who, thread, fence, held)"+
		" VALUES (?, ?, ?, LAST_INSERT_ID("+microseconds+"), "+microseconds+")"+
		" ON DUPLICATE KEY UPDATE who = ?, thread = ?, fence = "+grown+", held = fence", name, who, thread, who, thread, span)
	if err != nil {
		return 0, err
	}
	return drawn(result)
}

// drawn is the fence that a statement gave to LAST_INSERT_ID, which the server sends along with its answer.
func drawn(result sql.Result) (lock.Fence, error) {
	fence, err := result.LastInsertId()
	if err == nil && fence <= 0 {
		err = fmt.Errorf("fence %d", fence)
	}
	return lock.Fence(fence), err
}
