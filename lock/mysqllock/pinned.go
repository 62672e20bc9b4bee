package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// ConnOptions are the options of a lock that lives in a connection. A zero field means its default. With a negative one
// every Acquire returns an error that names it.
type ConnOptions struct {
	// Lease is how long the server keeps a silent connection, in whole seconds; default 10 s. A holder asks the server
	// every second, or five times in a lease, whether it still has the key. If the holder's computer dies, freezes or
	// is cut off, the next caller gets the key after Lease.
	Lease   time.Duration
	MaxHold time.Duration // the lease is lost after this, so that a hung holder does not hold for ever; default 5 min
	// MaxConns is how many keys can be held at a time, with a connection each. At most half of the connections wait
	// at the server; other waiters poll. A caller that finds no free connection gets lock.ErrNoCapacity. Default: a
	// third of the pool's connections, or 16 if the pool has no limit.
	MaxConns int
}

func (o ConnOptions) check() error {
	if o.MaxConns < 0 {
		return fmt.Errorf("lock: %w: the option MaxConns is %d, and must be at least 0", lock.ErrInvalid, o.MaxConns)
	}
	return cmp.Or(lock.AtLeast("Lease", o.Lease, 0), lock.AtLeast("MaxHold", o.MaxHold, 0))
}

const (
	// renewEvery is the longest pause between two renewals of a lease.
	renewEvery = time.Second
	// socketCheckEvery is how often the socket is checked between renewals. The check sends nothing. It detects that
	// the server, an operator or the network has ended the connection, if this computer has received the end.
	socketCheckEvery = 50 * time.Millisecond
	// killTimeout limits a KILL from another connection.
	killTimeout = 500 * time.Millisecond
	// sessionLife limits how long a session is used, because after a fail-over its server may not be the master any
	// more.
	sessionLife = 3 * time.Minute

	// minPoll and maxPoll are the first and the longest pause between two polls of a waiter that is not in the
	// server's queue. Pauses double; the actual pause is random, from half of it on.
	minPoll = 10 * time.Millisecond
	maxPoll = 100 * time.Millisecond
)

// A primitive is a lock of the server itself: how a session acquires a key and releases it.
type primitive interface {
	// setup returns the statements that prepare a connection. lease is in seconds.
	setup(lease int) []string
	// acquire waits for the key, or tries once with o.TryOnce. After an error it has left nothing on the session, or
	// has marked the session as broken.
	acquire(ctx context.Context, s *session, key string, o lock.Options) error
	// drawFence issues the fence of a key that s has acquired, and checks that s still had the key at that time.
	// Otherwise a session that has lost the key could get its fence after the next holder, and so have the larger
	// fence. sent is a time before the last request that the server received from s, but after the wait for the key, so
	// that a long wait does not use up the lease.
	drawFence(ctx context.Context, s *session, key string, o lock.Options) (fence lock.Fence, sent time.Time, err error)
	// holds reports whether the server says that s has the key, in one round trip. A ping would not do: a proxy may
	// answer it itself although the server has ended the session, and a server may end a transaction alone.
	holds(ctx context.Context, s *session, key string) (bool, error)
	// release gives the key back. The error matches ErrExpired or ErrTaken if the session no longer had the key.
	release(ctx context.Context, s *session, key string) error
	// forget deletes the rows of keys whose last fence is older than age.
	forget(ctx context.Context, db *sql.DB, age time.Duration) error
	// holders returns the holders of those keys that are held, by the names of the keys in the tables. A holder without
	// a fence yet may be returned without a name, or not at all.
	holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error)
	// heldNames returns the names of the held keys, in the form that the tables have.
	heldNames(ctx context.Context, conn *sql.Conn) ([]string, error)
}

// A pinned lock lives in a connection that is kept from before the wait until the release. When the connection ends,
// the lock ends.
type pinned struct {
	ConnOptions
	primitive primitive
	sessions  *sessions
	// queue lets only one caller per key of this process reach the server. So 30 requests for one SKU need one
	// connection, and leave the others free for other SKUs.
	queue lock.Queue
	rows  *forgetter
}

func newPinned(db *sql.DB, o ConnOptions, p primitive) *pinned {
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	if part := o.Lease % time.Second; part > 0 {
		o.Lease += time.Second - part
	}
	o.MaxHold = cmp.Or(o.MaxHold, 5*time.Minute)
	return &pinned{
		ConnOptions: o, primitive: p,
		sessions: newSessions(db, o.MaxConns, o.Lease/2, p.setup(int(o.Lease/time.Second))),
		rows:     newForgetter(func(ctx context.Context) error { return p.forget(ctx, db, retention) }),
	}
}

// FenceRange returns the distance between two fences.
func (p *pinned) FenceRange() uint64 { return fenceDistance }

// Close closes idle connections and those of abandoned leases. The connection of any other lease is closed when the
// lease is released.
func (p *pinned) Close() error {
	p.rows.close()
	p.sessions.close()
	return nil
}

// Acquire waits for key until ctx ends. The error matches lock.ErrNoCapacity if no connection became free. With
// TryOnce it does not wait for a connection.
func (p *pinned) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := lock.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", acquiring(key), err)
	}
	if err := p.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	p.rows.start()
	lease, err := p.acquire(ctx, key, o)
	if err != nil {
		p.queue.Leave(key)
	}
	return lease, err
}

// acquire is called by one caller at a time for each key.
func (p *pinned) acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	for pause := minPoll; ; {
		s, err := p.sessions.take(ctx, key, o)
		if err != nil {
			return nil, err // not joined with the HeldError of an earlier poll, because the holder may have changed
		}
		asking, leave, waits := o, func() {}, true
		if !o.TryOnce {
			if leave, waits = p.sessions.takePlace(); !waits {
				asking.TryOnce, leave = true, func() {}
			}
		}
		lease, err := p.acquireOn(ctx, s, key, asking)
		leave()
		if err == nil {
			return lease, nil
		}
		// The connection of a reused session may have ended while it was idle; then use another session. A new
		// session that breaks is an error.
		retry := s.broken && s.reused && !s.timedOut && ctx.Err() == nil
		p.sessions.put(context.WithoutCancel(ctx), s)
		switch {
		case retry:
		case waits || !errors.Is(err, lock.ErrHeld) || ctx.Err() != nil:
			return nil, err
		default:
			if ended := lock.Sleep(ctx, jitter(pause)); ended != nil {
				return nil, errors.Join(err, ended)
			}
			pause = min(2*pause, maxPoll)
		}
	}
}

// acquireOn acquires the key on s. After an error it has left nothing on s, or has marked s as broken.
func (p *pinned) acquireOn(ctx context.Context, s *session, key string, o lock.Options) (*lock.Lease, error) {
	for try := 1; ; {
		err := p.primitive.acquire(ctx, s, key, o)
		if err == nil {
			var lease *lock.Lease
			if lease, err = p.lease(ctx, s, key, o); err == nil {
				return lease, nil
			}
			s.breakIf(p.primitive.release(ctx, s, key))
		}
		refused := errors.Is(err, errBusy) || errors.Is(err, errAgain) || errors.Is(err, errEnded)
		switch {
		case ctx.Err() != nil && refused && !s.broken:
			return nil, errors.Join(&lock.HeldError{Key: key}, context.Cause(ctx))
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: no answer: %w", acquiring(key), context.Cause(ctx)) // the server may be up
		case s.broken:
			return nil, fault(ctx, acquiring(key), err)
		case errors.Is(err, errBusy) && o.TryOnce:
			return nil, &lock.HeldError{Key: key}
		case errors.Is(err, errBusy):
			// The server's time limit for the wait was shorter than the caller's: wait again.
		case errors.Is(err, errEnded) && !o.TryOnce:
			_ = lock.Sleep(ctx, collisionPause(1)) // wait again, but not in a tight loop
		case (errors.Is(err, errAgain) || errors.Is(err, errEnded)) && try < maxTries:
			if mysqlerr.Number(err) != 0 {
				_ = lock.Sleep(ctx, collisionPause(try))
			}
			try++
		case collided(err):
			return nil, errors.Join(&lock.HeldError{Key: key}, err)
		default:
			return nil, fault(ctx, acquiring(key), err)
		}
	}
}

// lease makes the lease of a key that s has acquired, with its fence.
func (p *pinned) lease(ctx context.Context, s *session, key string, o lock.Options) (*lock.Lease, error) {
	if ctx.Err() != nil {
		return nil, errBusy // the key was granted at the moment at which the wait ended
	}
	fence, sent, err := p.primitive.drawFence(ctx, s, key, o)
	if err == nil && time.Since(sent) >= lock.Valid(p.Lease) {
		// This process was paused for so long that the server has ended the connection, or will end it.
		s.broken = true
		err = lock.NewDown("mysql", "connection-silent")
	}
	if err != nil {
		return nil, err
	}
	// Let other callers of this process reach the server even if the holder of a lost lease hangs and does not
	// release.
	next := sync.OnceFunc(func() { p.queue.Leave(key) })
	lease, lost := lock.NewLease(key, fence, func(ctx context.Context) error {
		defer next()
		return p.release(ctx, s, key)
	})
	// Without renewals the server ends the connection, and with it the lock, after Lease and not earlier. Abandon
	// relies on that.
	lease.Linger(p.Lease)
	p.sessions.setLease(s, lease)
	holds := func(ctx context.Context) (bool, error) { return p.primitive.holds(ctx, s, key) }
	lease.Keep(sent, lock.Keep{
		TTL: p.Lease, Every: min(renewEvery, p.Lease/5), Max: p.MaxHold,
		Renew: func(ctx context.Context) error { return s.renew(ctx, holds) },
	})
	s.watchSocket(lease, lost, next)
	return lease, nil
}

// release gives the key back. If that fails, it closes the connection, which ends the lock.
func (p *pinned) release(ctx context.Context, s *session, key string) error {
	defer p.sessions.put(ctx, s)
	half, cancel := context.WithTimeout(ctx, lock.ReleaseTimeout/2) // the other half is for KILL, if that is needed
	defer cancel()
	s.stopRenewal(half)
	var err error
	if !s.broken {
		// A connection that ended before the release was sent, for example by an eviction, has taken the key with it.
		// After a failed release that would not be known.
		if ended := s.checkSocket(); ended != nil {
			err = connectionEnded(ended)
		}
	}
	if err == nil {
		err = p.primitive.release(half, s, key)
	}
	s.breakIf(err)
	if releaseDone(err) {
		return err
	}
	return serverFault("release "+key, err)
}

// A session is a connection that holds or waits for locks. Only one goroutine at a time uses it; while a lease is held,
// this is the goroutine that renews. Only the socket checks run in parallel.
type session struct {
	db       *sql.DB
	conn     *sql.Conn
	id       int64
	host     string // address of the client, as the server sees it
	database string

	waitTimeout int // innodb_lock_wait_timeout, in seconds
	born        time.Time
	idleSince   time.Time
	reused      bool
	broken      bool // the state of the connection at the server is not known: it must be closed
	timedOut    bool // because the server did not answer in time

	answer       chan error // of a renewal under way; nil: none is
	cancelRenew  context.CancelFunc
	asking       sync.Mutex // held by a renewal, and by a check of the socket
	socketChecks sync.WaitGroup
}

// dial takes a connection from db. The connection is never returned to db, because its settings must not leak into the
// pool.
func dial(ctx context.Context, db *sql.DB, setup []string) (*session, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	s := &session{db: db, conn: conn, born: time.Now()}
	var database sql.NullString
	err = s.ask(ctx, func(ctx context.Context) error {
		// A KILL must not end another client's connection. A restarted server counts connections from 1 again, so
		// kill compares host and port as well as CONNECTION_ID.
		const self = "SELECT ID, HOST, DATABASE() FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
		return conn.QueryRowContext(ctx, self).Scan(&s.id, &s.host, &database)
	})
	s.database = database.String
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

// wait runs send, a statement that waits for a lock. When ctx ends, wait ends the statement with KILL QUERY. A
// disconnect would not be enough: the server does not check the network while a statement waits in its queue. The
// result is the statement's, so it may be nil even after ctx has ended.
func (s *session) wait(ctx context.Context, send func(context.Context) error) error {
	sending, breakConn := context.WithCancel(context.WithoutCancel(ctx))
	defer breakConn()
	answer := make(chan error, 1)
	go func() { answer <- send(sending) }()
	select {
	case err := <-answer:
		return s.check(err)
	case <-ctx.Done():
	}
	if s.kill(context.WithoutCancel(ctx), "QUERY") == nil {
		select {
		case err := <-answer:
			return s.check(err)
		case <-time.After(killTimeout):
		}
	}
	breakConn()
	return s.check(<-answer)
}

// check marks the session as broken unless the server has answered. It returns err.
func (s *session) check(err error) error {
	if err != nil && mysqlerr.Number(err) == 0 && !errors.Is(err, sql.ErrNoRows) {
		s.broken = true
		s.timedOut = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	}
	return err
}

// breakIf marks the session as broken if err is not nil. err is the error of a statement that cleans up the session.
func (s *session) breakIf(err error) {
	if err != nil {
		s.broken = true
	}
}

// kill ends, from another connection, the statement of this connection ("QUERY"), or the connection itself
// ("CONNECTION").
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

// renew asks the server whether s still has the key, which also keeps the server from ending the session. The driver
// can give up a statement only by breaking the connection, and with it the lock. So a question that takes longer than
// ctx stays under way, and the next call of renew first waits for its answer.
func (s *session) renew(ctx context.Context, holds func(context.Context) (bool, error)) error {
	for {
		fresh := s.answer == nil
		if fresh {
			s.answer = make(chan error, 1)
			var asking context.Context
			asking, s.cancelRenew = context.WithCancel(context.Background())
			go func(answer chan<- error) { answer <- s.ownsKey(asking, holds) }(s.answer)
		}
		select {
		case err := <-s.answer:
			s.answer = nil
			s.cancelRenew()
			s.broken = s.broken || errors.Is(err, lock.ErrExpired) // it may be another session than the one set up
			if fresh || err != nil {
				return err
			}
			// An earlier call asked, so the answer does not show that s has the key now. Therefore ask again.
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ownsKey returns nil if the server says that s has the key. The error matches ErrExpired if s has lost the key, or if
// its connection has ended.
func (s *session) ownsKey(ctx context.Context, holds func(context.Context) (bool, error)) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	has, err := holds(ctx)
	switch {
	case errors.Is(refusal(err), errEnded):
		return err // the statement alone was ended, so it may be sent again
	case err != nil:
		return connectionEnded(err)
	case !has:
		return fmt.Errorf("%w: the server does not list it any more", lock.ErrExpired)
	}
	return nil
}

// stopRenewal waits for a renewal that is still under way, and for the socket checks. The renewing goroutine must have
// ended.
func (s *session) stopRenewal(ctx context.Context) {
	if s.answer != nil {
		select {
		case err := <-s.answer:
			s.answer <- err
		case <-ctx.Done():
			s.broken = true
		}
		s.cancelRenew()
		_ = s.check(<-s.answer)
		s.answer = nil
	}
	s.socketChecks.Wait()
}

// watchSocket checks the socket until the lease ends. If the lease is lost, it calls after.
func (s *session) watchSocket(lease *lock.Lease, lost context.CancelCauseFunc, after func()) {
	s.socketChecks.Go(func() {
		ticker := time.NewTicker(socketCheckEvery)
		defer ticker.Stop()
		for {
			select {
			case <-lease.Done():
				if errors.Is(lease.Err(), lock.ErrLost) {
					after()
				}
				return
			case <-ticker.C:
				if !s.asking.TryLock() {
					continue // a renewal is under way: it notices the end, and its answer would look like one
				}
				err := s.checkSocket()
				s.asking.Unlock()
				if err != nil {
					lost(connectionEnded(err))
				}
			}
		}
	})
}

// checkSocket returns an error if the connection has ended. The driver checks whether the socket has something to
// read, which can only be its end.
func (s *session) checkSocket() error {
	return s.conn.Raw(func(conn any) error {
		if c, ok := conn.(driver.SessionResetter); ok {
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
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

// sessions has the sessions of one lock. Idle sessions are kept, because a new session costs three round trips.
type sessions struct {
	db     *sql.DB
	setup  []string
	fresh  time.Duration // the server may have ended a session that is idle for longer than this
	inUse  chan struct{} // has one element for each session in use
	places chan struct{} // has one element for each session that waits in the server's queue

	mu     sync.Mutex
	idle   []*session // the last one used last
	leases map[*session]*lock.Lease
	closed bool
}

// newSessions allows up to most sessions; if most is 0, a third of db's connections. At least one connection of db is
// left for statements that must not use the holder's connection. At most half of the sessions wait in the server's
// queue, so that some sessions are left for other keys if a key is not released.
func newSessions(db *sql.DB, most int, fresh time.Duration, setup []string) *sessions {
	pool := db.Stats().MaxOpenConnections
	switch {
	case most == 0 && pool == 0:
		most = 16
	case most == 0:
		most = pool / 3
	}
	if pool > 0 {
		most = min(most, pool-1)
	}
	most = max(most, 1)
	return &sessions{
		db: db, setup: setup, fresh: fresh, inUse: make(chan struct{}, most), places: make(chan struct{}, most/2),
		leases: make(map[*session]*lock.Lease),
	}
}

// takePlace takes a place in the server's queue until leave is called. ok is false if all places are taken.
func (p *sessions) takePlace() (leave func(), ok bool) {
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, true
	default:
		return nil, false
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

// takeIdle returns an idle session whose socket is open, or nil.
func (p *sessions) takeIdle() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		s := p.idle[last]
		p.idle = p.idle[:last]
		if time.Since(s.idleSince) < p.fresh && s.checkSocket() == nil {
			s.reused = true
			return s
		}
		s.close()
	}
	return nil
}

// put ends the use of a session. It closes a broken session and makes the server end it: otherwise the server may not
// notice before the running statement has ended.
func (p *sessions) put(ctx context.Context, s *session) {
	defer func() { <-p.inUse }()
	p.mu.Lock()
	delete(p.leases, s)
	p.mu.Unlock()
	if s.broken {
		s.close()
		_ = s.kill(ctx, "CONNECTION")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || time.Since(s.born) > sessionLife {
		s.close()
		return
	}
	s.idleSince = time.Now()
	p.idle = append(p.idle, s)
}

func (p *sessions) setLease(s *session, l *lock.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leases[s] = l
}

// close closes the idle sessions, and the sessions of abandoned leases, which would otherwise stay open until Linger
// has passed. Other sessions in use are closed when they are put back.
func (p *sessions) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for s, l := range p.leases {
		if errors.Is(l.Err(), lock.ErrAbandoned) {
			s.close()
		}
	}
	for _, s := range p.idle {
		s.close()
	}
	p.idle = nil
}
