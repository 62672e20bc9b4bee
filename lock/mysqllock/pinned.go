package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

// ConnOptions are the choices of a lock that lives in a connection; a zero field means its default.
type ConnOptions struct {
	// Lease is how long the server keeps a connection on which it hears nothing, in whole seconds; default 10 s. A holder says
	// something every second, or five times in a lease. It is the time after which a holder is followed whose computer died, or
	// froze, or was cut off.
	Lease   time.Duration
	MaxHold time.Duration // renewal ends after this and the lease is lost: a hung holder must not hold for ever; default 5 min
	// MaxConns is how many keys can be held at a time, with a connection each. Half of them can be of callers who wait at the
	// server, the others poll; who finds none free gets lock.ErrNoCapacity. Default a third of the pool's, or 16 if that has
	// no bound.
	MaxConns int
}

// A pinned lock lives in a connection that is kept from before the wait until the release: when the connection ends, so does
// the lock.
type pinned struct {
	ConnOptions
	way      way
	witness  witness
	beat     time.Duration
	sessions *sessions
	// gate lets one contender per key of this process at the server: 30 requests for one SKU need one connection, and those for
	// another find one free.
	gate lock.Queue
	rows *forgetter
}

// A way is what a session does to get a key and to give it back.
type way interface {
	// setup are the statements that make a connection fit. lease is in seconds.
	setup(lease int) []string
	// enter waits for the key, or with o.TryOnce does not. If it fails it has left nothing on the session, or has put it in
	// doubt.
	enter(ctx context.Context, s *session, key string, o lock.Options) error
	// mint draws the fence of a key that s has got, and makes sure that s had it still when it was drawn: whoever has lost a
	// key and draws after the next holder would pass for the later one. The time is one before the server heard of s for the
	// last time. The wait for the key lies before it, or a long one would use up the lease.
	mint(ctx context.Context, s *session, key string, o lock.Options) (lock.Fence, time.Time, error)
	// leave gives the key back. It matches ErrExpired or ErrTaken if there was nothing to give back.
	leave(ctx context.Context, s *session, key string) error
	// forget deletes the rows of keys whose last fence is older than age.
	forget(ctx context.Context, db *sql.DB, age time.Duration) error
}

func newPinned(db *sql.DB, o ConnOptions, w interface {
	way
	witness
},
) *pinned {
	def(&o.Lease, 10*time.Second)
	def(&o.MaxHold, 5*time.Minute)
	o.Lease = (o.Lease + time.Second - 1).Truncate(time.Second)
	return &pinned{
		ConnOptions: o, way: w, witness: w, beat: min(beatEvery, o.Lease/5),
		sessions: newSessions(db, o.MaxConns, o.Lease/2, w.setup(int(o.Lease/time.Second))),
		rows:     newForgetter(func(ctx context.Context) error { return w.forget(ctx, db, memory) }),
	}
}

// FenceRange is how far fences are apart.
func (p *pinned) FenceRange() uint64 { return span }

// Close closes the connections that hold nothing, and those of leases that were abandoned, which ends them. Those of
// other leases are closed when they are released.
func (p *pinned) Close() error {
	p.rows.close()
	p.sessions.close()
	return nil
}

// Polls of one who waits and has no room at the server double from the first to the second, each drawn at random between
// half and all of it.
const (
	minPoll = 10 * time.Millisecond
	maxPoll = 100 * time.Millisecond
)

// Acquire waits for its turn until ctx ends. The error matches lock.ErrNoCapacity if no connection was free until then; a try
// does not wait for one.
func (p *pinned) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", acquiring(key), context.Cause(ctx))
	}
	if err := p.gate.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	p.rows.used()
	lease, err := p.acquire(ctx, key, o)
	if err != nil {
		p.gate.Leave(key)
	}
	return lease, err
}

// acquire is for the only contender for key in this process.
func (p *pinned) acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	for pause := minPoll; ; {
		s, err := p.sessions.take(ctx, key, o)
		if err != nil {
			return nil, err // who has the key now is not known, whatever an earlier look said
		}
		asking, leave, waits := o, func() {}, true
		if !o.TryOnce {
			if leave, waits = p.sessions.settle(); !waits {
				asking.TryOnce, leave = true, func() {}
			}
		}
		lease, err := p.contend(ctx, s, key, asking)
		leave()
		if err == nil {
			return lease, nil
		}
		// It may have died while it was idle, and so may others have; one that is new is not tried again.
		again := s.doubt && s.reused && !s.silent && ctx.Err() == nil
		p.sessions.put(context.WithoutCancel(ctx), s)
		switch {
		case again:
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

func acquiring(key string) string { return fmt.Sprintf("acquire lock %q", key) }

// contend acquires on s, and leaves nothing on it if it fails.
func (p *pinned) contend(ctx context.Context, s *session, key string, o lock.Options) (*lock.Lease, error) {
	for try := 1; ; {
		err := p.way.enter(ctx, s, key, o)
		if err == nil {
			var lease *lock.Lease
			if lease, err = p.hold(ctx, s, key, o); err == nil {
				return lease, nil
			}
			s.clear(p.way.leave(ctx, s, key))
		}
		waited := errors.Is(err, errBusy) || errors.Is(err, errAgain)
		switch {
		case ctx.Err() != nil && waited && !s.doubt:
			return nil, errors.Join(&lock.HeldError{Key: key}, context.Cause(ctx))
		case ctx.Err() != nil:
			silent := &lock.DownError{Server: "mysql", Reason: "no answer before the wait ended"}
			return nil, errors.Join(silent, context.Cause(ctx))
		case s.doubt:
			return nil, fault(ctx, acquiring(key), err)
		case errors.Is(err, errBusy) && o.TryOnce:
			return nil, &lock.HeldError{Key: key}
		case errors.Is(err, errBusy):
			// The server's bound on the wait was shorter than ours.
		case errors.Is(err, errAgain) && try < collisions:
			if mysqlerr.Number(err) != 0 {
				_ = lock.Sleep(ctx, jitter(5*time.Millisecond<<try))
			}
			try++
		case collided(err):
			return nil, errors.Join(&lock.HeldError{Key: key}, err)
		default:
			return nil, fault(ctx, acquiring(key), err)
		}
	}
}

// hold makes the lease of a key that s has got.
func (p *pinned) hold(ctx context.Context, s *session, key string, o lock.Options) (*lock.Lease, error) {
	if ctx.Err() != nil {
		return nil, errBusy // it came at the moment at which the wait ended
	}
	fence, heard, err := p.way.mint(ctx, s, key, o)
	if err == nil && time.Since(heard) >= lock.Valid(p.Lease) {
		// We were paused since, and the server has ended the connection, or is about to.
		s.doubt = true
		err = &lock.DownError{Server: "mysql", Reason: "the connection was silent for longer than a lease"}
	}
	if err != nil {
		return nil, err
	}
	// A lease that is lost, and not released because its holder hangs, must not keep others of this process from the server.
	next := sync.OnceFunc(func() { p.gate.Leave(key) })
	lease, lost := lock.NewLease(key, fence, func(ctx context.Context) error {
		defer next()
		return p.free(ctx, s, key)
	})
	// Without beats the server ends the connection after Lease, and with it the lock. Not before: that is what
	// Abandon is for.
	lease.Linger(p.Lease)
	p.sessions.lease(s, lease)
	lease.Keep(heard, lock.Keep{TTL: p.Lease, Every: p.beat, Max: p.MaxHold, Renew: s.beat})
	s.watch(lease, lost, next)
	return lease, nil
}

// free gives the key back. If that does not succeed the connection is closed, and with it the lock.
func (p *pinned) free(ctx context.Context, s *session, key string) error {
	defer p.sessions.put(ctx, s)
	soon, cancel := context.WithTimeout(ctx, lock.ReleaseTimeout/2) // and the rest to have the server end it, if it must be
	defer cancel()
	s.quiet(soon)
	err := p.way.leave(soon, s, key)
	s.clear(err)
	if final(err) {
		return err
	}
	return told(ctx, "release "+key, err)
}
