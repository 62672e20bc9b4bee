package zklock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// attend watches over the generation until it is over: it asks for proofs of life and draws the conclusions when none come.
//
// When is a session certainly alive? The library pings, but keeps the answers to itself, so this is what a request of our own
// tells: the server restarts a session's clock when it receives a request, which is after we sent it. Hence with
//
//	alive = when the latest request left that was answered
//
// the server does not expire the session before alive + timeout; it rounds up to its next tick. We give it up at
//
//	alive + 2/3 timeout
//
// by the monotonic clock. The third that is left is for the work to stop, for clocks that run at different rates, and for the
// way that a follower tells: it reports the sessions it heard of to the leader, who expires them, every half tick. The shortest
// session a server grants is 2 ticks, of which a third is more than half a tick.
//
// The request is a sync, because that goes to the leader: a follower cut off from it answers reads of sessions that are
// long gone. It costs one round trip every 500 ms (a 20th of a session shorter than 10 s) and writes nothing.
//
// What is not covered: a leader that is cut off from its followers, which answers until it notices, syncLimit ticks at most; a
// process that is paused, whose timer fires when it wakes; a computer that is suspended, where the monotonic clock stops too. For
// these there is the fence.
//
// A connection that is silent for a third of the timeout is cut, so that another third is left to save the session
// on another server. The library alone would wait for two thirds.
func (g *generation) attend() {
	type beat struct {
		sent time.Time
		err  error
	}
	beats := make(chan beat, 1)
	beating := false
	var last time.Time
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wake, beatNow := g.judge(time.Now(), last, beating)
		if beatNow && g.begin() {
			last, beating = time.Now(), true
			sent := last
			go func() {
				defer g.requests.Done()
				_, err := g.conn.Sync("/")
				beats <- beat{sent, err}
			}()
		}
		timer.Reset(time.Until(wake))
		select {
		case <-g.s.ctx.Done():
			g.lose(errClosed)
			return
		case <-g.over.Done():
			return
		case <-g.nudge:
		case <-timer.C:
		case b := <-beats:
			beating = false
			switch b.err {
			case nil:
				g.s.mu.Lock()
				g.heard(b.sent)
				g.s.mu.Unlock()
			case zk.ErrSessionExpired:
				g.lose(fmt.Errorf("%w: by the ZooKeeper server", lock.ErrExpired))
				return
			}
		}
	}
}

// limit is when the session must not be relied on any more. s.mu is held.
func (g *generation) limit() time.Time { return g.alive.Add(g.timeout * 2 / 3) }

// outlived ends a generation whose limit has passed. s.mu is held.
func (g *generation) outlived(now time.Time) {
	g.ended(fmt.Errorf("%w: ZooKeeper silent for %v, two thirds of the session timeout", lock.ErrExpired,
		now.Sub(g.alive).Round(time.Millisecond)))
}

// lasts is nil while the session may be relied on. It looks at the clock itself: a process that was paused for longer
// than its session may read what came before, such as the end of the one ahead in the queue, and give a lease back,
// before attend's timer has its turn.
func (g *generation) lasts() error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if now := time.Now(); !g.alive.IsZero() && !now.Before(g.limit()) {
		g.outlived(now)
	}
	return context.Cause(g.over)
}

// judge applies the time limits and says when to look again, and whether a beat is due.
func (g *generation) judge(now, lastBeat time.Time, beating bool) (wake time.Time, beat bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	wake = now.Add(time.Hour)
	// due reports whether t has come, and sees to it that we wake when it does.
	due := func(t time.Time) bool {
		if now.Before(t) {
			if t.Before(wake) {
				wake = t
			}
			return false
		}
		return true
	}
	if !g.alive.IsZero() && due(g.limit()) {
		g.outlived(now)
		return wake, false
	}
	if g.linked {
		if due(g.alive.Add(g.silence())) {
			g.suspend(now)
		}
		if due(g.alive.Add(g.timeout / 3)) {
			g.linked = false
			g.link.Close()
		}
	}
	if g.state == Suspended && g.outage.Err() == nil && due(g.since.Add(patience)) {
		g.giveUp()
	}
	return wake, g.linked && !beating && due(lastBeat.Add(min(beatEvery, g.timeout/20)))
}
