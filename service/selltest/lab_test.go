package selltest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

const everyPoint = "before_lock,after_lock,after_read,before_write,after_write,after_unlock"

func points(t testing.TB, names string) service.Points {
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

func TestASaleStopsAtEveryPointOfItsWay(t *testing.T) {
	t.Parallel()
	mutex := func(testing.TB) service.Seller { return service.UnderLock(&local.Mutex{}) }
	for _, row := range []struct {
		name, points string
		seller       func(testing.TB) service.Seller
		store        func(testing.TB) shop
	}{
		{"under lock", everyPoint, mutex, func(t testing.TB) shop { return redisStore(t) }},
		{
			"optimistic", everyPoint,
			func(testing.TB) service.Seller { return service.Optimistically(service.OptimisticOptions{}) },
			func(t testing.TB) shop { return redisStore(t) },
		},
		{"segmented", everyPoint, func(testing.TB) service.Seller {
			return service.Segmented(&local.Mutex{}, service.SegmentedOptions{})
		}, func(t testing.TB) shop { return redisStore(t) }},
		{
			"in transaction", "before_lock,after_read,before_write,after_write,after_unlock",
			func(testing.TB) service.Seller { return service.InTransaction },
			func(t testing.TB) shop { return mysqlStore(t) },
		},
		{
			"atomic", "before_lock,after_lock,after_write,after_unlock",
			func(testing.TB) service.Seller { return service.Atomically },
			func(t testing.TB) shop { return redisStore(t) },
		},
		{
			"merged", "before_lock,after_lock,after_write,after_unlock",
			func(testing.TB) service.Seller { return service.Merged(service.MergeOptions{}) },
			func(t testing.TB) shop { return redisStore(t) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, row.seller(t), row.store(t))
			l := linger(t, s, lab(service.Lab{Pause: points(t, everyPoint)}))
			var seen []string
			for point := l.next(); point != ""; point = l.next() {
				seen = append(seen, point)
				l.release()
			}
			if err := <-l.done; err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(seen, ","); got != row.points {
				t.Errorf("it stood at %s, want %s", got, row.points)
			}
			s.sold(t, 1)
		})
	}
}

// What a pause in the critical section is for: somebody else comes in meanwhile, or does not.
func TestAPauseIsInsideTheCriticalSection(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	l := linger(t, s, lab(service.Lab{Pause: points(t, "after_lock,after_write,after_unlock")}))
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

func TestALostLeaseEndsAPause(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(setnx(t, 2*time.Second)), redisStore(t))
	l := linger(t, s, lab(service.Lab{Pause: points(t, "before_write")}))
	fails(t, <-l.done, all(lock.ErrLost))
	s.sold(t, 0)

	deaf := linger(t, s, lab(service.Lab{Pause: points(t, "before_write"), IgnoreLoss: true, Unfenced: true}))
	if point := deaf.next(); point != "before_write" {
		t.Fatalf("it stands at %q", point)
	}
	// Another gets in when the lease is over, and not before.
	if _, err := s.sell(t.Context(), wait(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if point := deaf.next(); point != "before_write" {
		t.Errorf("it did not ignore the loss, and stands at %q", point)
	}
	deaf.release()
	if err := <-deaf.done; !errors.Is(err, lock.ErrLost) && err != nil {
		t.Error(err)
	}
	s.left(t, initial-1, 2)
}

// A client that goes away ends a pause outside of the critical section, and none inside.
func TestAClientThatLeavesAPause(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	l := linger(t, s, lab(service.Lab{Pause: points(t, "before_lock")}))
	l.next()
	l.cancel()
	fails(t, <-l.done, all(context.Canceled))

	l = linger(t, s, lab(service.Lab{Pause: points(t, "after_read,after_unlock")}))
	l.next()
	l.cancel()
	if point := l.next(); point != "after_read" {
		t.Fatalf("it stands at %q", point)
	}
	l.release()
	if err := <-l.done; err != nil {
		t.Error(err)
	}
	s.sold(t, 1)
}

func TestReleaseNamesWhoIsLetGo(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.None{}), redisStore(t))
	l := linger(t, s, lab(service.Lab{Pause: points(t, "after_read")}))
	l.next()
	if _, err := l.pauses.Release("another"); !errors.Is(err, service.ErrNotPaused) {
		t.Errorf("err = %v, want ErrNotPaused", err)
	}
	p, err := l.pauses.Release("r-1")
	if err != nil || p.SKU != s.sku || p.Strategy != "it" || p.Point.String() != "after_read" || p.Since.IsZero() {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := l.pauses.Release("r-1"); !errors.Is(err, service.ErrNotPaused) {
		t.Errorf("released twice: %v", err)
	}
	if err := <-l.done; err != nil {
		t.Error(err)
	}
}

func TestParsePoints(t *testing.T) {
	t.Parallel()
	if got := points(t, everyPoint).String(); got != everyPoint {
		t.Errorf("%s, want %s", got, everyPoint)
	}
	for _, wrong := range []string{"", "after", "after_read,", ",after_read", "after_read, after_write"} {
		_, err := service.ParsePoints(wrong)
		var invalid *service.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "pause" {
			t.Errorf("%q: %v, want an InvalidError", wrong, err)
		}
	}
}

func TestNesting(t *testing.T) {
	t.Parallel()
	l := &local.Mutex{}
	s := stage(t, service.UnderLock(l), redisStore(t), func(c *service.Config) {
		it := c.Strategies["it"]
		it.Lock = l
		c.Strategies["it"] = it
	})
	if _, err := s.sell(t.Context(), lab(service.Lab{Nested: service.NestedHolder}), wait(0)); err != nil {
		t.Errorf("as its holder: %v", err)
	}
	_, err := s.sell(t.Context(), lab(service.Lab{Nested: service.NestedStranger}), wait(0))
	fails(t, err, all(lock.ErrHeld))
	_, err = s.sell(t.Context(), lab(service.Lab{Nested: service.NestedStranger}), wait(50*time.Millisecond))
	fails(t, err, all(context.DeadlineExceeded))
	s.sold(t, 1)
	if !slices.Equal((&service.Pauses{}).List(), []service.Pause{}) {
		t.Error("nobody waits anywhere")
	}
}
