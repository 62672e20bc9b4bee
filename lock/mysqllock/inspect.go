package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// A holder is what the server knows about the holder of a key. Unknown fields are zero.
type holder struct {
	thread int64 // the connection that holds the key; 0: none
	owner  string
	fence  lock.Fence
	now    int64 // time of the server's clock, in the unit of the fences
}

// since returns the start of the hold, which is derived from the fence. It is zero if the fence is ahead of the
// clock: the clock was set back, so the fence was made by counting.
func (h holder) since() time.Time {
	age := h.now - int64(h.fence)
	if h.fence == lock.NoFence || age < 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(age) * time.Microsecond)
}

// Inspect returns the holder, its fence, the start of the hold, which is derived from the fence, and the remaining time
// of its lease, in one round trip. It returns no waiters, because they poll and the server does not know them.
func (t *Table) Inspect(ctx context.Context, key string) (lock.State, error) {
	return only(t.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, in a round trip for every 500.
func (t *Table) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return inBatches(ctx, t.db, keys, func(ctx context.Context, conn *sql.Conn, keys []string) ([]lock.State, error) {
		names := columnNames(keys)
		query := "SELECT name, who, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), " + microseconds +
			" FROM locks WHERE name IN " + marks(len(names))
		holders := make(map[string]lock.Contender)
		err := eachRow(ctx, conn, query, anys(names), func(rows *sql.Rows) error {
			var name string
			var h holder
			var left int64
			if err := rows.Scan(&name, &h.owner, &h.fence, &left, &h.now); err != nil || left <= 0 {
				return err
			}
			c := lock.Contender{Who: h.owner, Since: h.since(), Remaining: lock.Forever, Fence: h.fence}
			if left < never.Microseconds()/2 {
				c.Remaining = time.Duration(left) * time.Microsecond
			}
			holders[name] = c
			return nil
		})
		states := make([]lock.State, len(names))
		for i, name := range names {
			states[i].Scope = lock.Cluster
			if c, held := holders[name]; held {
				states[i].Holder = &c
			}
		}
		return states, err
	})
}

// batch is how many keys are inspected by one statement.
const batch = 500

// inBatches calls read with up to 500 keys at a time, and joins the states.
func inBatches(ctx context.Context, db *sql.DB, keys []string,
	read func(ctx context.Context, conn *sql.Conn, keys []string) ([]lock.State, error),
) ([]lock.State, error) {
	states := make([]lock.State, 0, len(keys))
	for part := range slices.Chunk(keys, batch) {
		doing := inspecting(part[0])
		if len(part) > 1 {
			doing = fmt.Sprintf("inspect %d locks", len(part))
		}
		err := onConnection(ctx, db, doing, func(ctx context.Context, conn *sql.Conn) error {
			read, err := read(ctx, conn, part)
			if err == nil {
				states = append(states, read...)
			}
			return err
		})
		if err != nil {
			return states, err
		}
	}
	return states, nil
}

// only returns the state of the one key that was inspected.
func only(states []lock.State, err error) (lock.State, error) {
	if err != nil {
		return lock.State{Scope: lock.Cluster}, err
	}
	return states[0], nil
}

// Evict takes the row from its owner, even if it has no time limit, and issues a fence, in one round trip. The
// holder's lease ends at its next renewal, at most a third of Lease later.
func (t *Table) Evict(ctx context.Context, key string) (fence lock.Fence, err error) {
	const takeOver = "INSERT INTO locks (name, token, who, fence, expires_at)" +
		" VALUES (?, '', '', LAST_INSERT_ID(" + microseconds + "), '1970-01-01')" +
		" ON DUPLICATE KEY UPDATE token = '', who = '', expires_at = '1970-01-01', fence = " + nextFence
	err = onConnection(ctx, t.db, evicting(key), func(ctx context.Context, conn *sql.Conn) error {
		result, err := execute(ctx, conn, takeOver, columnName(key), fenceDistance)
		if err == nil {
			fence, err = drawnFence(result)
		}
		return err
	})
	if err != nil {
		return lock.NoFence, err
	}
	return fence, nil
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
// returns the waiters in order of arrival; waiters of this process that are not at the server yet come last. It takes
// five round trips. None of them waits for a lock or delays another client.
//
// It needs no privileges. But without the privilege PROCESS it does not see the waiters of other database users, nor
// the remaining time of a holder of another user.
func (p *pinned) Inspect(ctx context.Context, key string) (lock.State, error) {
	return only(p.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, with the round trips of Inspect for every 500.
func (p *pinned) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	states, err := inBatches(ctx, p.sessions.db, keys, p.inspect)
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
	idle, waiters := make(map[int64]time.Duration), make(map[string][]lock.Contender)
	for _, one := range list {
		idle[one.id] = one.idle
		if one.waits {
			waiter := lock.Contender{Who: one.label.owner, Since: one.label.since}
			waiters[one.label.name] = append(waiters[one.label.name], waiter)
		}
	}
	states := make([]lock.State, len(keys))
	for i, name := range columnNames(keys) {
		states[i] = lock.State{Scope: lock.Cluster, Waiters: slices.Clone(waiters[name])}
		h, held := holders[name]
		if !held {
			continue
		}
		states[i].Holder = &lock.Contender{Who: h.owner, Since: h.since(), Fence: h.fence}
		if idle, listed := idle[h.thread]; listed {
			states[i].Holder.Remaining = max(p.Lease-idle, 0)
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
func (p *pinned) Evict(ctx context.Context, key string) (fence lock.Fence, err error) {
	err = onConnection(ctx, p.sessions.db, evicting(key), func(ctx context.Context, conn *sql.Conn) error {
		// The fence is issued before the connection ends, because the next holder gets its fence at once, and must not
		// have a smaller one than Evict.
		if fence, err = drawFence(ctx, conn, columnName(key)); err != nil {
			return err
		}
		holders, err := p.primitive.holders(ctx, conn, []string{key})
		h, held := holders[columnName(key)]
		if err != nil || !held || h.fence > fence {
			return err // the key is free, or the holder has a later fence than ours
		}
		return endConnection(ctx, conn, h.thread)
	})
	if err != nil {
		return lock.NoFence, err
	}
	return fence, nil
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
		if lock.Sleep(ctx, 2*time.Millisecond) != nil {
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

// inspecting and evicting return the prefix of error texts.
func inspecting(key string) string { return fmt.Sprintf("inspect lock %q", key) }
func evicting(key string) string   { return fmt.Sprintf("evict the holder of lock %q", key) }

// A process is a connection as the server lists it.
type process struct {
	id    int64
	idle  time.Duration // time since its last statement began or ended
	query int64         // number of the statement; 0 on MySQL, which does not number statements
	waits bool          // its statement has a label
	label label
}

// processes lists the connections threads, and the connections that wait for a lock of this database, in order of
// arrival.
//
// Any user may see its own connections. To see others, it needs the privilege PROCESS. Columns are found by name,
// because MariaDB has more of them.
func processes(ctx context.Context, conn *sql.Conn, threads ...int64) ([]process, error) {
	var found []process
	ids := append([]int64{0}, threads...) // no connection has the number 0
	query := "SELECT * FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()" +
		" AND (ID IN " + marks(len(ids)) + " OR (DB = DATABASE() AND INFO LIKE '%" + labelStart + "%'))"
	err := eachRow(ctx, conn, query, anys(ids), func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make(map[string]string, len(columns))
		for i, name := range columns {
			row[strings.ToUpper(name)] = values[i].String
		}
		found = append(found, newProcess(row))
		return nil
	})
	// MySQL does not number its statements, so there the waiters are sorted by the times of their own clocks.
	slices.SortFunc(found, func(a, b process) int {
		return cmp.Or(cmp.Compare(a.query, b.query), a.label.since.Compare(b.label.since), cmp.Compare(a.id, b.id))
	})
	return found, err
}

func newProcess(row map[string]string) (p process) {
	p.id, _ = strconv.ParseInt(row["ID"], 10, 64)
	p.query, _ = strconv.ParseInt(row["QUERY_ID"], 10, 64)
	p.label, p.waits = parseLabel(row["INFO"])
	if ms, err := strconv.ParseFloat(row["TIME_MS"], 64); err == nil {
		p.idle = time.Duration(ms * float64(time.Millisecond))
	} else if s, err := strconv.ParseInt(row["TIME"], 10, 64); err == nil {
		p.idle = time.Duration(s) * time.Second
	}
	return p
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

func (l label) String() string {
	since := strconv.FormatInt(l.since.UnixMilli(), 10)
	return " " + labelStart + escape(l.name) + " " + since + " " + escape(l.owner) + " */"
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

// escape returns s with a percent escape for every byte that could end a comment, be read as a parameter, or differ
// between character sets.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.:/@#", c) >= 0:
			out.WriteByte(c)
		default:
			out.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return out.String()
}

var (
	_ lock.Inspector = (*Table)(nil)
	_ lock.Evictor   = (*Table)(nil)
	_ lock.Lister    = (*Table)(nil)
	_ lock.Inspector = (*pinned)(nil)
	_ lock.Evictor   = (*pinned)(nil)
	_ lock.Lister    = (*pinned)(nil)

	_ lock.BatchInspector = (*Table)(nil)
	_ lock.BatchInspector = (*pinned)(nil)
)
