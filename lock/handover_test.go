package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A line has the callers of a test, who come one after the other and are served in some order.
type line struct {
	t      *testing.T
	all    sync.WaitGroup
	mu     sync.Mutex
	served []string
	fences []Fence
	errs   map[string]error
}

func newLine(t *testing.T) *line { return &line{t: t, errs: map[string]error{}} }

// come makes a caller come, who does the work under the lease, if it gets one, and releases it.
func (l *line) come(ctx context.Context, h Locker, who string, work func(*Lease)) {
	l.comeWith(ctx, h, Options{Owner: who}, work)
}

func (l *line) comeWith(ctx context.Context, h Locker, o Options, work func(*Lease)) {
	l.all.Go(func() {
		lease, err := survive(ctx, h, o)
		l.mu.Lock()
		l.errs[o.Owner] = err
		if err == nil {
			l.served = append(l.served, o.Owner)
			l.fences = append(l.fences, lease.Fence())
		}
		l.mu.Unlock()
		if err == nil {
			work(lease)
			_ = lease.Release()
		}
	})
	synctest.Wait()
}

// survive is Acquire. It returns a panic as an error.
func survive(ctx context.Context, h Locker, o Options) (l *Lease, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = reason.(error)
		}
	}()
	return h.Acquire(ctx, "k", o)
}

func second(*Lease) { time.Sleep(time.Second) }

// empty reports an error if a queue is left in the process.
func empty(t *testing.T, l Locker) {
	t.Helper()
	synctest.Wait()
	q := &l.(*handOver).queues
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.keys) > 0 {
		t.Errorf("a queue is left: %+v", q.keys["k"])
	}
}

// Another process gets its turn after Holders, or after Time, or when the fences are used up. Without room for fences
// of its own, each holder asks for a lease. Observe hides the room, as any decorator does.
func TestHandOverLetsOthersIn(t *testing.T) {
	const hidden = 77
	for name, row := range map[string]struct {
		bound Bound
		room  uint64
		want  int // holders of the first process before the second one
	}{
		"by count":               {Bound{Holders: 3, Time: time.Hour}, 0, 3},
		"by time":                {Bound{Holders: 8, Time: 2500 * time.Millisecond}, 0, 3},
		"by default":             {Bound{}, 0, 1},
		"by the fences' gap":     {Bound{Holders: 100, Time: time.Hour}, 0, 8},
		"by fences without room": {Bound{Time: time.Hour}, 1, 1},
		"not by the fences":      {Bound{Time: time.Hour}, 1 << 63, 16},
		"by a decorator":         {Bound{Time: time.Hour}, hidden, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m Locker = &memory{room: row.room}
				if row.room == hidden {
					m = Observe(m, Events{})
				}
				here, there := HandOver(m, row.bound), HandOver(m, row.bound)
				l := newLine(t)
				for range 20 {
					l.come(t.Context(), here, "here", second)
				}
				l.come(t.Context(), there, "there", second)
				l.all.Wait()
				if at := slices.Index(l.served, "there"); at != row.want {
					t.Errorf("the other process came after %d holders, want %d", at, row.want)
				}
			})
		})
	}
}

// A lease that its holder has abandoned or no longer renews is handed to nobody.
func TestHandOverKeepsItsHandsOffALease(t *testing.T) {
	for name, row := range map[string]struct {
		end   func(*Lease)
		waits time.Duration
	}{
		"stopped":   {(*Lease).stopRenewing, 0},
		"abandoned": {(*Lease).Abandon, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				h := HandOver(m, Bound{})
				l := newLine(t)
				first := acquire(t, h, "first")
				ended := time.Now()
				l.come(t.Context(), h, "next", func(*Lease) {
					if waited := time.Since(ended); waited != row.waits {
						t.Errorf("the next one came after %v, want %v", waited, row.waits)
					}
				})
				row.end(first)
				_ = first.Release()
				l.all.Wait()
				if len(m.asked()) != 2 || len(m.freed()) != 2 {
					t.Errorf("%d leases, %d freed; want 2, 2", len(m.asked()), len(m.freed()))
				}
			})
		})
	}
}

// Only the contender gets an error of the server, or a panic. The others ask after it, and nobody is left in the queue.
func TestHandOverOfAContenderThatFails(t *testing.T) {
	for name, fail := range map[string]func(error) error{
		"an error": func(err error) error { return err },
		"a panic":  func(err error) error { panic(err) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := errors.New("backend down")
				m := &memory{trip: time.Millisecond, fails: func(n int) error {
					if n > 2 {
						return nil
					}
					return fail(down)
				}}
				h := HandOver(m, Bound{})
				l := newLine(t)
				for _, who := range []string{"a", "b", "c", "d"} {
					l.come(t.Context(), h, who, second)
				}
				l.all.Wait()
				if !slices.Equal(l.served, []string{"c", "d"}) || !errors.Is(l.errs["b"], down) ||
					!slices.Equal(m.asked()[:3], []string{"a", "b", "c"}) {
					t.Errorf("served %v after asking by %v; b was told %v", l.served, m.asked(), l.errs["b"])
				}
				empty(t, h)
			})
		})
	}
}

// The contender is the first or the newest waiter, whichever can wait longer.
func TestHandOverAppointsWhoCanWaitLonger(t *testing.T) {
	const endless = time.Duration(0)
	for _, row := range []struct {
		waits []time.Duration // of the first, of one between, and of the newest
		want  string
	}{
		{[]time.Duration{time.Minute, time.Hour, time.Minute + 1}, "2"},
		{[]time.Duration{time.Minute, time.Hour, time.Minute - 1}, "0"},
		{[]time.Duration{time.Minute, endless, endless}, "2"},
		{[]time.Duration{endless, time.Minute, time.Hour}, "0"},
		{[]time.Duration{endless, endless, endless}, "0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{}
			h := HandOver(m, Bound{Holders: 1})
			l := newLine(t)
			holder := acquire(t, h, "holder")
			for i, wait := range row.waits {
				ctx := t.Context()
				if wait != endless {
					limited, cancel := context.WithTimeout(ctx, wait)
					defer cancel()
					ctx = limited
				}
				l.come(ctx, h, fmt.Sprint(i), second)
			}
			_ = holder.Release()
			l.all.Wait()
			if m.asked()[1] != row.want || !slices.Equal(l.served, []string{"0", "1", "2"}) {
				t.Errorf("waits of %v: asked by %q, want %q; served %v", row.waits, m.asked()[1], row.want, l.served)
			}
		})
	}
}

// Of two that try once, one gets a free key, and the other is told who has it, or asks for it.
func TestHandOverOfCallersThatTryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{trip: time.Millisecond}
		h := HandOver(m, Bound{})
		l := newLine(t)
		for _, who := range []string{"one", "two"} {
			l.comeWith(t.Context(), h, Options{Owner: who, TryOnce: true}, second)
		}
		time.Sleep(10 * time.Millisecond)
		l.comeWith(t.Context(), h, Options{Owner: "three", TryOnce: true}, second)
		l.all.Wait()
		for _, who := range []string{"two", "three"} {
			var held *HeldError
			if !errors.As(l.errs[who], &held) || held.Holder != "one" || !slices.Equal(l.served, []string{"one"}) {
				t.Errorf("served %v; %s was told %v", l.served, who, l.errs[who])
			}
		}
		empty(t, h)
		elsewhere := acquire(t, m, "elsewhere")
		if _, err := h.Acquire(t.Context(), "k", Options{TryOnce: true}); !errors.Is(err, ErrHeld) {
			t.Errorf("while it is held elsewhere: %v", err)
		}
		empty(t, h)
		_ = elsewhere.Release()
	})
}

func names(s State) (all []string) {
	if s.Holder != nil {
		all = append(all, s.Holder.Who)
	}
	for _, w := range s.Waiters {
		all = append(all, w.Who)
	}
	return all
}

// Inspect foretells the order in which those who are known here are served.
func TestHandOverInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		bound := Bound{Holders: 3, Time: time.Hour}
		here, there := HandOver(m, bound), HandOver(m, bound)
		l := newLine(t)
		inspect := func(h Locker, want ...string) State {
			t.Helper()
			synctest.Wait()
			s, err := Inspect(t.Context(), h, "k")
			if err != nil || !slices.Equal(names(s), want) {
				t.Errorf("%q, %v; want %q", names(s), err, want)
			}
			return s
		}
		elsewhere := acquire(t, m, "elsewhere")
		for _, who := range []string{"h1", "h2", "h3", "h4", "h5"} {
			l.come(t.Context(), here, who, second)
		}
		l.come(t.Context(), there, "t1", second)
		l.come(t.Context(), there, "t2", second)
		inspect(here, "elsewhere", "h1", "h2", "h3", "t1", "h4", "h5")
		_ = elsewhere.Release()
		time.Sleep(1500 * time.Millisecond) // h2 holds what h1 has acquired
		s := inspect(here, "h2", "h3", "t1", "h4", "h5")
		if s.Holder.Fence != l.fences[1] || time.Since(s.Holder.Since) != 500*time.Millisecond ||
			s.Waiters[0].Since.IsZero() {
			t.Errorf("holder %+v, waiters %+v; want the fence %d for half a second", s.Holder, s.Waiters, l.fences[1])
		}
		inspect(there, "h1", "t1", "t2")
		both, err := InspectAll(t.Context(), Observe(here, Events{}), []string{"k", "k"})
		if err != nil || len(both) != 2 || !slices.Equal(names(both[1]), names(s)) {
			t.Errorf("two keys: %+v, %v", both, err)
		}
		l.all.Wait()
		if want := []string{"h1", "h2", "h3", "t1", "t2", "h4", "h5"}; !slices.Equal(l.served, want) {
			t.Errorf("served %v, want %v", l.served, want)
		}
		inspect(here)
	})
}

// What the server says of the contender, whose request or reply may be on its way, is said of the first waiter.
func TestHandOverInspectsAContender(t *testing.T) {
	for name, row := range map[string]struct{ server, want []string }{
		"behind others":             {[]string{"x", "y", "a", "z"}, []string{"x", "y", "a", "b", "z", "c"}},
		"granted, and not yet here": {[]string{"a", "z"}, []string{"a", "b", "z", "c"}},
		"not yet there":             {[]string{"x", "z"}, []string{"x", "z", "b", "c"}},
		"nobody holds the key":      {nil, []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &handOver{bound: Bound{Holders: 2}}
			k := h.queues.open("k")
			for _, who := range []string{"a", "b", "c"} {
				k.join(Options{Owner: who})
			}
			k.contender = k.first
			var s State
			for i, who := range row.server {
				if i == 0 {
					s.Holder = &Contender{Who: who}
				} else {
					s.Waiters = append(s.Waiters, Contender{Who: who})
				}
			}
			h.addLocal(&s, "k")
			if !slices.Equal(names(s), row.want) {
				t.Errorf("%q, want %q", names(s), row.want)
			}
		})
	}
}

// Evict reaches the server through the decorators, and the local holder of now is told.
func TestDecoratorsPassEvictThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Observe(HandOver(&memory{}, Bound{}), Events{})
		l := acquire(t, h, "")
		fence, err := Evict(t.Context(), h, "k")
		if err != nil || fence <= l.Fence()+7 || !errors.Is(l.Err(), ErrTaken) || !errors.Is(l.Err(), ErrLost) {
			t.Errorf("%d, %v; the holder of %d was told %v", fence, err, l.Fence(), l.Err())
		}
		_ = l.Release()
		if err := Check(t.Context(), h, "check"); err != nil {
			t.Error(err)
		}
	})
}

func TestALockThatCannotTellSaysSo(t *testing.T) {
	h := Observe(HandOver(struct{ Locker }{}, Bound{}), Events{})
	if _, err := Inspect(t.Context(), h, "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("inspect: %v", err)
	}
	if _, err := Evict(t.Context(), h, "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("evict: %v", err)
	}
}
