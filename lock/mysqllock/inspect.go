package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
)

// A holder is what the server knows about the holder of a key. Unknown fields are zero.
type holder struct {
	thread int64 // the connection that holds the key; 0: none
	owner  string
	fence  lock.Fence
	now    int64 // time of the server's clock, in the unit of the fences
}

// contender returns the holder with the start of the hold, which is derived from the fence. It is zero if the fence is
// ahead of the clock: the clock was set back, so the fence was made by counting.
func (h holder) contender(remaining time.Duration) *lock.Contender {
	c := lock.Contender{Who: h.owner, Fence: h.fence, Remaining: remaining}
	if age := h.now - int64(h.fence); h.fence != lock.NoFence && age >= 0 {
		c.Since = time.Now().Add(-time.Duration(age) * time.Microsecond)
	}
	return &c
}

// Inspect returns the holder, its fence, the start of the hold, which is derived from the fence, and the remaining time
// of its lease, in one round trip. It returns no waiters, because they poll and the server does not know them.
func (t *Table) Inspect(ctx context.Context, key string) (lock.State, error) {
	return only(t.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, in one round trip for all of them.
func (t *Table) InspectAll(ctx context.Context, keys []string) (states []lock.State, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	names := columnNames(keys)
	query := "SELECT name, who, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), " + microseconds +
		" FROM locks WHERE expires_at > UTC_TIMESTAMP(6) AND name IN " + marks(len(names))
	holders := make(map[string]*lock.Contender)
	err = onConnection(ctx, t.db, inspecting(keys), func(ctx context.Context, conn *sql.Conn) error {
		return eachRow(ctx, conn, query, anys(names), func(rows *sql.Rows) error {
			var name string
			var h holder
			var left int64
			err := rows.Scan(&name, &h.owner, &h.fence, &left, &h.now)
			holders[name] = h.contender(time.Duration(left) * time.Microsecond)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		states = append(states, lock.State{Holder: holders[name]})
	}
	return states, nil
}

// inspecting returns the prefix of error texts.
func inspecting(keys []string) string {
	if len(keys) > 1 {
		return fmt.Sprintf("inspect %d locks", len(keys))
	}
	return fmt.Sprintf("inspect lock %q", keys[0])
}

// only returns the state of the one key that was inspected.
func only(states []lock.State, err error) (lock.State, error) {
	if err != nil {
		return lock.State{}, err
	}
	return states[0], nil
}

// evict calls do, which returns the fence of an eviction.
func evict(ctx context.Context, db *sql.DB, key string,
	do func(context.Context, *sql.Conn) (lock.Fence, error),
) (fence lock.Fence, err error) {
	doing := fmt.Sprintf("evict the holder of lock %q", key)
	err = onConnection(ctx, db, doing, func(ctx context.Context, conn *sql.Conn) error {
		fence, err = do(ctx, conn)
		return err
	})
	if err != nil {
		return lock.NoFence, err
	}
	return fence, nil
}

// Evict takes the row from its owner and issues a fence, in one round trip. The holder's lease ends at its next
// renewal, at most a third of Lease later.
func (t *Table) Evict(ctx context.Context, key string) (lock.Fence, error) {
	const takeOver = "INSERT INTO locks (name, token, who, fence, expires_at)" +
		" VALUES (?, '', '', LAST_INSERT_ID(" + microseconds + "), '1970-01-01')" +
		" ON DUPLICATE KEY UPDATE token = '', who = '', expires_at = '1970-01-01', fence = " + nextFence
	return evict(ctx, t.db, key, func(ctx context.Context, conn *sql.Conn) (lock.Fence, error) {
		return draw(ctx, conn, takeOver, columnName(key), fenceDistance)
	})
}

// Keys returns the keys that are held. Keys of more than 255 bytes are not listed: the table has only their digests.
func (t *Table) Keys(ctx context.Context) (keys []string, err error) {
	err = onConnection(ctx, t.db, "list locks", func(ctx context.Context, conn *sql.Conn) error {
		names, err := column(ctx, conn, "SELECT name FROM locks WHERE expires_at > UTC_TIMESTAMP(6)")
		keys = readable(names)
		return err
	})
	return keys, err
}

// Inspect returns the holder, its fence, the start of the hold, which is derived from the fence, and the time after
// which the server would end its connection without a renewal, assuming that the holder has the same Lease. It also
// returns the waiters, in order of arrival by their own clocks; waiters of this process that are not at the server yet
// come last. It takes five round trips. None of them waits for a lock or delays another client.
//
// It needs no privileges. But without the privilege PROCESS it does not see the waiters of other database users, nor
// the remaining time of a holder of another user.
func (p *pinned) Inspect(ctx context.Context, key string) (lock.State, error) {
	return only(p.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, with the round trips of Inspect for all of them; [GetLock] needs another one
// for every 500.
func (p *pinned) InspectAll(ctx context.Context, keys []string) (states []lock.State, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = onConnection(ctx, p.sessions.db, inspecting(keys), func(ctx context.Context, conn *sql.Conn) error {
		states, err = p.inspect(ctx, conn, keys)
		return err
	})
	for i := range states {
		states[i].Waiters = append(states[i].Waiters, p.queue.State(keys[i]).Waiters...)
	}
	return states, err
}

// inspect returns the states of keys without the waiters of this process that are not at the server.
func (p *pinned) inspect(ctx context.Context, conn *sql.Conn, keys []string) ([]lock.State, error) {
	holders, err := p.primitive.holders(ctx, conn, keys)
	if err != nil {
		return nil, err
	}
	var threads []int64
	for _, h := range holders {
		threads = append(threads, h.thread)
	}
	list, err := processes(ctx, conn, threads...)
	if err != nil {
		return nil, err
	}
	remaining, waiters := make(map[int64]time.Duration), make(map[string][]lock.Contender)
	for _, one := range list {
		remaining[one.id] = max(p.Lease-one.idle, 0)
		if one.waits {
			waiter := lock.Contender{Who: one.label.owner, Since: one.label.since}
			waiters[one.label.name] = append(waiters[one.label.name], waiter)
		}
	}
	states := make([]lock.State, len(keys))
	for i, name := range columnNames(keys) {
		states[i] = lock.State{Waiters: slices.Clone(waiters[name])}
		if h, held := holders[name]; held {
			states[i].Holder = h.contender(remaining[h.thread])
		}
	}
	return states, nil
}

// Evict issues a fence and makes the server end the connection that holds the key, and with it the lock. The holder
// notices within socketCheckEvery, unless it is frozen. It takes up to seven round trips.
//
// Ending a connection of the same database user needs no privilege. Ending that of another user needs CONNECTION
// ADMIN (SUPER on old servers).
//
// Evict reads the holder, and ends the holder's connection a round trip later. If the holder releases the key in
// between, and acquires another key on this connection, it loses the other key, as if the network had failed. A holder
// without a fence is not evicted, because its fence will be larger than the one that Evict issues.
func (p *pinned) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, p.sessions.db, key, func(ctx context.Context, conn *sql.Conn) (lock.Fence, error) {
		// The fence is issued before the connection ends, because the next holder gets its fence at once, and must not
		// have a smaller one than Evict.
		fence, err := drawFence(ctx, conn, columnName(key))
		if err != nil {
			return fence, err
		}
		holders, err := p.primitive.holders(ctx, conn, []string{key})
		h, held := holders[columnName(key)]
		if err != nil || !held || h.fence > fence {
			return fence, err // the key is free, or the holder has a later fence than ours
		}
		return fence, endConnection(ctx, conn, h.thread)
	})
}

// endConnection makes the server end a connection, and waits until it has. If there is no such connection, it returns
// nil.
func endConnection(ctx context.Context, conn *sql.Conn, thread int64) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", thread))
	if err != nil && mysqlerr.Number(err) != mysqlerr.NoSuchThread {
		return err
	}
	for {
		var there int
		const query = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?"
		err := conn.QueryRowContext(ctx, query, thread).Scan(&there)
		if err != nil || there == 0 {
			return err
		}
		if driver.Sleep(ctx, 2*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// Keys returns the keys that are held or waited for at the server. Keys of more than 255 bytes are not listed: the
// tables have only their digests.
func (p *pinned) Keys(ctx context.Context) (keys []string, err error) {
	err = onConnection(ctx, p.sessions.db, "list locks", func(ctx context.Context, conn *sql.Conn) error {
		names, err := p.primitive.heldNames(ctx, conn)
		if err != nil {
			return err
		}
		list, err := processes(ctx, conn)
		for _, one := range list {
			if one.waits {
				names = append(names, one.label.name)
			}
		}
		keys = readable(names)
		return err
	})
	return keys, err
}

// holders reads the names that the holders have written but not committed. They disappear when the transactions end.
func (rowLock) holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error) {
	held := make(map[string]holder)
	err := uncommitted(ctx, conn, func(tx *sql.Tx) error {
		query := "SELECT name, thread, who, fence, " + microseconds + " FROM lock_rows WHERE thread <> 0 AND name IN " +
			marks(len(keys))
		return eachRow(ctx, tx, query, anys(columnNames(keys)), func(rows *sql.Rows) error {
			var name string
			var h holder
			err := rows.Scan(&name, &h.thread, &h.owner, &h.fence, &h.now)
			held[name] = h
			return err
		})
	})
	return held, err
}

func (rowLock) heldNames(ctx context.Context, conn *sql.Conn) (names []string, err error) {
	err = uncommitted(ctx, conn, func(tx *sql.Tx) (err error) {
		names, err = column(ctx, tx, "SELECT name FROM lock_rows WHERE thread <> 0")
		return err
	})
	return names, err
}

// uncommitted calls read in a transaction that sees uncommitted writes of other transactions and does not wait for
// their locks.
func uncommitted(ctx context.Context, conn *sql.Conn, read func(tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(read(tx), tx.Rollback())
}

// holders reads from the server which connection has each lock, and then from the table which owner and connection got
// the last fence. If the connections differ, the holder's owner and fence are not known.
func (namedLock) holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error) {
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return nil, err
	}
	held := make(map[string]holder)
	for part := range slices.Chunk(keys, 500) { // a SELECT has 4,096 columns at most
		locks, threads, into := make([]any, len(part)), make([]sql.NullInt64, len(part)), make([]any, len(part))
		for i, key := range part {
			locks[i], into[i] = namedLockName(database.String, key), &threads[i]
		}
		query := "SELECT IS_USED_LOCK(?)" + strings.Repeat(", IS_USED_LOCK(?)", len(part)-1)
		if err := conn.QueryRowContext(ctx, query, locks...).Scan(into...); err != nil {
			return nil, err
		}
		for i, thread := range threads {
			if thread.Valid {
				held[columnName(part[i])] = holder{thread: thread.Int64}
			}
		}
	}
	query := "SELECT name, thread, who, held, " + microseconds + " FROM lock_fences WHERE name IN " + marks(len(keys))
	err := eachRow(ctx, conn, query, anys(columnNames(keys)), func(rows *sql.Rows) error {
		var name string
		var last holder
		if err := rows.Scan(&name, &last.thread, &last.owner, &last.fence, &last.now); err != nil {
			return err
		}
		if h, found := held[name]; found && h.thread == last.thread {
			held[name] = last
		}
		return nil
	})
	return held, err
}

// heldNames reads the table, because the server does not list its named locks. It checks the keys whose last fence was
// issued to a connection that still exists.
func (n namedLock) heldNames(ctx context.Context, conn *sql.Conn) (names []string, err error) {
	last, err := column(ctx, conn,
		"SELECT name FROM lock_fences WHERE thread IN (SELECT ID FROM information_schema.PROCESSLIST)")
	if err != nil {
		return nil, err
	}
	keys := readable(last)
	if len(keys) == 0 {
		return nil, nil
	}
	held, err := n.holders(ctx, conn, keys)
	return slices.Collect(maps.Keys(held)), err
}

// A process is a connection as the server lists it.
type process struct {
	id    int64
	idle  time.Duration // time since its last statement began or ended, in whole seconds
	waits bool          // its statement has a label
	label label
}

// processes lists the connections threads, and the connections that wait for a lock of this database, in order of
// arrival. Any user may see its own connections. To see others, it needs the privilege PROCESS.
func processes(ctx context.Context, conn *sql.Conn, threads ...int64) ([]process, error) {
	var found []process
	ids := append([]int64{0}, threads...) // no connection has the number 0
	query := "SELECT ID, TIME, INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()" +
		" AND (ID IN " + marks(len(ids)) + " OR (DB = DATABASE() AND INFO LIKE '%" + labelStart + "%'))"
	err := eachRow(ctx, conn, query, anys(ids), func(rows *sql.Rows) error {
		var p process
		var seconds int64
		var statement sql.NullString
		if err := rows.Scan(&p.id, &seconds, &statement); err != nil {
			return err
		}
		p.idle = time.Duration(seconds) * time.Second
		p.label, p.waits = parseLabel(statement.String)
		found = append(found, p)
		return nil
	})
	slices.SortFunc(found, func(a, b process) int {
		return cmp.Or(a.label.since.Compare(b.label.since), cmp.Compare(a.id, b.id))
	})
	return found, err
}

// A label is a comment at the end of a waiting statement, which identifies the waiter for Inspect. The server shows the
// text of a running statement to every client that may see the connection; without privileges these are the clients of
// the same database user. A label costs no round trip, and nothing of it remains.
type label struct {
	name, owner string    // the key's name in the tables, and the owner of the waiter
	since       time.Time // by the waiter's clock
}

func newLabel(key string, o lock.Options) label {
	return label{columnName(key), ownerColumn(o.Owner), time.Now()}
}

const labelStart = "/* waits "

// String escapes every byte that could end a comment, be read as a parameter, or differ between character sets.
func (l label) String() string {
	since := strconv.FormatInt(l.since.UnixMilli(), 10)
	return " " + labelStart + url.PathEscape(l.name) + " " + since + " " + url.PathEscape(l.owner) + " */"
}

// parseLabel finds the label in the text of a statement.
func parseLabel(statement string) (label, bool) {
	statement, ended := strings.CutSuffix(statement, " */")
	at := strings.LastIndex(statement, labelStart)
	if !ended || at < 0 {
		return label{}, false
	}
	part := strings.Split(statement[at+len(labelStart):], " ")
	if len(part) != 3 {
		return label{}, false
	}
	name, err1 := url.PathUnescape(part[0])
	since, err2 := strconv.ParseInt(part[1], 10, 64)
	owner, err3 := url.PathUnescape(part[2])
	return label{name, owner, time.UnixMilli(since)}, err1 == nil && err2 == nil && err3 == nil
}

var (
	_ driver.BatchInspector = (*Table)(nil)
	_ driver.Evictor        = (*Table)(nil)
	_ driver.Lister         = (*Table)(nil)
	_ driver.BatchInspector = (*pinned)(nil)
	_ driver.Evictor        = (*pinned)(nil)
	_ driver.Lister         = (*pinned)(nil)
)
