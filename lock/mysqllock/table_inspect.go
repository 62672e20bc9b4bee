package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// Inspect tells the holder, its fence, since when it holds by that, and how long its lease still runs, in one round trip. Waiters poll and
// leave no trace: they are not known.
func (t *Table) Inspect(ctx context.Context, key string) (lock.State, error) {
	standing := lock.State{Scope: lock.Cluster}
	err := ask(ctx, t.db, fmt.Sprintf("inspect lock %q", key), func(ctx context.Context, conn *sql.Conn) error {
		var seen sight
		var left int64
		err := conn.QueryRowContext(ctx, "SELECT who, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), "+microseconds+
			" FROM locks WHERE name = ?", columnName(key)).Scan(&seen.who, &seen.fence, &left, &seen.now)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil || left <= 0:
			return err
		}
		standing.Holder = &lock.Contender{Who: seen.who, Since: seen.since(), Remaining: lock.Forever, Fence: seen.fence}
		if left < never.Microseconds()/2 {
			standing.Holder.Remaining = time.Duration(left) * time.Microsecond
		}
		return nil
	})
	return standing, err
}

// Evict takes the row from its owner, also one without a time limit, and makes the fence grow, in one round trip. The holder is told at its next
// renewal, a third of Lease later at most.
func (t *Table) Evict(ctx context.Context, key string) (fence lock.Fence, err error) {
	const takeOver = "INSERT INTO locks (name, token, who, fence, expires_at) VALUES (?, '', '', LAST_INSERT_ID(" + microseconds + "), '1970-01-01')" +
		" ON DUPLICATE KEY UPDATE token = '', who = '', expires_at = '1970-01-01', fence = " + grown
	err = ask(ctx, t.db, fmt.Sprintf("evict the holder of lock %q", key), func(ctx context.Context, conn *sql.Conn) error {
		result, err := execute(ctx, conn, takeOver, columnName(key), span)
		if err == nil {
			fence, err = drawn(result)
		}
		return err
	})
	if err != nil {
		return lock.NoFence, err
	}
	return fence, nil
}

// Keys are those that are held. Those of more than 255 bytes are not listed: the table has digests of them.
func (t *Table) Keys(ctx context.Context) (keys []string, err error) {
	err = ask(ctx, t.db, "list locks", func(ctx context.Context, conn *sql.Conn) error {
		names, err := texts(ctx, conn, "SELECT name FROM locks WHERE expires_at > UTC_TIMESTAMP(6)")
		keys = readable(names)
		return err
	})
	return keys, err
}

var (
	_ lock.Inspector = (*Table)(nil)
	_ lock.Evictor   = (*Table)(nil)
	_ lock.Lister    = (*Table)(nil)
)
