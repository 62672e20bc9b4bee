package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

// A sight is what the server knows of the holder of a key. What it does not is zero.
type sight struct {
	thread int64 // that holds; 0: none is seen to
	who    string
	fence  lock.Fence
	now    int64 // the server's clock, as fences have it
}

// since is read off the fence, which is made of the server's clock. One ahead of it was counted, because the clock had been set back.
func (s sight) since() time.Time {
	age := s.now - int64(s.fence)
	if s.fence == lock.NoFence || age < 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(age) * time.Microsecond)
}

// A witness looks for holders.
type witness interface {
	// look asks who holds key now. A holder that has not drawn its fence yet may be seen without a name, or not at all.
	look(ctx context.Context, conn *sql.Conn, key string) (sight, error)
	// held are the names, as the tables have them, of the keys that are held now.
	held(ctx context.Context, conn *sql.Conn) ([]string, error)
}

// Inspect tells the holder, its fence, since when it holds by that, and after how long a silence the server would end its connection,
// taking for granted that its Lease is ours; and the waiters in the order in which they came, those of this process that are not at the
// server yet at the end. Five round trips, none of which waits for a lock or keeps anybody waiting.
//
// It needs no privileges, but of connections of another user only the privilege PROCESS shows waiters, and how long the holder has left.
func (p *pinned) Inspect(ctx context.Context, key string) (lock.State, error) {
	standing := lock.State{Scope: lock.Cluster}
	err := ask(ctx, p.sessions.db, fmt.Sprintf("inspect lock %q", key), func(ctx context.Context, conn *sql.Conn) error {
		seen, err := p.witness.look(ctx, conn, key)
		if err != nil {
			return err
		}
		list, err := processes(ctx, conn, seen.thread)
		if err != nil {
			return err
		}
		if seen.thread != 0 {
			standing.Holder = &lock.Contender{Who: seen.who, Since: seen.since(), Fence: seen.fence}
		}
		for _, one := range list {
			switch {
			case one.id == seen.thread:
				standing.Holder.Remaining = max(p.Lease-one.idle, 0)
			case one.waiting && one.waits.name == columnName(key):
				standing.Waiters = append(standing.Waiters, lock.Contender{Who: one.waits.who, Since: one.waits.since})
			}
		}
		return nil
	})
	if err != nil {
		return lock.State{Scope: lock.Cluster}, err
	}
	standing.Waiters = append(standing.Waiters, p.gate.State(key).Waiters...)
	return standing, nil
}

// Evict draws a fence, and has the server end the connection that holds the key, with which the lock ends. The holder sees that within
// peekEvery, unless it is frozen. Up to seven round trips.
//
// To end a connection of the same user needs no privilege; that of another needs CONNECTION ADMIN (SUPER on old servers).
//
// Not promised: that the key cannot change hands between the look at who has it and the end of that connection, a round trip
// later. Who released it by himself in between, and has taken another key with that connection, loses that one instead, as if the network
// had failed. A holder between lock and fence is not seen: it has Lease to go on, and the larger fence if it does.
func (p *pinned) Evict(ctx context.Context, key string) (fence lock.Fence, err error) {
	err = ask(ctx, p.sessions.db, fmt.Sprintf("evict the holder of lock %q", key), func(ctx context.Context, conn *sql.Conn) error {
		// Before the connection ends: the next one draws at once, and must not have the smaller fence.
		if fence, err = mint(ctx, conn, columnName(key)); err != nil {
			return err
		}
		seen, err := p.witness.look(ctx, conn, key)
		if err != nil || seen.thread == 0 || seen.fence > fence {
			return err // nobody, or somebody who came since
		}
		return end(ctx, conn, seen.thread)
	})
	if err != nil {
		return lock.NoFence, err
	}
	return fence, nil
}

// Keys are those that somebody is seen to hold, or to wait for. Those of more than 255 bytes are not listed: the tables have digests of them.
func (p *pinned) Keys(ctx context.Context) (keys []string, err error) {
	err = ask(ctx, p.sessions.db, "list locks", func(ctx context.Context, conn *sql.Conn) error {
		names, err := p.witness.held(ctx, conn)
		if err != nil {
			return err
		}
		list, err := processes(ctx, conn, 0)
		for _, one := range list {
			if one.waiting {
				names = append(names, one.waits.name)
			}
		}
		keys = readable(names)
		return err
	})
	return keys, err
}

// readable leaves out digests, and what is there twice.
func readable(names []string) []string {
	seen := make(map[string]bool, len(names))
	keys := make([]string, 0, len(names))
	for _, name := range names {
		if !seen[name] && !strings.HasPrefix(name, digested) {
			keys = append(keys, name)
		}
		seen[name] = true
	}
	return keys
}

// ask does something that waits for nobody, on a connection of the pool.
func ask(ctx context.Context, db *sql.DB, doing string, do func(context.Context, *sql.Conn) error) error {
	soon, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := connect(soon, db)
	if err != nil {
		return fault(ctx, doing, err)
	}
	defer conn.Close()
	if err := do(soon, conn); err != nil {
		return fault(ctx, doing, err)
	}
	return nil
}

// end has the server end a connection, and waits until it has. One that is gone already is no error.
func end(ctx context.Context, conn *sql.Conn, thread int64) error {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", thread)); err != nil && mysqlerr.Number(err) != mysqlerr.NoSuchThread {
		return err
	}
	for {
		var there int
		err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", thread).Scan(&there)
		if err != nil || there == 0 {
			return err
		}
		if lock.Sleep(ctx, 2*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// texts reads a column.
func texts(ctx context.Context, on interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, args ...any,
) (list []string, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

var (
	_ lock.Inspector = (*pinned)(nil)
	_ lock.Evictor   = (*pinned)(nil)
	_ lock.Lister    = (*pinned)(nil)
)
