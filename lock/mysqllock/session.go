package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
)

const (
	// endTimeout limits the end of a connection at the server.
	endTimeout = 500 * time.Millisecond
	// sessionLife limits how long a session is used, because after a fail-over its server may not be the master any
	// more.
	sessionLife = 3 * time.Minute
)

// A session is a connection that holds or waits for a key. See pinned for who may use it.
type session struct {
	db       *sql.DB
	conn     *sql.Conn
	id       int64
	host     string // address of the client, as the server sees it
	database string

	born      time.Time
	idleSince time.Time // zero: it is new
	broken    bool      // the state of the connection at the server is not known: it must be ended
	timedOut  bool      // because the server did not answer in time
	gaveUp    bool      // because its caller no longer waits for a lock

	using        sync.Mutex         // held by who uses the session, from the grant of a key to its release
	breakRenewal context.CancelFunc // of the last lease: it breaks the connection if a renewal is under way
}

// dial takes a connection from db. The connection is never returned to db, because its settings must not leak into the
// pool.
func dial(ctx context.Context, db *sql.DB, setup []string) (*session, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	s := &session{db: db, conn: conn, born: time.Now()}
	err = s.ask(ctx, func(ctx context.Context) error {
		const self = "SELECT ID, HOST, COALESCE(DATABASE(), '') FROM information_schema.PROCESSLIST" +
			" WHERE ID = CONNECTION_ID()"
		return conn.QueryRowContext(ctx, self).Scan(&s.id, &s.host, &s.database)
	})
	for _, statement := range setup {
		if err == nil {
			err = s.exec(ctx, statement)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// exec runs a statement that does not wait for a lock.
func (s *session) exec(ctx context.Context, statement string, args ...any) error {
	return s.ask(ctx, func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, statement, args...)
		return err
	})
}

// ask calls send, which must not wait for a lock, with a time limit.
func (s *session) ask(ctx context.Context, send func(context.Context) error) error {
	late, cancel := withGrace(ctx)
	defer cancel()
	return s.check(send(late))
}

// request calls send, whose statement waits for a lock unless o.TryOnce is set. When ctx ends, the driver breaks the
// connection of a waiter. The server does not check the network while a statement waits in its queue, so put makes it
// end the connection.
func (s *session) request(ctx context.Context, o lock.Options, send func(context.Context) error) error {
	if o.TryOnce {
		return s.ask(ctx, send)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // nothing was sent
	}
	err := s.check(send(ctx))
	s.gaveUp = s.broken && ctx.Err() != nil
	return err
}

// check marks the session as broken if the server has not answered, or accepts no writes. It returns err.
func (s *session) check(err error) error {
	if err != nil && mysqlerr.Number(err) == 0 && !errors.Is(err, sql.ErrNoRows) {
		s.broken = true
		s.timedOut = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	}
	if mysqlerr.Of(err).ReadOnly() {
		s.broken = true // see giveBack
	}
	return err
}

// breakIf marks the session as broken if err is not nil. err is the error of a statement that cleans up the session.
func (s *session) breakIf(err error) {
	if err != nil {
		s.broken = true
	}
}

// watch checks the socket until the lease ends, so that the holder learns of the end of its connection before the next
// renewal. If the lease is lost, it calls next, which lets another caller of this process reach the server: the holder
// may hang, and never release.
func (s *session) watch(lease *lock.Lease, lost context.CancelCauseFunc, next func()) {
	ticker := time.NewTicker(socketCheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-lease.Done():
			if errors.Is(lease.Err(), lock.ErrLost) {
				next()
			}
			return
		case <-ticker.C:
		}
		// A renewal that is under way notices the end itself, and its answer would look like one.
		if free := s.using.TryLock(); !free {
			continue
		}
		var err error
		if lease.Err() == nil { // afterwards the session may be another's
			err = s.checkSocket()
		}
		s.using.Unlock()
		if err != nil {
			lost(connectionEnded(err))
		}
	}
}

// checkSocket returns an error if the connection has ended. The driver checks whether the socket has something to
// read, which can only be its end.
func (s *session) checkSocket() error {
	return s.conn.Raw(func(conn any) error {
		if c, ok := conn.(sqldriver.SessionResetter); ok {
			return c.ResetSession(context.Background())
		}
		return nil
	})
}

// connectionEnded returns the error of a lease that was lost because its connection has ended.
func connectionEnded(err error) error {
	return fmt.Errorf("%w: the connection that held it has ended: %w", lock.ErrExpired, err)
}

// close closes the connection instead of giving it back to the pool.
func (s *session) close() {
	_ = s.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = s.conn.Close()
}

// end closes the connection, and makes the server end it: otherwise the server may not notice before the running
// statement has ended.
func (s *session) end(ctx context.Context) error {
	s.close()
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return endConnection(ctx, s.db, s.id, s.host)
}

// endConnection makes the server end a connection, and waits until it has. If there is no such connection, it returns
// nil. host is the client's address, because a restarted server counts connections from 1 again; "" is any.
func endConnection(ctx context.Context, on querier, id int64, host string) error {
	for killed := false; ; killed = true {
		const same = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ? AND ? IN (HOST, '')"
		var one int
		err := on.QueryRowContext(ctx, same, id, host).Scan(&one)
		if err == nil && !killed {
			_, err = on.ExecContext(ctx, fmt.Sprint("KILL CONNECTION ", id))
		}
		if errors.Is(err, sql.ErrNoRows) || mysqlerr.Number(err) == mysqlerr.NoSuchThread {
			return nil
		}
		if err == nil && killed {
			err = driver.Sleep(ctx, 2*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
}

// sessions has the sessions of one lock. Idle sessions are kept, because a new session costs three round trips.
type sessions struct {
	db    *sql.DB
	setup []string
	fresh time.Duration // the server may have ended a session that is idle for longer than this
	inUse chan struct{} // has one element for each session in use
	queue chan struct{} // has one element for each session that waits in the server's queue

	mu     sync.Mutex
	idle   []*session // the last one used last
	closed bool
}

// newSessions allows up to most sessions; see ConnOptions.MaxConns for its default. At least one connection of db is
// left for statements that must not use the holder's connection. At most half of the sessions wait in the server's
// queue, so that some sessions are left for other keys if a key is not released.
func newSessions(db *sql.DB, most int, fresh time.Duration, setup []string) *sessions {
	pool := db.Stats().MaxOpenConnections
	most = cmp.Or(most, pool/3, 16)
	if pool > 0 {
		most = min(most, pool-1)
	}
	most = max(most, 1)
	return &sessions{
		db: db, setup: setup, fresh: fresh, inUse: make(chan struct{}, most), queue: make(chan struct{}, most/2),
	}
}

// take returns a session. It waits, in order of arrival, until a session is free; with TryOnce it does not wait. The
// error matches lock.ErrNoCapacity if no session was free.
func (p *sessions) take(ctx context.Context, key string, o lock.Options) (*session, error) {
	select {
	case p.inUse <- struct{}{}:
	default:
		full := fmt.Errorf("%s: %w: all %d connections of this lock are in use",
			acquiring(key), lock.ErrNoCapacity, cap(p.inUse))
		if o.TryOnce {
			return nil, full
		}
		select {
		case p.inUse <- struct{}{}:
		case <-ctx.Done():
			return nil, errors.Join(full, context.Cause(ctx))
		}
	}
	if s := p.takeIdle(); s != nil {
		return s, nil
	}
	s, err := dial(ctx, p.db, p.setup)
	if err != nil {
		<-p.inUse
		return nil, fault(ctx, acquiring(key), err)
	}
	return s, nil
}

// enterQueue takes a place in the server's queue for a waiter, and returns a function that gives it back. If there is
// none, the waiter polls.
func (p *sessions) enterQueue(o lock.Options) (polls bool, leave func()) {
	if !o.TryOnce {
		select {
		case p.queue <- struct{}{}:
			return false, func() { <-p.queue }
		default:
		}
	}
	return !o.TryOnce, func() {}
}

// takeIdle returns an idle session whose socket is open, or nil.
func (p *sessions) takeIdle() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		s := p.idle[last]
		p.idle = p.idle[:last]
		if time.Since(s.idleSince) < p.fresh && s.checkSocket() == nil {
			return s
		}
		s.close()
	}
	return nil
}

// put ends the use of a session. The error is that of the end of a broken session at the server.
func (p *sessions) put(ctx context.Context, s *session) error {
	defer func() { <-p.inUse }()
	if s.broken {
		return s.end(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || time.Since(s.born) > sessionLife {
		s.close()
		return nil
	}
	s.idleSince = time.Now()
	p.idle = append(p.idle, s)
	return nil
}

// close closes the idle sessions. Sessions in use are closed when they are put back.
func (p *sessions) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.idle {
		s.close()
	}
	p.idle = nil
}
