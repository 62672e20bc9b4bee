package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// GetLock is a named lock of the server: GET_LOCK, which belongs to the connection that asked for it and to no transaction.
//
// Algorithm: GET_LOCK; draw the fence on the same connection, which commits each statement; RELEASE_LOCK, and look at what it
// says. The name is made of the database and the key (see userLockName). Waiters stand in the server's queue, one connection
// for each key of a process; one that gives up takes its question back by KILL QUERY, because the server does not see soon that
// the client has gone.
//
// Round trips: 3 uncontended (lock, fence, release), and a ping every second. A connection costs 2 when it is opened. A try
// (lock.NoWait) that fails costs 1. Waiting costs none, giving up 4.
//
// Room: a key that is held keeps a connection, and MaxConns bounds them. At most half of them wait in the server's
// queue; further waiters poll, 2 round trips every 10 to 100 ms, and give the connection back in between, so that
// keys which somebody does not let go of leave room for others. Where all are held, a try fails with
// lock.ErrNoCapacity, and a wait gets the next one that is free.
//
// What it promises, and does not, is what [ForUpdate] does; the order of waiters is up to the server. In addition it is a lock
// of one server in the strictest sense: neither replicated nor part of any transaction.
//
// The connection is never given back to the pool. A named lock outlives ROLLBACK and everything else but its release and the
// end of the connection: whoever got such a connection out of the pool would hold a lock that he knows nothing of.
type GetLock struct{ *pinned }

// NewGetLock makes a GetLock on db. Close it when no lease is held any more.
func NewGetLock(db *sql.DB, o ConnOptions) *GetLock {
	return &GetLock{newPinned(db, o, namedLock{})}
}

// A namedLock is the way of GetLock.
type namedLock struct{}

func (namedLock) setup(lease int) []string {
	return []string{fmt.Sprintf("SET SESSION autocommit = 1, wait_timeout = %d, innodb_lock_wait_timeout = %d", lease, leastPatience)}
}

func (namedLock) enter(ctx context.Context, s *session, key string, o lock.Options) error {
	var got sql.NullBool
	ask := func(seconds int, label string) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)"+label, userLockName(s.database, key), seconds).Scan(&got)
		}
	}
	var err error
	if o.TryOnce {
		err = s.brief(ctx, ask(0, ""))
	} else {
		seconds := mostPatience
		if deadline, ok := ctx.Deadline(); ok {
			// Longer than we wait, but not for much longer: if this process ends without a word, its place in the queue ends
			// with that.
			seconds = min(seconds, int(time.Until(deadline)/time.Second)+1)
		}
		err = s.wait(ctx, ask(seconds, labelOf(key, o)))
	}
	switch {
	case err == nil && got.Bool:
		return nil
	case err == nil && got.Valid:
		return errBusy
	case err == nil:
		err = errAgain // NULL: it was interrupted
	}
	if !s.doubt {
		// The server says that it has not granted it. To be sure costs a round trip, on a path that is rare.
		if left := (namedLock{}).leave(ctx, s, key); !final(left) || left == nil {
			s.doubt = true
		}
	}
	return meaning(err)
}

func (namedLock) mint(ctx context.Context, s *session, key string, o lock.Options) (fence lock.Fence, heard time.Time, err error) {
	heard = time.Now()
	err = s.brief(ctx, func(ctx context.Context) error {
		fence, err = mintAs(ctx, s.conn, columnName(key), shown(o.Owner), s.id)
		return err
	})
	return fence, heard, err
}

func (namedLock) leave(ctx context.Context, s *session, key string) error {
	var freed sql.NullBool
	err := s.brief(ctx, func(ctx context.Context) error {
		return s.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", userLockName(s.database, key)).Scan(&freed)
	})
	switch {
	case err != nil:
		return err
	case !freed.Valid:
		return lock.ErrExpired // nobody has it
	case !freed.Bool:
		return lock.ErrTaken
	}
	return nil
}

func (namedLock) forget(ctx context.Context, db *sql.DB, age time.Duration) error {
	return fences.forget(ctx, db, age)
}

// look asks the server which connection has the lock, and the table who drew a fence last, on which. If that is another one, it is only known
// that somebody has it.
func (namedLock) look(ctx context.Context, conn *sql.Conn, key string) (seen sight, err error) {
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return sight{}, err
	}
	var thread, drawer, fence sql.NullInt64
	var who sql.NullString
	err = conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?), "+microseconds+", f.thread, f.who, f.held"+
		" FROM (SELECT 1) one LEFT JOIN lock_fences f ON f.name = ?", userLockName(database.String, key), columnName(key)).
		Scan(&thread, &seen.now, &drawer, &who, &fence)
	seen.thread = thread.Int64
	if drawer == thread {
		seen.who, seen.fence = who.String, lock.Fence(fence.Int64)
	}
	return seen, err
}

// held goes by the table, for the server does not list its named locks: the keys whose last fence was drawn by a connection that still is.
func (n namedLock) held(ctx context.Context, conn *sql.Conn) (names []string, err error) {
	last, err := texts(ctx, conn, "SELECT name FROM lock_fences WHERE thread IN (SELECT ID FROM information_schema.PROCESSLIST)")
	for _, name := range readable(last) {
		if err != nil {
			break
		}
		var seen sight
		if seen, err = n.look(ctx, conn, name); seen.thread != 0 {
			names = append(names, name)
		}
	}
	return names, err
}
