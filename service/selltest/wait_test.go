package selltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// An announced lock says when somebody has asked.
type announced struct {
	lock.Locker
	asked chan struct{}
}

func (a announced) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a.asked <- struct{}{}
	return a.Locker.Acquire(ctx, key, o)
}

// lockers are real locks of every sort: a queue, polling, and waking.
func lockers() map[string]func(testing.TB) lock.Locker {
	return map[string]func(testing.TB) lock.Locker{
		"mutex":    func(testing.TB) lock.Locker { return &local.Mutex{} },
		"setnx":    func(t testing.TB) lock.Locker { return setnx(t, time.Minute) },
		"watchdog": func(t testing.TB) lock.Locker { return watchdog(t, redislock.WatchdogOptions{}) },
	}
}

func everyLocker(t *testing.T, test func(t *testing.T, l lock.Locker)) {
	for name, open := range lockers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// hold takes the key of s, and returns what gives it back.
func hold(t *testing.T, l lock.Locker, s *scene) (release func()) {
	t.Helper()
	lease, err := l.Acquire(t.Context(), string(s.sku), lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release() })
	return func() {
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}

// Who waits, and for how long. "In vain" ends a wait while the lock is held; "in turn" gives the lock back when it
// has been asked for.
func TestWait(t *testing.T) {
	t.Parallel()
	long, short := time.Minute, time.Second
	zero := time.Duration(0)
	for _, row := range []struct {
		name     string
		blocking bool
		def      time.Duration // Config.Wait
		asked    *time.Duration
		waits    bool
		vain     bool // if it waits
	}{
		{"blocking waits by default", true, long, nil, true, false},
		{"blocking waits no longer than the default", true, short, nil, true, true},
		{"blocking does not wait where the default is not to", true, 0, nil, false, false},
		{"blocking tries once if asked to", true, long, &zero, false, false},
		{"blocking waits as asked, above the default", true, short, &long, true, false},
		{"blocking waits as asked, below the default", true, long, &short, true, true},
		{"another tries once", false, long, nil, false, false},
		{"another tries once if asked to", false, long, &zero, false, false},
		{"another waits if asked to", false, 0, &long, true, false},
		{"another waits as asked", false, long, &short, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			everyLocker(t, func(t *testing.T, l lock.Locker) {
				asked := make(chan struct{}, 1)
				s := stage(t, service.UnderLock(announced{l, asked}), redisStore(t), func(c *service.Config) {
					offer := c.Strategies["it"]
					offer.Blocking = row.blocking
					c.Strategies["it"], c.Wait = offer, row.def
				})
				release := hold(t, l, s)
				if row.waits && !row.vain {
					go func() { <-asked; release() }()
				}
				r, err := s.sell(t.Context(), func(r *service.Request) { r.Wait = row.asked })
				switch {
				case !row.waits:
					fails(t, err, all(lock.ErrHeld), context.DeadlineExceeded, lock.ErrDown)
					s.sold(t, 0)
				case row.vain:
					fails(t, err, all(lock.ErrHeld, context.DeadlineExceeded), lock.ErrDown)
					s.sold(t, 0)
				case err != nil || r.Waited <= 0:
					t.Errorf("waited %v: %v", r.Waited, err)
				default:
					s.sold(t, 1)
				}
			})
		})
	}
}

// The wait does not count as held, nor the hold as waited.
func TestWaitedAndHeldAreApart(t *testing.T) {
	t.Parallel()
	l := &local.Mutex{}
	asked := make(chan struct{}, 1)
	m := &hookStore{shop: redisStore(t)}
	s := stage(t, service.UnderLock(announced{l, asked}), m)
	release := hold(t, l, s)
	var freed, read time.Time
	m.read = func(context.Context) { m.read, read = nil, time.Now() }
	go func() {
		<-asked
		freed = time.Now()
		release()
	}()
	r, err := s.sell(t.Context(), lab(service.Lab{Hold: 50 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	if r.AcquiredAt.Before(freed) || !r.AcquiredAt.Before(read) || r.Held < 50*time.Millisecond {
		t.Errorf("free at %v, got at %v, read at %v, held %v", freed, r.AcquiredAt, read, r.Held)
	}
}

// A client that goes away leaves the queue: no order, no place in the queue, and the next one gets the lock.
func TestClientGoesAwayFromTheQueue(t *testing.T) {
	t.Parallel()
	everyLocker(t, func(t *testing.T, l lock.Locker) {
		asked := make(chan struct{}, 1)
		s := stage(t, service.UnderLock(announced{l, asked}), redisStore(t))
		release := hold(t, l, s)
		gone := errors.New("the client closed the connection")
		ctx, leave := context.WithCancelCause(t.Context())
		go func() { <-asked; leave(gone) }()
		_, err := s.sell(ctx)
		fails(t, err, all(gone), context.DeadlineExceeded, lock.ErrDown)
		release()
		if _, err := s.sell(t.Context(), wait(10*time.Second)); err != nil {
			t.Errorf("next: %v", err)
		}
		s.sold(t, 1)
	})
}

// A server that is known to be down ends a sale before it begins, whichever of the two it is.
func TestDependencyDown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lock", "store"} {
		t.Run(name, func(t *testing.T) {
			l := &revocableLock{asked: make(chan struct{}, 1)}
			s := stage(t, service.UnderLock(l), redisStore(t))
			need := map[string]*switched{"lock": s.serving, "store": s.keeping}[name]
			down := &driver.DownError{Server: name, Reason: "the test says so"}
			need.turn(t, down)
			_, err := s.sell(t.Context())
			if err != error(down) {
				t.Errorf("err = %v, want %v as it is: there is no order", err, down)
			}
			if len(l.asked) != 0 {
				t.Error("the lock was asked for")
			}
			if name == "store" {
				fails(t, second(s.Stock(t.Context(), "", s.sku)), all(lock.ErrDown))
				fails(t, second(s.SetStock(t.Context(), "", s.sku, 1)), all(lock.ErrDown))
				fails(t, second(s.Orders(t.Context(), "", s.sku, "", 1)), all(lock.ErrDown))
			}
			need.turn(t, nil)
			if _, err := s.sell(t.Context()); err != nil {
				t.Errorf("up again: %v", err)
			}
			s.sold(t, 1)
		})
	}
}

// One that goes down while a request waits ends the wait: nobody queues for a server that is gone.
func TestDependencyGoesDownWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lock", "store"} {
		t.Run(name, func(t *testing.T) {
			everyLocker(t, func(t *testing.T, l lock.Locker) {
				asked := make(chan struct{}, 1)
				s := stage(t, service.UnderLock(announced{l, asked}), redisStore(t))
				release := hold(t, l, s)
				need := map[string]*switched{"lock": s.serving, "store": s.keeping}[name]
				go func() { <-asked; need.turn(t, &driver.DownError{Server: name, Reason: "the test says so"}) }()
				_, err := s.sell(t.Context())
				fails(t, err, all(lock.ErrDown), context.DeadlineExceeded)
				release()
				need.turn(t, nil)
				if _, err := s.sell(t.Context(), wait(10*time.Second)); err != nil {
					t.Errorf("up again: %v", err)
				}
				s.sold(t, 1)
			})
		})
	}
}

// Going down does not end a critical section: what has begun is finished.
func TestDependencyGoesDownInside(t *testing.T) {
	t.Parallel()
	m := &hookStore{shop: redisStore(t)}
	s := stage(t, service.UnderLock(&local.Mutex{}), m)
	m.read = func(context.Context) {
		m.read = nil
		s.serving.turn(t, &driver.DownError{Server: "lock", Reason: "the test says so"})
	}
	if _, err := s.sell(t.Context()); err != nil {
		t.Error(err)
	}
	s.sold(t, 1)
}
