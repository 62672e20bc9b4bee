package zklock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// unplugged returns a generation without a server: connected at the start of the test, with a session of that length.
func unplugged(t *testing.T, timeout time.Duration) *generation {
	t.Helper()
	g := newGeneration(&Session{log: slog.New(slog.DiscardHandler), changed: make(chan struct{})})
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	g.link = &link{Conn: here, session: 7, timeout: timeout, opened: time.Now()}
	g.attached()
	g.confirmAlive(time.Now())
	return g
}

// Each limit of a session holds from its moment on, and not before.
func TestLimitsOfASession(t *testing.T) {
	for _, timeout := range []time.Duration{2400 * time.Millisecond, 30 * time.Second} {
		silence, leave, limit := min(maxSilence, timeout/4), timeout/3, timeout*2/3
		for _, row := range []struct {
			name   string
			after  time.Duration
			state  State
			linked bool
		}{
			{"at once", 0, Connected, true},
			{"nearly silent", silence - 1, Connected, true},
			{"silent", silence, Suspended, true},
			{"nearly left", leave - 1, Suspended, true},
			{"left", leave, Suspended, false},
			{"nearly lost", limit - 1, Suspended, false},
			{"lost", limit, Lost, false},
		} {
			t.Run(timeout.String()+" "+row.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := unplugged(t, timeout)
					began := time.Now()
					time.Sleep(row.after)
					g.applyLimits(time.Now(), time.Now(), false)
					if g.state != row.state || g.linked != row.linked {
						t.Errorf("%v, linked %t; want %v, %t", g.state, g.linked, row.state, row.linked)
					}
					open := g.link.SetWriteDeadline(time.Now()) == nil
					if row.state != Lost && open != row.linked { // that of a lost session is closed elsewhere
						t.Errorf("the connection is open: %t", open)
					}
					if lost := errors.Is(context.Cause(g.over), lock.ErrExpired); lost != (row.state == Lost) {
						t.Errorf("after %v: %v", time.Since(began), context.Cause(g.over))
					}
				})
			})
		}
	}
}

// A heartbeat is due after its interval, on a connection, if none is under way. A generation that has no session yet
// has no limits.
func TestWhenAHeartbeatIsDue(t *testing.T) {
	for _, row := range []struct {
		timeout, interval time.Duration
	}{
		{2 * time.Second, 100 * time.Millisecond},
		{10 * time.Second, heartbeatInterval},
		{time.Minute, heartbeatInterval},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := unplugged(t, row.timeout)
			at := time.Now()
			for _, step := range []struct {
				after  time.Duration
				asking bool
				want   bool
			}{
				{row.interval - 1, false, false}, {row.interval, false, true}, {row.interval, true, false},
			} {
				wake, beat := g.applyLimits(at.Add(step.after), at, step.asking)
				if beat != step.want {
					t.Errorf("session of %v, %v after a heartbeat, asking %t: due %t",
						row.timeout, step.after, step.asking, beat)
				}
				if next := at.Add(row.interval); step.after < row.interval && !wake.Equal(next) {
					t.Errorf("session of %v: wakes after %v, want %v", row.timeout, wake.Sub(at), row.interval)
				}
			}
			g.linked = false
			if _, beat := g.applyLimits(at.Add(row.interval), at, false); beat {
				t.Error("a heartbeat without a connection")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGeneration(&Session{log: slog.New(slog.DiscardHandler)})
		at := time.Now()
		wake, beat := g.applyLimits(at, at, false)
		if beat || g.state != Suspended || !wake.Equal(at.Add(gracePeriod)) {
			t.Errorf("before the first connection: %v, due %t, wakes after %v", g.state, beat, wake.Sub(at))
		}
	})
}

// Waiters keep their places for the grace period of an outage, which begins when the silence is noticed. The next
// proof of life begins anew, if it is a fresh one and there is a connection.
func TestAnOutageEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := unplugged(t, time.Minute)
		at := time.Now()
		look := func(after time.Duration, over bool) {
			t.Helper()
			g.applyLimits(at.Add(after), at, false)
			if (g.outage.Err() != nil) != over {
				t.Errorf("after %v: waits are over %t", after, !over)
			}
		}
		look(gracePeriod, false) // silent from here on
		look(2*gracePeriod-1, false)
		look(2*gracePeriod, true)
		time.Sleep(2 * gracePeriod)
		g.confirmAlive(time.Now().Add(-maxSilence - 1))
		if g.state != Suspended {
			t.Errorf("an old proof of life: %v", g.state)
		}
		g.linked = false
		g.confirmAlive(time.Now())
		if g.state != Suspended {
			t.Errorf("a proof of life without a connection: %v", g.state)
		}
		g.linked = true
		g.confirmAlive(time.Now().Add(-time.Hour))
		if g.state != Connected || g.outage.Err() != nil || time.Since(g.alive) != 0 {
			t.Errorf("%v, alive %v ago, waits over %t", g.state, time.Since(g.alive), g.outage.Err() != nil)
		}
		g.detached()
		if g.state != Suspended || g.linked || g.since != time.Now() {
			t.Errorf("after the end of the connection: %v, linked %t", g.state, g.linked)
		}
	})
}
