package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// A late locker grants when its caller gives up, and takes its time to free.
type late struct {
	asked chan context.Context
	free  chan struct{} // closed: a release may end
}

func (*late) FenceRange() uint64 { return 8 }

func (l *late) Acquire(ctx context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	l.asked <- ctx
	<-ctx.Done()
	lease, _ := lock.NewLease(key, 8, func(context.Context) error { <-l.free; return nil })
	return lease, nil
}

func (*late) Inspect(context.Context, string) (lock.State, error) { return lock.State{}, nil }

// wait starts an Acquire, and returns what tells of its end.
func wait(ctx context.Context, l lock.Locker) (done chan error) {
	done = make(chan error, 1)
	go func() {
		lease, err := l.Acquire(ctx, "k", lock.Options{})
		if err == nil {
			_ = lease.Release()
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

// over reports whether an Acquire has returned.
func over(done chan error) bool {
	synctest.Wait()
	return len(done) > 0
}

// A lease that comes when all have given up is given back before the last of them returns. So does it for whoever
// comes meanwhile and gives up, too.
func TestHandOverGivesBackWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &late{asked: make(chan context.Context, 8), free: make(chan struct{})}
		l := lock.HandOver(inner, lock.Bound{})
		first, leave := context.WithCancel(t.Context())
		waits := []chan error{wait(first, l)}
		leave()
		synctest.Wait()
		if s, err := lock.Inspect(t.Context(), l, "k"); err != nil || len(names(s)) > 0 {
			t.Errorf("%q, %v; want nobody", names(s), err)
		}
		second, leave := context.WithCancel(t.Context())
		waits = append(waits, wait(second, l))
		leave()
		if who := triesOnce(t, l); who != "" { // which also sees that no waiter is looked for
			t.Errorf("%q is told to hold the key; want nobody", who)
		}
		for i, done := range waits {
			if over(done) {
				t.Errorf("waiter %d has returned before the lease was given back", i)
			}
		}
		close(inner.free)
		for i, done := range waits {
			if err := <-done; !errors.Is(err, lock.ErrHeld) {
				t.Errorf("waiter %d was told %v", i, err)
			}
		}
		if n := len(inner.asked); n != 1 {
			t.Errorf("the lock was asked %d times, want once", n)
		}
	})
}

// A lock that has seen the deadline of the first waiter, and fails by it, is asked again for those who can wait
// longer. They are not told of that failure.
func TestHandOverOfADeadlineThatHasGrown(t *testing.T) {
	for name, longer := range map[string]time.Duration{"a later deadline": time.Minute, "no deadline": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stubborn{make(chan asking, 8), make(chan error)}
				l := lock.HandOver(s, lock.Bound{})
				short, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				first := wait(short, l)
				<-s.asked
				long := t.Context()
				if longer > 0 {
					long, stop = context.WithTimeout(long, longer)
					defer stop()
				}
				second := wait(long, l)
				time.Sleep(time.Second)
				if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the first was told %v", err)
				}
				s.answer <- errors.New("i/o timeout")
				if over(second) {
					t.Fatalf("the second was told %v", <-second)
				}
				<-s.asked
				s.answer <- nil
				if err := <-second; err != nil {
					t.Errorf("the second was told %v", err)
				}
			})
		})
	}
}

// An overdue context has a deadline that has passed, and has not ended yet: the moment between the two.
type overdue struct {
	context.Context
	deadline time.Time
}

func (o overdue) Deadline() (time.Time, bool) { return o.deadline, true }

// Whoever comes when the time of all the others is over ends the question for them. That is nobody's failure: the lock
// is asked again.
func TestHandOverEndsAQuestionThatIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{make(chan asking, 8), make(chan error)}
		l := lock.HandOver(s, lock.Bound{})
		first := wait(overdue{t.Context(), time.Now().Add(time.Second)}, l)
		asked := <-s.asked
		time.Sleep(time.Second)
		second := wait(t.Context(), l)
		if !errors.Is(context.Cause(asked), context.DeadlineExceeded) {
			t.Errorf("the question ended by %v, want that its deadline has passed", context.Cause(asked))
		}
		if over(first) {
			t.Fatalf("the first was told %v", <-first)
		}
		if n := len(s.asked); n != 1 {
			t.Fatalf("the lock was asked %d times again, want once", n)
		}
		if next := <-s.asked; next.Err() != nil {
			t.Errorf("asked with a ctx that has ended: %v", context.Cause(next))
		}
		s.answer <- nil
		for i, done := range []chan error{first, second} {
			if err := <-done; err != nil {
				t.Errorf("waiter %d was told %v", i, err)
			}
		}
	})
}

// A slow locker takes a second to free.
type slow struct{ asked []time.Time }

func (*slow) FenceRange() uint64 { return 8 }

func (s *slow) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	s.asked = append(s.asked, time.Now())
	lease, _ := lock.NewLease(key, 8, func(context.Context) error { time.Sleep(time.Second); return nil })
	return lease, nil
}

// The next lease of a process is asked for when the last one has been given back: until then the process would wait for
// itself.
func TestHandOverAsksAfterTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(slow)
		l := lock.HandOver(s, lock.Bound{Holders: 1})
		began := time.Now()
		first, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t.Context(), l)
		_ = first.Release()
		if err := <-next; err != nil {
			t.Error(err)
		}
		if len(s.asked) != 2 || s.asked[1].Sub(began) < time.Second {
			t.Errorf("asked at %v, want the second one after the release", s.asked)
		}
	})
}

// What is not known of a holder is not told.
func TestHeldErrorSaysWhatIsKnown(t *testing.T) {
	for want, err := range map[string]lock.HeldError{
		`lock "k" is held`:                          {Key: "k"},
		`lock "k" is held by app-1/r`:               {Key: "k", Holder: "app-1/r"},
		`lock "k" is held for up to 2s`:             {Key: "k", Remaining: 2 * time.Second},
		`lock "k" is held by app-1/r for up to 1ns`: {Key: "k", Holder: "app-1/r", Remaining: 1},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err.Error(), want)
		}
	}
}
