package mysqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

const (
	// beatEvery is the longest pause between two pings of a connection that holds a lock.
	beatEvery = time.Second
	// peekEvery is how often its socket is looked at in between, which sends nothing: a connection that the server, an operator
	// or the network has ended is known as soon as that has come to this computer.
	peekEvery = 50 * time.Millisecond
	// killTimeout bounds the attempt to end from another connection what this one is doing.
	killTimeout = 500 * time.Millisecond
)

// A session is a connection that locks live in. One goroutine uses it at a time; while a lease is held, that is the one that
// renews, and the peeks beside it.
type session struct {
	db       *sql.DB
	conn     *sql.Conn
	id       int64
	host     string // of this end, as the server sees it
	database string

	patience int // innodb_lock_wait_timeout, s
	born     time.Time
	idle     time.Time // since
	reused   bool
	doubt    bool // what the server does with it is not known: it must be closed
	silent   bool // because the server did not answer in time

	ping   chan error // the answer to a ping that is under way
	hangUp context.CancelFunc
	peeks  sync.WaitGroup
}

// dial takes a connection out of db, for good: what it is made to be here must not find its way back into the pool.
func dial(ctx context.Context, db *sql.DB, setup []string) (*session, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	s := &session{db: db, conn: conn, born: time.Now()}
	var database sql.NullString
	err = s.brief(ctx, func(ctx context.Context) error {
		// The row of the list of processes and not CONNECTION_ID alone: a server that starts again counts from 1 again, and a
		// KILL must not meet another's connection.
		return conn.QueryRowContext(ctx, "SELECT ID, HOST, DATABASE() FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()").
			Scan(&s.id, &s.host, &database)
	})
	s.database = database.String
	for _, statement := range setup {
		if err == nil {
			err = s.exec(ctx, statement)
		}
	}
	if err != nil {
		s.hang()
		return nil, err
	}
	return s, nil
}

// exec runs a statement that waits for nobody.
func (s *session) exec(ctx context.Context, statement string, args ...any) error {
	return s.brief(ctx, func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, statement, args...)
		return err
	})
}

// brief asks something that is answered soon.
func (s *session) brief(ctx context.Context, ask func(context.Context) error) error {
	late, cancel := linger(ctx)
	defer cancel()
	return s.judge(ask(late))
}

// wait asks something that is answered when another has released. When ctx ends it takes the question back: that the client has
// gone away does not take anybody out of the server's queue, which has no eye on the network. What it returns is the answer, so
// it may be nil after the end of ctx.
func (s *session) wait(ctx context.Context, ask func(context.Context) error) error {
	asking, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	answer := make(chan error, 1)
	go func() { answer <- ask(asking) }()
	select {
	case err := <-answer:
		return s.judge(err)
	case <-ctx.Done():
	}
	if s.kill(context.WithoutCancel(ctx), "QUERY") == nil {
		select {
		case err := <-answer:
			return s.judge(err)
		case <-time.After(killTimeout):
		}
	}
	hangUp() // the driver breaks the connection
	return s.judge(<-answer)
}

// judge marks the session as doubtful unless the server has answered.
func (s *session) judge(err error) error {
	if err != nil && mysqlerr.Number(err) == 0 && !errors.Is(err, sql.ErrNoRows) {
		s.doubt = true
		s.silent = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	}
	return err
}

// kill ends, from another connection, what this one is doing: its statement ("QUERY"), or all of it ("CONNECTION").
func (s *session) kill(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	var one int
	const same = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ? AND HOST = ?"
	err := s.db.QueryRowContext(ctx, same, s.id, s.host).Scan(&one)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "KILL "+what+" "+strconv.FormatInt(s.id, 10))
	}
	if errors.Is(err, sql.ErrNoRows) || mysqlerr.Number(err) == mysqlerr.NoSuchThread {
		return nil
	}
	return err
}

// beat asks whether the connection lives, and so keeps the server from ending it. The driver can give up a ping only by
// breaking the connection, and the lock with it: one that takes longer than ctx goes on, and the next beat begins with it.
func (s *session) beat(ctx context.Context) error {
	for {
		fresh := s.ping == nil
		if fresh {
			s.ping = make(chan error, 1)
			var asking context.Context
			asking, s.hangUp = context.WithCancel(context.Background())
			go func(answer chan<- error) { answer <- s.conn.PingContext(asking) }(s.ping)
		}
		select {
		case err := <-s.ping:
			s.ping = nil
			s.hangUp()
			if err != nil && mysqlerr.Number(err) != mysqlerr.Interrupted {
				return gone(err)
			}
			if fresh {
				return err
			}
			// It answers, but when it heard that question is not known.
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quiet ends the beats, whose goroutine has ended. A ping may still be under way.
func (s *session) quiet(ctx context.Context) {
	if s.ping != nil {
		select {
		case err := <-s.ping:
			s.ping <- err
		case <-ctx.Done():
			s.doubt = true
		}
		s.hangUp()
		_ = s.judge(<-s.ping)
		s.ping = nil
	}
	s.peeks.Wait()
}

// watch looks at the socket until the lease ends. after is called if it is lost.
func (s *session) watch(lease *lock.Lease, lost context.CancelCauseFunc, after func()) {
	s.peeks.Go(func() {
		ticker := time.NewTicker(peekEvery)
		defer ticker.Stop()
		for {
			select {
			case <-lease.Done():
				if errors.Is(lease.Err(), lock.ErrLost) {
					after()
				}
				return
			case <-ticker.C:
				if err := s.open(); err != nil {
					lost(gone(err))
				}
			}
		}
	})
}

// open tells whether the socket is: the driver looks whether there is something to read on it, which only an end can be.
func (s *session) open() error {
	return s.conn.Raw(func(conn any) error {
		if c, ok := conn.(driver.SessionResetter); ok {
			return c.ResetSession(context.Background())
		}
		return nil
	})
}

// gone is the loss of a lease whose connection has ended.
func gone(err error) error {
	return fmt.Errorf("%w: the connection that held it has ended: %w", lock.ErrExpired, err)
}

// clear marks the session as doubtful unless a statement that was to leave nothing on it has done so.
func (s *session) clear(err error) {
	if err != nil {
		s.doubt = true
	}
}

// hang closes the connection itself instead of giving it back to the pool.
func (s *session) hang() {
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}
