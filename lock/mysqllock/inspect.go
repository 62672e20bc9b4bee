package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// A holder is what the server knows about the holder of a key. What it does not know is zero.
type holder struct {
	thread int64 // the connection that holds; 0: none is seen
	owner  string
	fence  lock.Fence
	now    int64 // the server's clock, in the unit of the fences
}

// since returns the time that the fence tells, because it is made of the server's clock. A fence ahead of the clock
// tells none: it was counted, because the clock had been set back.
func (h holder) since() time.Time {
	age := h.now - int64(h.fence)
	if h.fence == lock.NoFence || age < 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(age) * time.Microsecond)
}

// Inspect returns the holder, its fence, since when it holds by that fence, and how long its lease still runs, in one
// round trip. Waiters poll and leave no trace: they are not known.
func (t *Table) Inspect(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	err := onConnection(ctx, t.db, inspecting(key), func(ctx context.Context, conn *sql.Conn) error {
		const query = "SELECT who, fence, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at), " + microseconds +
			" FROM locks WHERE name = ?"
		var h holder
		var left int64
		err := conn.QueryRowContext(ctx, query, columnName(key)).Scan(&h.owner, &h.fence, &left, &h.now)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil || left <= 0:
			return err
		}
		state.Holder = &lock.Contender{Who: h.owner, Since: h.since(), Remaining: lock.Forever, Fence: h.fence}
		if left < never.Microseconds()/2 {
			state.Holder.Remaining = time.Duration(left) * time.Microsecond
		}
		return nil
	})
	return state, err
}

// Evict takes the row from its owner, also one without a time limit, and draws a fence, in one round trip. The holder
// is told at its next renewal, a third of Lease later at most.
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

// Keys returns the keys that are held. Those of more than 255 bytes are not listed: the table has digests of them.
func (t *Table) Keys(ctx context.Context) (keys []string, err error) {
	err = onConnection(ctx, t.db, "list locks", func(ctx context.Context, conn *sql.Conn) error {
		names, err := column(ctx, conn, "SELECT name FROM locks WHERE expires_at > UTC_TIMESTAMP(6)")
		keys = readable(names)
		return err
	})
	return keys, err
}

// Inspect returns the holder, its fence, since when it holds by that fence, and after how long a silence the server
// would end its connection, assuming that its Lease is ours. It also returns the waiters in order of arrival; those
// of this process that are not at the server yet come last. Five round trips. None of them waits for a lock or makes
// anybody wait.
//
// It needs no privileges. Only the privilege PROCESS shows the waiters of another database user, and how long such a
// holder has left.
func (p *pinned) Inspect(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	err := onConnection(ctx, p.sessions.db, inspecting(key), func(ctx context.Context, conn *sql.Conn) error {
		h, err := p.primitive.holder(ctx, conn, key)
		if err != nil {
			return err
		}
		list, err := processes(ctx, conn, h.thread)
		if err != nil {
			return err
		}
		if h.thread != 0 {
			state.Holder = &lock.Contender{Who: h.owner, Since: h.since(), Fence: h.fence}
		}
		for _, one := range list {
			switch {
			case one.id == h.thread:
				state.Holder.Remaining = max(p.Lease-one.idle, 0)
			case one.waits && one.label.name == columnName(key):
				state.Waiters = append(state.Waiters, lock.Contender{Who: one.label.owner, Since: one.label.since})
			}
		}
		return nil
	})
	if err != nil {
		return lock.State{Scope: lock.Cluster}, err
	}
	state.Waiters = append(state.Waiters, p.queue.State(key).Waiters...)
	return state, nil
}

// Evict draws a fence, and has the server end the connection that holds the key, and with it the lock. The holder
// sees that within socketCheckEvery, unless it is frozen. Up to seven round trips.
//
// To end a connection of the same database user needs no privilege. To end that of another user needs CONNECTION
// ADMIN (SUPER on old servers).
//
// Does not promise: that the key cannot change hands between the look at who has it and the end of that connection, a
// round trip later. A holder that releases the key in between and takes another key with that connection loses the
// other key instead, as if the network had failed. A holder that has the lock and not yet its fence is not seen: it
// can go on for Lease, and has the larger fence if it does.
func (p *pinned) Evict(ctx context.Context, key string) (fence lock.Fence, err error) {
	err = onConnection(ctx, p.sessions.db, evicting(key), func(ctx context.Context, conn *sql.Conn) error {
		// Before the connection ends: the next holder draws at once, and must not have the smaller fence.
		if fence, err = drawFence(ctx, conn, columnName(key)); err != nil {
			return err
		}
		h, err := p.primitive.holder(ctx, conn, key)
		if err != nil || h.thread == 0 || h.fence > fence {
			return err // nobody holds, or somebody who came since
		}
		return endConnection(ctx, conn, h.thread)
	})
	if err != nil {
		return lock.NoFence, err
	}
	return fence, nil
}

// endConnection has the server end a connection, and waits until it has. One that is gone already is no error.
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

// Keys returns the keys that somebody is seen to hold or to wait for. Those of more than 255 bytes are not listed:
// the tables have digests of them.
func (p *pinned) Keys(ctx context.Context) (keys []string, err error) {
	err = onConnection(ctx, p.sessions.db, "list locks", func(ctx context.Context, conn *sql.Conn) error {
		names, err := p.primitive.heldNames(ctx, conn)
		if err != nil {
			return err
		}
		list, err := processes(ctx, conn, 0)
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

// inspecting and evicting say what is being done, for errors.
func inspecting(key string) string { return fmt.Sprintf("inspect lock %q", key) }
func evicting(key string) string   { return fmt.Sprintf("evict the holder of lock %q", key) }

// A process is a connection as the server lists it.
type process struct {
	id    int64
	idle  time.Duration // since its last statement began or ended
	query int64         // grows from statement to statement; 0: MySQL does not tell
	waits bool          // its statement has a label
	label label
}

// processes lists the connection thread, and the connections that wait for a lock of this database, in order of
// arrival.
//
// Any user may see its own connections. To see the others needs the privilege PROCESS. Columns are found by name:
// MariaDB has more of them, and better ones.
func processes(ctx context.Context, conn *sql.Conn, thread int64) ([]process, error) {
	rows, err := conn.QueryContext(ctx, "SELECT * FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"+
		" AND (ID = ? OR (DB = DATABASE() AND INFO LIKE '%"+labelStart+"%'))", thread)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list []process
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make(map[string]string, len(columns))
		for i, name := range columns {
			row[strings.ToUpper(name)] = values[i].String
		}
		list = append(list, newProcess(row))
	}
	// MySQL does not number its statements: there the order is that of the waiters' clocks.
	slices.SortFunc(list, func(a, b process) int {
		return cmp.Or(cmp.Compare(a.query, b.query), a.label.since.Compare(b.label.since), cmp.Compare(a.id, b.id))
	})
	return list, rows.Err()
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

// A label is what a statement that waits says about itself, as a comment at its end. The server shows the text of a
// running statement to everybody who may see the connection, and without privileges that is everybody with the same
// database user. It costs no round trip and leaves nothing behind.
type label struct {
	name, owner string    // the key as the tables have it, and the owner of the waiter
	since       time.Time // by the waiter's clock
}

// newLabel returns the label of a statement that waits for key from now on.
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

// escape returns s with a percent escape for every byte that could end a comment, could be taken for a parameter, or
// is not the same in every character set.
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
)
