package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// InspectAll returns the holder of each key, its fence, the start of the hold, which is derived from the fence, and the
// remaining time of its lease, in one round trip for all keys. It returns no waiters, because they poll and the server
// does not know them.
func (t *Table) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	condition, args := among(keys)
	query := "SELECT name, who, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), " + microseconds +
		" FROM locks WHERE expires_at > UTC_TIMESTAMP(6) AND " + condition
	return onConnection(ctx, t.db, inspecting, func(ctx context.Context, conn *sql.Conn) ([]lock.State, error) {
		held := make(map[string]holder)
		err := eachRow(ctx, conn, query, args, func(rows *sql.Rows) error {
			var name string
			var h holder
			var left, now int64
			err := rows.Scan(&name, &h.Who, &h.Fence, &left, &now)
			h.Remaining, h.Since = time.Duration(left)*time.Microsecond, since(h.Fence, now)
			held[name] = h
			return err
		})
		return states(keys, held, nil), err
	})
}

// Evict takes the row from its owner and issues a fence, in one round trip. The holder's lease ends at its next
// renewal, at most a third of Lease later.
func (t *Table) Evict(ctx context.Context, key string) (lock.Fence, error) {
	const takeOver = "INSERT INTO locks (name, token, who, fence, expires_at)" +
		" VALUES (?, '', '', LAST_INSERT_ID(" + microseconds + "), '1970-01-01')" +
		" ON DUPLICATE KEY UPDATE token = '', who = '', expires_at = '1970-01-01', fence = " + nextFence
	return onConnection(ctx, t.db, evicting, func(ctx context.Context, conn *sql.Conn) (lock.Fence, error) {
		return draw(ctx, conn, takeOver, columnName(key), driver.FenceRange)
	})
}

// Keys returns the keys that are held. Keys of more than 255 bytes are not listed: the table has only their digests.
func (t *Table) Keys(ctx context.Context) ([]string, error) {
	return onConnection(ctx, t.db, listing, func(ctx context.Context, conn *sql.Conn) ([]string, error) {
		names, err := column(ctx, conn, "SELECT name FROM locks WHERE expires_at > UTC_TIMESTAMP(6)")
		return readable(names), err
	})
}

// InspectAll returns the holder of each key, its fence, the start of the hold, which is derived from the fence, and the
// time after which the server would end its connection without a renewal, assuming that the holder has the same Lease.
// It also returns the waiters, in order of arrival by their own clocks; waiters of this process that are not at the
// server yet come last. None of its few round trips for all keys waits for a lock or delays another client; [GetLock]
// needs another one for every 500 keys.
//
// It needs no privileges. But without the privilege PROCESS it does not see the waiters of other database users, nor
// the remaining time of a holder of another user.
func (p *pinned) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	inspect := func(ctx context.Context, conn *sql.Conn) ([]lock.State, error) {
		held, err := p.holders(ctx, conn, keys)
		if err != nil {
			return nil, err
		}
		waiting, err := queues(ctx, conn)
		return states(keys, held, waiting), err
	}
	found, err := onConnection(ctx, p.sessions.db, inspecting, inspect)
	for i := range found {
		found[i].Waiters = append(found[i].Waiters, p.queue.State(keys[i]).Waiters...)
	}
	return found, err
}

// Evict issues a fence and makes the server end the connection that holds the key, and with it the lock. The holder
// notices within socketCheckEvery, unless it is frozen.
//
// Ending a connection of the same database user needs no privilege. Ending that of another user needs CONNECTION
// ADMIN (SUPER on old servers).
//
// Evict reads the holder, and ends the holder's connection a round trip later. If the holder releases the key in
// between, and acquires another key on this connection, it loses the other key, as if the network had failed.
func (p *pinned) Evict(ctx context.Context, key string) (lock.Fence, error) {
	evict := func(ctx context.Context, conn *sql.Conn) (lock.Fence, error) {
		// The fence is issued before the connection ends, because the next holder gets its fence at once, and must not
		// have a smaller one than Evict.
		fence, err := drawFence(ctx, conn, columnName(key))
		if err != nil {
			return fence, err
		}
		holders, err := p.holders(ctx, conn, []string{key})
		h, held := holders[columnName(key)]
		if err != nil || !held || h.Fence > fence {
			return fence, err // the key is free, or the holder has a later fence than ours
		}
		return fence, endConnection(ctx, conn, h.thread, "")
	}
	return onConnection(ctx, p.sessions.db, evicting, evict)
}

// Keys returns the keys that are held or waited for at the server. Keys of more than 255 bytes are not listed: the
// tables have only their digests.
func (p *pinned) Keys(ctx context.Context) ([]string, error) {
	return onConnection(ctx, p.sessions.db, listing, func(ctx context.Context, conn *sql.Conn) ([]string, error) {
		held, err := p.primitive.holders(ctx, conn, nil)
		if err != nil {
			return nil, err
		}
		waiting, err := queues(ctx, conn)
		return readable(slices.AppendSeq(slices.Collect(maps.Keys(held)), maps.Keys(waiting))), err
	})
}

// A holder is what the server knows about the holder of a key. Unknown fields are zero.
type holder struct {
	lock.Contender
	thread int64 // the connection that holds the key
}

const inspecting, evicting, listing = "inspect locks", "evict a holder", "list locks" // prefixes of errors

// states returns the states of keys from holders and waiters by the names of the keys in the tables.
func states(keys []string, held map[string]holder, waiting map[string][]lock.Contender) []lock.State {
	list := make([]lock.State, len(keys))
	for i, key := range keys {
		if h, found := held[columnName(key)]; found {
			list[i].Holder = &h.Contender
		}
		list[i].Waiters = slices.Clone(waiting[columnName(key)])
	}
	return list
}

// readable returns the names that are keys and not digests, each once.
func readable(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return strings.HasPrefix(name, digestPrefix)
	})
}

// since returns when a hold began, which its fence says. now is the server's clock in the unit of the fences. The time
// is zero if the fence is ahead of the clock: the clock was set back, so the fence was made by counting.
func since(fence lock.Fence, now int64) time.Time {
	age := now - int64(fence)
	if fence == lock.NoFence || age < 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(age) * time.Microsecond)
}

// Statements.

// eachRow calls read for each row of the result of a query, until read returns an error.
func eachRow(ctx context.Context, on interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, args []any, read func(*sql.Rows) error,
) error {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// column reads the only column of the result of a query.
func column(ctx context.Context, conn *sql.Conn, query string) (list []string, err error) {
	err = eachRow(ctx, conn, query, nil, func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		list = append(list, text)
		return err
	})
	return list, err
}

// among returns a condition that selects the rows of keys, and its arguments.
func among(keys []string) (condition string, args []any) {
	for _, key := range keys {
		args = append(args, columnName(key))
	}
	return "name IN (?" + strings.Repeat(", ?", len(keys)-1) + ")", args
}

// holders returns the holders of those keys that are held, by the names of the keys in the tables. The server says
// which connection has the key. The table says which owner and connection drew the last fence; if that is another
// connection, the holder's owner and fence are not known. A holder without a fence yet may be missing.
func (p *pinned) holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error) {
	held, err := p.primitive.holders(ctx, conn, keys)
	if err != nil {
		return nil, err
	}
	condition, args := among(keys)
	query := "SELECT name, thread, who, held, TIME, " + microseconds +
		" FROM lock_fences LEFT JOIN information_schema.PROCESSLIST ON ID = thread WHERE " + condition
	err = eachRow(ctx, conn, query, args, func(rows *sql.Rows) error {
		var name string
		var h holder
		var now int64
		var idle sql.NullInt64 // in whole seconds, since the connection's last statement began or ended
		err := rows.Scan(&name, &h.thread, &h.Who, &h.Fence, &idle, &now)
		if idle.Valid {
			h.Remaining = max(p.Lease-time.Duration(idle.Int64)*time.Second, 0)
		}
		h.Since = since(h.Fence, now)
		if known, found := held[name]; found && known.thread == h.thread {
			held[name] = h
		}
		return err
	})
	return held, err
}

// holders reads the connections that the holders have written but not committed. They disappear when the transactions
// end. The reader sees uncommitted writes, and does not wait for locks.
func (rowLock) holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error) {
	query, args := "thread <> 0", []any(nil)
	if keys != nil {
		query, args = among(keys)
		query += " AND thread <> 0"
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	held := make(map[string]holder)
	err = eachRow(ctx, tx, "SELECT name, thread FROM lock_rows WHERE "+query, args, func(rows *sql.Rows) error {
		var name string
		var h holder
		err := rows.Scan(&name, &h.thread)
		held[name] = h
		return err
	})
	return held, errors.Join(err, tx.Rollback())
}

// holders asks the server, which does not list its named locks. So for all keys it asks about those whose last fence
// was drawn by a connection that still exists.
func (namedLock) holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error) {
	if keys == nil {
		drawn, err := column(ctx, conn,
			"SELECT name FROM lock_fences WHERE thread IN (SELECT ID FROM information_schema.PROCESSLIST)")
		if err != nil {
			return nil, err
		}
		keys = readable(drawn)
	}
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return nil, err
	}
	held := make(map[string]holder)
	for part := range slices.Chunk(keys, 500) { // a SELECT has 4,096 columns at most
		names, threads, into := make([]any, len(part)), make([]sql.NullInt64, len(part)), make([]any, len(part))
		for i, key := range part {
			names[i], into[i] = namedLockName(database.String, key), &threads[i]
		}
		query := "SELECT IS_USED_LOCK(?)" + strings.Repeat(", IS_USED_LOCK(?)", len(part)-1)
		if err := conn.QueryRowContext(ctx, query, names...).Scan(into...); err != nil {
			return nil, err
		}
		for i, thread := range threads {
			if thread.Valid {
				held[columnName(part[i])] = holder{thread: thread.Int64}
			}
		}
	}
	return held, nil
}

// queues returns those who wait at the server for locks of this database, by the names of the keys, in order of
// arrival. Their statements name them, see waitLabel. Any database user may see its own connections. To see others, it
// needs the privilege PROCESS.
func queues(ctx context.Context, conn *sql.Conn) (map[string][]lock.Contender, error) {
	statements, err := column(ctx, conn, "SELECT INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"+
		" AND DB = DATABASE() AND INFO LIKE '%"+labelStart+"%' ORDER BY ID")
	found := make(map[string][]lock.Contender)
	for _, statement := range statements {
		if name, c, ok := parseLabel(statement); ok {
			found[name] = append(found[name], c)
		}
	}
	for _, queue := range found {
		slices.SortStableFunc(queue, func(a, b lock.Contender) int { return a.Since.Compare(b.Since) })
	}
	return found, err
}

const labelStart = "/* waits "

// waitLabel returns a comment for the end of a waiting statement, which names the waiter for Inspect. The server shows
// the text of a running statement to every client that may see the connection. A label costs no round trip, and nothing
// of it remains. Every byte is escaped that could end a comment, be read as a parameter, or differ between character
// sets.
func waitLabel(key, owner string, since time.Time) string {
	v := url.Values{"name": {columnName(key)}, "who": {ownerColumn(owner)}}
	v.Set("since", strconv.FormatInt(since.UnixMilli(), 10))
	return " " + labelStart + v.Encode() + " */"
}

// parseLabel finds the label in the text of a statement.
func parseLabel(statement string) (name string, c lock.Contender, ok bool) {
	statement, ended := strings.CutSuffix(statement, " */")
	at := strings.LastIndex(statement, labelStart)
	if !ended || at < 0 {
		return "", c, false
	}
	v, err1 := url.ParseQuery(statement[at+len(labelStart):])
	since, err2 := strconv.ParseInt(v.Get("since"), 10, 64)
	return v.Get("name"), lock.Contender{Who: v.Get("who"), Since: time.UnixMilli(since)}, err1 == nil && err2 == nil
}
