package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A depend is a server that is up while err is nil.
type depend struct {
	err error
	up  context.Context
}

func (d depend) Err() error          { return d.err }
func (d depend) Up() context.Context { return d.up }

// A counted context counts the functions that wait for its end.
type counted struct {
	context.Context
	waiting int
}

func (c *counted) AfterFunc(func()) func() bool {
	c.waiting++
	return func() bool { c.waiting--; return true }
}

func (*counted) Done() <-chan struct{} { return make(chan struct{}) }

// A server is up for longer than a sale, so a sale that is over must leave nothing at it.
func TestASaleLeavesNothingAtItsServers(t *testing.T) {
	one, other := &counted{Context: t.Context()}, &counted{Context: t.Context()}
	ctx, done := While(t.Context(), depend{up: one}, depend{up: other})
	if one.waiting != 1 || other.waiting != 1 || ctx.Err() != nil {
		t.Errorf("%d and %d wait, %v", one.waiting, other.waiting, ctx.Err())
	}
	if done(); one.waiting != 0 || other.waiting != 0 || ctx.Err() == nil {
		t.Errorf("after it: %d and %d wait, %v", one.waiting, other.waiting, ctx.Err())
	}
}

// Of a server that is down, the reason is that of now; of one that came back since, that with which it went down.
func TestWhyAServerIsDown(t *testing.T) {
	then, now := errors.New("refused"), errors.New("its disk is full")
	up, end := context.WithCancelCause(t.Context())
	end(then)
	for err, want := range map[error]error{now: now, nil: then} {
		ctx, done := While(t.Context(), depend{err, up})
		if cause := context.Cause(ctx); cause != want {
			t.Errorf("err %v: %v, want %v", err, cause, want)
		}
		done()
	}
}

// An error that only means that a server was slow is no outage. A lock that was not free in time stays held.
func TestWhatABusyServerMeans(t *testing.T) {
	down := driver.Down("read", context.DeadlineExceeded)
	heldAt := errors.Join(lock.ErrHeld, context.DeadlineExceeded)
	for name, row := range map[string]struct {
		err  error
		busy bool // is replaced by an overload
	}{
		"nothing":            {nil, false},
		"slow":               {down, true},
		"refused":            {driver.Down("read", errors.New("refused")), false},
		"between statements": {context.DeadlineExceeded, true},
		"canceled":           {context.Canceled, false},
		"in doubt":           {errors.Join(down, ErrOutcomeUnknown), false},
		"in doubt, between":  {errors.Join(context.DeadlineExceeded, ErrOutcomeUnknown), false},
		"lost":               {errors.Join(down, lock.ErrLost), false},
		"held":               {heldAt, false},
	} {
		got := busy(row.err, depend{}, depend{})
		if row.busy != (errors.Is(got, lock.ErrOverloaded) && !errors.Is(got, lock.ErrDown)) ||
			!row.busy && got != row.err {
			t.Errorf("%s: %v", name, got)
		}
		if row.busy && !strings.Contains(got.Error(), row.err.Error()) {
			t.Errorf("%s: %v does not tell %v", name, got, row.err)
		}
	}
	if got := busy(down, depend{}, depend{err: errors.New("gone")}); got != down {
		t.Errorf("a server that is down by now: %v", got)
	}
}

// A wait of 0 is one try, as long as work takes.
func TestHowLongARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Minute: time.Minute} {
			begin := new(deduction).wait(t.Context(), limit, 3*time.Second)
			time.Sleep(time.Second) // the wait is of the request, and not of the queue
			wait, done := begin()
			if deadline, _ := wait.Deadline(); time.Until(deadline) != want-time.Second {
				t.Errorf("%v: %v are left", limit, time.Until(deadline))
			}
			time.Sleep(want)
			if down := errors.Is(context.Cause(wait), lock.ErrDown); down != (limit == 0) || wait.Err() == nil {
				t.Errorf("%v: the end is %v", limit, context.Cause(wait))
			}
			done()
		}
	})
	given := 5 * time.Second
	for _, row := range []struct {
		given    *time.Duration
		blocking bool
		want     time.Duration
	}{{nil, true, time.Minute}, {nil, false, 0}, {&given, true, given}, {&given, false, given}} {
		d := &deduction{strategy: StrategyConfig{Blocking: row.blocking}}
		d.Wait = row.given
		if got := d.limit(time.Minute); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// Points are named in the order of a sale, and each once.
func TestPointsHaveNames(t *testing.T) {
	for i, name := range pointNames() {
		if p, err := ParsePoints(name); err != nil || p != 1<<i || p.String() != name {
			t.Errorf("%s: %d (%s), %v", name, p, p, err)
		}
	}
	all := strings.Join(pointNames(), ",")
	if p, err := ParsePoints(all); err != nil || p != 1<<6-1 || p.String() != all {
		t.Errorf("all: %d, %v", p, err)
	}
	if p, err := ParsePoints("after_read,after_read"); err != nil || p != AfterRead {
		t.Errorf("twice: %s, %v", p, err)
	}
}

// A sale under way can be held at points to come, and one that is over cannot.
func TestSalesUnderWayAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := NewSteps(8)
		s := &Service{Config: Config{Pauses: &Pauses{}, Watch: steps}}
		p := s.Pauses
		first, second := s.stops(Request{RequestID: "1"}), s.stops(Request{RequestID: "2", Lab: Lab{Pause: AfterRead}})
		if first.points != 0 || second.points != AfterRead {
			t.Errorf("points %s, and %s", first.points, second.points)
		}
		if err := p.Hold("1", AfterLock); err != nil || first.points != AfterLock || second.points != AfterRead {
			t.Errorf("held: %s, and %s; %v", first.points, second.points, err)
		}
		p.HoldAll(BeforeWrite)
		third := s.stops(Request{RequestID: "3"})
		if first.points != AfterLock|BeforeWrite || second.points != AfterRead|BeforeWrite ||
			third.points != BeforeWrite {
			t.Errorf("all are held: %s, %s and %s", first.points, second.points, third.points)
		}
		if third.longest() != MaxPause || first.longest() != 2*MaxPause {
			t.Errorf("longest: %v and %v", third.longest(), first.longest())
		}
		let := make(chan string, 2)
		for id, stop := range map[string]*stops{"1": first, "3": third} {
			go func() { let <- fmt.Sprint(id, stop.at(t.Context(), BeforeWrite)) }()
		}
		synctest.Wait()
		if n := len(p.List()); n != 2 || len(let) != 0 || first.points != AfterLock {
			t.Errorf("%d are listed, want 2; %d went on", n, len(let))
		}
		if n := p.ReleaseAll(); n != 2 || len(p.List()) != 0 {
			t.Errorf("%d went on, %d are listed", n, len(p.List()))
		}
		if _, _, n := <-let, <-let, p.ReleaseAll(); n != 0 {
			t.Errorf("%d went on, of none", n)
		}
		p.HoldAll(0)
		if first.points != 0 || second.points != 0 || s.stops(Request{RequestID: "4"}).points != 0 {
			t.Errorf("points are left: %s, %s", first.points, second.points)
		}
		first.end()
		if err := p.Hold("1", AfterLock); !errors.Is(err, ErrNotPaused) {
			t.Errorf("a sale that is over is held: %v", err)
		}
		told, _, _ := steps.After(0)
		for _, step := range told {
			if step.Point != BeforeWrite || step.RequestID == "" || step.Kind != Paused && step.Kind != Resumed {
				t.Errorf("%+v", step)
			}
		}
		if len(told) != 4 {
			t.Errorf("%d steps, want 4", len(told))
		}
		unwatched, unpaused := &Service{Config: Config{Pauses: p}}, &Service{}
		if unwatched.stops(Request{}) != nil || unpaused.stops(Request{Lab: Lab{Pause: AfterRead}}) != nil {
			t.Error("a sale that cannot be paused has points")
		}
	})
}
