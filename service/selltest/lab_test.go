package selltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

const everyPoint = "before_lock,after_lock,after_read,before_write,after_write,after_unlock"

func pausesAt(t testing.TB, names string) service.Points {
	t.Helper()
	p, err := service.ParsePoints(names)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A lingerer is a sale in the lab, in a goroutine of its own.
type lingerer struct {
	t      *testing.T
	pauses *service.Pauses
	done   chan error
	got    service.Receipt
	cancel context.CancelFunc
}

// linger sells with stops at some points. The pauses are the scene's.
func linger(t *testing.T, s *scene, change ...func(*service.Request)) *lingerer {
	t.Helper()
	s.Pauses = &service.Pauses{}
	l := &lingerer{t: t, pauses: s.Pauses, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	t.Cleanup(cancel)
	go func() {
		var err error
		l.got, err = s.sell(ctx, change...)
		l.done <- err
	}()
	return l
}

// next waits until it stands somewhere, or is done: "".
func (l *lingerer) next() string {
	l.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if list := l.pauses.List(); len(list) > 0 {
			return list[0].Point.String()
		}
		select {
		case err := <-l.done:
			l.done <- err
			return ""
		default:
		}
	}
	l.t.Fatal("it neither stands anywhere nor ends")
	return ""
}

func (l *lingerer) release() {
	l.t.Helper()
	if _, err := l.pauses.Release("r-1"); err != nil {
		l.t.Fatal(err)
	}
}

// What a pause in the critical section is for: somebody else comes in meanwhile, or does not.
func TestAPauseIsInsideTheCriticalSection(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	l := linger(t, s, lab(service.Lab{Pause: pausesAt(t, "after_lock,after_write,after_unlock")}))
	for _, want := range []struct {
		point string
		busy  bool
	}{{"after_lock", true}, {"after_write", true}, {"after_unlock", false}} {
		if point := l.next(); point != want.point {
			t.Fatalf("it stands at %q, want %s", point, want.point)
		}
		_, err := s.sell(t.Context(), wait(0))
		if errors.Is(err, lock.ErrHeld) != want.busy {
			t.Errorf("%s: another sale: %v, want busy: %t", want.point, err, want.busy)
		}
		l.release()
	}
	if err := <-l.done; err != nil {
		t.Error(err)
	}
	s.sold(t, 2)
}

// A client that goes away ends a pause outside of the critical section. See clientLeavesInside.
func TestAClientThatLeavesAPause(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	l := linger(t, s, lab(service.Lab{Pause: pausesAt(t, "before_lock")}))
	l.next()
	l.cancel()
	fails(t, <-l.done, all(context.Canceled))
	s.sold(t, 0)
}

func TestNesting(t *testing.T) {
	t.Parallel()
	l := &local.Mutex{}
	s := locked(t, l, redisStore(t))
	if _, err := s.sell(t.Context(), lab(service.Lab{Nested: service.NestedHolder}), wait(0)); err != nil {
		t.Errorf("as its holder: %v", err)
	}
	_, err := s.sell(t.Context(), lab(service.Lab{Nested: service.NestedStranger}), wait(0))
	fails(t, err, all(lock.ErrHeld))
	_, err = s.sell(t.Context(), lab(service.Lab{Nested: service.NestedStranger}), wait(50*time.Millisecond))
	fails(t, err, all(context.DeadlineExceeded))
	s.sold(t, 1)
}
