package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

const (
	// renewEvery is the longest pause between two renewals of a lease.
	renewEvery = time.Second
	// socketCheckEvery is how often the socket is checked between renewals. The check sends nothing. It detects that
	// the server, an operator or the network has ended the connection, if this computer has received the end.
	socketCheckEvery = 50 * time.Millisecond
	// waitLimit is how long the server lets a statement wait for a key, in seconds. Then the waiter asks again, at the
	// end of the queue. The limit also takes a waiter whose computer has died out of the queue.
	waitLimit = 30
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
	// has marked the session as broken. The error matches errBusy or errUndone if another try may succeed.
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
	// holders is for inspect.go. It returns the connections that hold keys, or any key if keys is nil, by the names of
	// the keys in the tables.
	holders(ctx context.Context, conn *sql.Conn, keys []string) (map[string]holder, error)
}

// A pinned lock lives in a session, a connection that is kept from before the wait until the release. These are its
// invariants:
//
//   - The end of the connection is the end of the lock, and a session that is not broken has the lock from the grant to
//     the release. The server ends a connection on which it has received nothing for Lease, and not earlier: Abandon
//     relies on that, so nobody here closes the connection of a lease before its release.
//   - One goroutine at a time uses a session: first the one that acquires; from the grant on, whoever has the mutex
//     using, which are the renewals, the checks of the socket, and at last the release.
//   - A session whose state at the server is not known is broken. It is used for nothing more: it is closed here, and
//     ended at the server.
type pinned struct {
	ConnOptions
	primitive primitive
	sessions  *sessions
	life      *driver.Life
	// queue lets only one caller per key of this process reach the server. So 30 requests for one SKU need one
	// connection, and leave the others free for other SKUs.
	queue lock.Queue
}

func newPinned(db *sql.DB, o ConnOptions, p primitive) *pinned {
	o.Lease, o.MaxHold = cmp.Or(o.Lease, 10*time.Second), cmp.Or(o.MaxHold, 5*time.Minute)
	if part := o.Lease % time.Second; part > 0 {
		o.Lease += time.Second - part
	}
	return &pinned{
		ConnOptions: o, primitive: p, life: driver.NewLife(),
		sessions: newSessions(db, o.MaxConns, o.Lease/2, p.setup(int(o.Lease/time.Second))),
	}
}

// Promise is what both locks promise with the defaults of their options. SignalsLoss is not promised: the server frees
// the key as soon as it sees the connection end, and the holder learns it a moment later.
func (*pinned) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Blocking: true, Reentrant: true,
		FreedAfterCrash: 10 * time.Second,
	}
}

// FenceRange returns the distance between two fences.
func (p *pinned) FenceRange() uint64 { return driver.FenceRange }

// Close ends the waits, with lock.ErrClosed, and closes idle connections. The connection of a lease is closed when the
// lease is released or, if it was abandoned, after Lease.
func (p *pinned) Close() error {
	p.life.Close()
	p.sessions.close()
	return nil
}

// Acquire waits for key until ctx ends. The error matches lock.ErrNoCapacity if no connection became free. With
// TryOnce it does not wait for a connection.
func (p *pinned) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := cmp.Or(p.check(), p.life.MayAcquire(ctx, key)); err != nil {
		return nil, err
	}
	ctx, stop := p.life.Wait(ctx)
	defer stop()
	if err := p.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	lease, err := p.acquire(ctx, key, o)
	if err != nil {
		p.queue.Leave(key)
	}
	return lease, err
}

// acquire is called by one caller at a time for each key. It asks on one session after the other, because a session
// must not be kept during a pause. A waiter asks for as long as ctx lasts: the server may end a wait earlier, and if
// there is no place in the server's queue, it polls. A try is repeated only if the server has undone it.
func (p *pinned) acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	poll := minPoll
	for try := 1; ; try++ {
		s, err := p.sessions.take(ctx, key, o)
		if err != nil {
			return nil, err // not joined with the HeldError of an earlier poll, because the holder may have changed
		}
		polls, leave := p.sessions.enterQueue(o)
		lease, err := p.askOnce(ctx, s, key, lock.Options{TryOnce: o.TryOnce || polls, Owner: o.Owner})
		leave()
		if err == nil {
			return lease, nil
		}
		// The connection of a session that was idle may have ended meanwhile, which is no error of the server.
		broken, stale, gaveUp := s.broken, s.broken && !s.timedOut && !s.idleSince.IsZero(), s.gaveUp
		ended := p.sessions.put(context.WithoutCancel(ctx), s) // from here on s may be another caller's
		busy, undone := errors.Is(err, errBusy), errors.Is(err, errUndone)
		notGranted := !broken && (busy || undone) || gaveUp && ended == nil // so the server is up
		switch last := o.TryOnce && try == maxTries; {
		case ctx.Err() != nil && notGranted:
			return nil, errors.Join(&lock.HeldError{Key: key}, context.Cause(ctx))
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: no answer: %w", acquiring(key), context.Cause(ctx)) // the server may be up
		case stale:
			continue
		case broken:
			return nil, fault(ctx, acquiring(key), err)
		case busy && o.TryOnce, collided(err) && last:
			return nil, &lock.HeldError{Key: key}
		case !busy && !undone, last:
			return nil, fault(ctx, acquiring(key), err)
		}
		pause := collisionPause(1)
		if polls && busy {
			pause, poll = jitter(poll), min(2*poll, maxPoll)
		}
		if ended := driver.Sleep(ctx, pause); ended != nil {
			return nil, errors.Join(&lock.HeldError{Key: key}, ended)
		}
	}
}

// askOnce asks for the key once, and gives it back if it gets no fence. After an error it has left nothing on s, or has
// marked s as broken.
func (p *pinned) askOnce(ctx context.Context, s *session, key string, o lock.Options) (*lock.Lease, error) {
	if err := p.primitive.acquire(ctx, s, key, o); err != nil {
		return nil, err
	}
	var sent time.Time
	var fence lock.Fence
	err := errBusy // the key was granted at the moment at which the wait ended
	if ctx.Err() == nil {
		fence, sent, err = p.primitive.drawFence(ctx, s, key, o)
	}
	if err != nil {
		s.breakIf(p.primitive.release(ctx, s, key))
		return nil, refusal(err)
	}
	return p.lease(s, key, fence, sent), nil
}

func (p *pinned) lease(s *session, key string, fence lock.Fence, sent time.Time) *lock.Lease {
	next := sync.OnceFunc(func() { p.queue.Leave(key) })
	lease, lost := lock.NewLease(key, fence, func(ctx context.Context) error {
		defer next()
		return p.release(ctx, s, key)
	})
	lease.Linger(p.Lease)
	renewing, stop := context.WithCancel(context.Background())
	s.breakRenewal = stop
	lease.KeepAlive(sent, lock.Renewal{
		TTL: p.Lease, Every: min(renewEvery, p.Lease/5), Max: p.MaxHold,
		Renew: func(context.Context) error { return p.renew(renewing, s, key) },
	})
	go s.watch(lease, lost, next)
	return lease
}

// renew asks the server whether s still has the key, which also keeps the server from ending the session. ctx ends with
// the release and not with the renewal's time limit, because the driver can give up a statement only by breaking the
// connection, and with it the lock. The lease ends in time by its own clock.
func (p *pinned) renew(ctx context.Context, s *session, key string) error {
	s.using.Lock()
	defer s.using.Unlock()
	if ctx.Err() != nil {
		return ctx.Err() // the session may be another caller's by now
	}
	has, err := p.primitive.holds(ctx, s, key)
	switch {
	case interrupted(err):
		return err // the statement alone was ended, so it may be sent again
	case err != nil:
		_ = s.check(err)
		return connectionEnded(err)
	case !has:
		s.broken = true // it may be another session than the one that was set up
		return fmt.Errorf("%w: the server does not list it any more", lock.ErrExpired)
	}
	return nil
}

// release gives the key back. If that fails, it closes the connection, which ends the lock.
func (p *pinned) release(ctx context.Context, s *session, key string) error {
	defer func() { _ = p.sessions.put(ctx, s) }()
	half, cancel := context.WithTimeout(ctx, lock.ReleaseTimeout/2) // the other half is for KILL, if that is needed
	defer cancel()
	// The lease has waited for a renewal that was under way. If it still is, the server does not answer, and this
	// breaks the connection.
	s.breakRenewal()
	s.using.Lock()
	defer s.using.Unlock()
	if s.timedOut {
		return serverFault("release "+key, context.DeadlineExceeded)
	}
	// A connection that ended before the release was sent, for example by an eviction, has taken the key with it. After
	// a failed release that would not be known.
	if ended := s.checkSocket(); ended != nil {
		s.broken = true
		return connectionEnded(ended)
	}
	err := p.primitive.release(half, s, key)
	s.breakIf(err)
	if releaseDone(err) {
		return err
	}
	return serverFault("release "+key, err)
}
