package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
)

// sessionLife bounds how long a session is used: after a fail-over it may be one of a server that is no longer the master.
const sessionLife = 3 * time.Minute

// sessions are those of one lock. Idle ones are kept, as setting one up costs three round trips.
type sessions struct {
	db    *sql.DB
	setup []string
	fresh time.Duration // idle for longer than this the server may have ended it
	seats chan struct{} // one is taken for each session in use
	rooms chan struct{} // one is taken for each session that waits at the server

	mu     sync.Mutex
	idle   []*session // the last one used last
	leased map[*session]*lock.Lease
	closed bool
}

// newSessions bounds the sessions by most; 0: a third of db's connections. At least one stays for the statements that
// need another connection than the one that holds. At most half of the sessions wait at the server: those who wait for
// keys that others do not let go of must leave some to those who ask for another key.
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
		db: db, setup: setup, fresh: fresh, seats: make(chan struct{}, most), rooms: make(chan struct{}, most/2),
		leased: make(map[*session]*lock.Lease),
	}
}

// settle takes a room to wait in at the server, if there is one, until the result is called.
func (p *sessions) settle() (leave func(), ok bool) {
	select {
	case p.rooms <- struct{}{}:
		return func() { <-p.rooms }, true
	default:
		return nil, false
	}
}

// take waits for a seat, in the order of those who ask, and returns a session. The error matches lock.ErrNoCapacity if
// there was none.
func (p *sessions) take(ctx context.Context, key string, o lock.Options) (*session, error) {
	select {
	case p.seats <- struct{}{}:
	default:
		full := fmt.Errorf("%s: %w: all %d connections of this lock are in use", acquiring(key), lock.ErrNoCapacity, cap(p.seats))
		if o.TryOnce {
			return nil, full
		}
		select {
		case p.seats <- struct{}{}:
		case <-ctx.Done():
			return nil, errors.Join(full, context.Cause(ctx))
		}
	}
	if s := p.pop(); s != nil {
		return s, nil
	}
	s, err := dial(ctx, p.db, p.setup)
	if err != nil {
		<-p.seats
		return nil, fault(ctx, acquiring(key), err)
	}
	return s, nil
}

// pop is an idle session whose socket is open, or nil.
func (p *sessions) pop() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		s := p.idle[last]
		p.idle = p.idle[:last]
		if time.Since(s.idle) < p.fresh && s.open() == nil {
			s.reused = true
			return s
		}
		s.hang()
	}
	return nil
}

// put ends the use of a session. One that is in doubt is closed, and the server told to end it, which otherwise may not look at
// the network before the statement that it is at has ended.
func (p *sessions) put(ctx context.Context, s *session) {
	defer func() { <-p.seats }()
	p.mu.Lock()
	delete(p.leased, s)
	p.mu.Unlock()
	if s.doubt {
		s.hang()
		_ = s.kill(ctx, "CONNECTION")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || time.Since(s.born) > sessionLife {
		s.hang()
		return
	}
	s.idle = time.Now()
	p.idle = append(p.idle, s)
}

// lease notes that a lease lives in s until that is put back.
func (p *sessions) lease(s *session, l *lock.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leased[s] = l
}

// close closes the idle sessions, and those whose lease was abandoned, which nobody else would close before its time.
// Others in use are closed when they come back.
func (p *sessions) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for s, l := range p.leased {
		if errors.Is(l.Err(), lock.ErrAbandoned) {
			s.hang()
		}
	}
	for _, s := range p.idle {
		s.hang()
	}
	p.idle = nil
}
