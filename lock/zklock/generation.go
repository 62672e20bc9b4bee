package zklock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

const (
	// patience is how old the last answered request may be. After that the session is suspended, and waiters get their
	// error.
	patience = 2500 * time.Millisecond
	// heartbeatInterval is the time between two heartbeats. It is less for short sessions.
	heartbeatInterval = 500 * time.Millisecond
)

// A generation is one ZooKeeper session from its first connection to its loss, over any number of connections. The
// recipes make their requests and set their watches through it.
//
// A session is connected, suspended or lost, as Curator calls it. Suspended: the server has answered no request for
// patience; the session and its leases may still be alive, and holders continue their work, but waiters give up. Lost:
// expired, or without an answer for so long that it must be treated as expired.
//
// Each task has one place. The library's connection loop reconnects: dial makes a connection, route says to which
// server and when, and event takes note of the result. monitor sends heartbeats and notices the suspension and the
// expiry. lose ends over, on which every lease and every wait depends, so this is how holders are told.
//
// The library alone would replace an expired session by a new one on the same Conn, unnoticed by callers that wait
// for a reply. So a request sent for one session could be executed in the next (CURATOR-498, CURATOR-604). Therefore
// a Conn serves only one session here, and its dialer refuses to connect once that session is over.
type generation struct {
	s        *Session
	conn     *zk.Conn
	events   <-chan zk.Event // only to see the end of the library's goroutines; see event
	route    *route
	over     context.Context // ends, with the reason as its cause, when the session must not be relied on any more
	end      context.CancelCauseFunc
	requests sync.WaitGroup
	record   atomic.Pointer[fenceRecord] // nil: not read yet

	mu sync.Mutex
	state
}

// A state is what changes in a generation, guarded by its mu, as are the watches of its links. Always:
//
//   - link is nil or dialed. It is nil until the server has accepted the session on it and knows our credentials, and
//     when the generation has ended, because a request would keep the session alive.
//   - The server keeps the session until alive+timeout. alive and heard never go back.
//   - outage ends with the generation, or when heard is older than patience. Then only an answered request replaces it.
type state struct {
	dialed     *link         // the connection that the library uses
	link       *link         // the same once it can be used for requests
	identified bool          // the library knows our credentials, and repeats them on each connection
	rejected   bool          // the server demands an identity, or refuses ours
	complained time.Time     // when complain last logged a message; zero: not on this connection
	id         int64         // of the session
	timeout    time.Duration // as granted by the server
	alive      time.Time     // when the latest request or greeting was sent that was answered
	heard      time.Time     // when the latest request was sent that was answered; at first, when the generation began
	outage     context.Context
	endOutage  context.CancelCauseFunc
}

func newGeneration(s *Session) *generation {
	g := &generation{s: s}
	g.heard, g.identified = time.Now(), len(s.config.Credentials) == 0
	g.over, g.end = context.WithCancelCause(context.Background())
	g.outage, g.endOutage = context.WithCancelCause(g.over)
	g.route = &route{over: g.over}
	return g
}

// now returns a copy of the state.
func (g *generation) now() state {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// usable reports whether a request made now can expect a reply soon.
func (s state) usable() bool { return s.link != nil && s.outage.Err() == nil }

// serves reports whether the server has answered a request on l.
func (s state) serves(l *link) bool { return s.heard.After(l.opened) }

// limit returns when the session must not be relied on any more.
func (s state) limit() time.Time { return s.alive.Add(s.timeout * 2 / 3) }

// event handles the library's session events. It is a callback, because the event channel holds only 6 events and the
// library drops those that do not fit. The library's connection loop calls event, so it must not block.
func (g *generation) event(e zk.Event) {
	if e.Type != zk.EventSession { // an event of a watch has a state, too
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch l := g.dialed; e.State {
	case zk.StateHasSession: // the server has accepted the session on l
		continued := g.id != 0
		g.id, g.timeout = g.conn.SessionID(), l.timeout
		if l.opened.After(g.alive) {
			g.alive = l.opened // our greeting was sent after this time, and was answered
		}
		switch {
		case !g.identified:
			g.requests.Go(func() { g.identify(l) })
		case continued:
			time.AfterFunc(renewalTime, func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.use(l)
			})
		default:
			g.use(l)
		}
	case zk.StateExpired:
		g.lose(errServerExpired)
	case zk.StateDisconnected, zk.StateConnecting:
		if l != nil {
			l.Close()
		}
		g.dialed, g.link = nil, nil
	}
}

var errServerExpired = fmt.Errorf("%w: by the ZooKeeper server", lock.ErrExpired)

// renewalTime is how long no request uses a connection that continues a session. In this time the library sets its
// watches again. For that it reads a variable that every reply writes, without a mutex
// (https://github.com/go-zookeeper/zk/pull/35, open since 2020).
const renewalTime = 10 * time.Millisecond

// identify sends the credentials on l, and then lets requests use l. It does this until it has succeeded once: on later
// connections the library sends the credentials by itself, before other requests (samuel/go-zookeeper#139). It forgets
// credentials that were sent and not answered, so no request is made before they are.
func (g *generation) identify(l *link) {
	limit := time.AfterFunc(g.s.config.ConnectTimeout, func() { l.Close() })
	defer limit.Stop()
	for _, credentials := range g.s.config.Credentials {
		if err := g.conn.AddAuth("digest", []byte(credentials)); err != nil {
			g.failed(l.addr, true, err)
			l.Close()
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.identified = true
	g.use(l)
}

// use lets requests use l. g.mu is held.
func (g *generation) use(l *link) {
	if g.dialed == l && g.over.Err() == nil {
		g.link = l
		g.s.changed.signal()
	}
}

// confirmAlive records that a request of that time was answered on l.
func (g *generation) confirmAlive(l *link, sent time.Time) {
	g.route.failed.Store(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.serves(l)
	g.rejected = false
	if sent.After(g.alive) {
		g.alive = sent
	}
	if sent.After(g.heard) {
		g.heard = sent
	}
	if g.outage.Err() != nil && time.Since(g.heard) < patience {
		g.outage, g.endOutage = context.WithCancelCause(g.over)
		first = true
	}
	if first {
		g.complained = time.Time{}
		g.s.config.Logger.Info("zookeeper session connected", "session", g.name(), "timeout", g.timeout)
	}
}

// lose ends the generation, and so all its leases. g.mu is held.
func (g *generation) lose(cause error) {
	if g.over.Err() == nil {
		g.link = nil
		g.end(cause)
		g.s.config.Logger.Warn("zookeeper session lost", "session", g.name(), "cause", cause)
	}
}

// name returns the session's id as the server writes it.
func (s state) name() string { return fmt.Sprintf("%#x", s.id) }

// loss returns why the session must not be relied on any more, or nil. It reads the clock itself: a process that was
// paused for longer than its session may handle an older event, such as the deletion of the node before its own,
// before the timer of monitor fires.
func (g *generation) loss() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expire(time.Now())
	return context.Cause(g.over)
}

// expire ends the generation if its limit has passed. g.mu is held.
func (g *generation) expire(now time.Time) {
	if !g.alive.IsZero() && !now.Before(g.limit()) {
		g.lose(fmt.Errorf("%w: ZooKeeper silent for %v, two thirds of the session timeout", lock.ErrExpired,
			now.Sub(g.alive).Round(time.Millisecond)))
	}
}

// bound returns a context that ends with ctx, or when the session is suspended or lost.
func (g *generation) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	outage := g.now().outage
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(outage, func() { cancel(context.Cause(outage)) })
	return bound, func() { stop(); cancel(nil) }
}

// monitor sends heartbeats until the generation is over, and changes its state if no reply arrives.
//
// The library sends pings, but does not report the replies. So monitor makes its own requests. The server restarts a
// session's timeout when it receives a request, which is after we sent it. Hence with
//
//	alive = when the latest answered request was sent
//
// the server does not expire the session before alive + timeout, rounded up to its next tick. This process gives the
// session up at
//
//	alive + 2/3 timeout
//
// by the monotonic clock. The remaining third is for the work to stop, for clocks that run at different rates, and
// for the delay of followers: a follower reports to the leader, which expires sessions, every half tick. The shortest
// session that a server grants is 2 ticks, of which a third is more than half a tick.
//
// The request is a sync, because a sync goes to the leader. A follower that is cut off from the leader still answers
// reads of sessions that have expired. A heartbeat costs one round trip every 500 ms (a 20th of a session shorter than
// 10 s) and writes nothing.
//
// In three cases the loss is noticed too late, and only the fence helps: a leader that is cut off from its followers
// answers for up to syncLimit ticks; the timer of a paused process fires when the process wakes; the monotonic clock
// of a suspended computer stops.
//
// A connection without a reply for a third of the timeout is closed. This leaves another third to continue the session
// on another server. The library alone would wait for two thirds.
func (g *generation) monitor() {
	answers := make(chan error, 1)
	var link *link     // of the last heartbeat
	var sent time.Time // when it was sent
	asking := false    // it has no answer yet
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		changed := g.s.changed.next()
		wake, on := g.applyLimits(time.Now(), sent, asking)
		if on != nil {
			link, sent, asking = on, time.Now(), true
			g.requests.Go(func() {
				_, err := g.conn.Sync("/")
				answers <- err
			})
		}
		timer.Reset(time.Until(wake))
		select {
		case <-g.s.ctx.Done():
			g.mu.Lock()
			g.lose(lock.ErrClosed)
			g.mu.Unlock()
			return
		case <-g.over.Done():
			return
		case <-changed:
		case <-timer.C:
		case err := <-answers:
			asking = false
			if err == nil {
				g.confirmAlive(link, sent)
			} else if !g.now().serves(link) {
				g.failed(link.addr, true, err)
			}
		}
	}
}

// applyLimits changes the state by the time limits that have passed. It returns when to call it again and, if a
// heartbeat is due, the connection for it. beat is when the last heartbeat was sent; asking is true while it has no
// reply.
func (g *generation) applyLimits(now, beat time.Time, asking bool) (wake time.Time, on *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wake = now.Add(time.Hour)
	// due reports whether t has passed. If not, due makes sure that wake is not later than t.
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
		g.expire(now)
	}
	if g.outage.Err() == nil && due(g.heard.Add(patience)) {
		g.endOutage(errNoConnection)
		g.s.changed.signal()
		g.s.config.Logger.Warn("zookeeper session suspended", "session", g.name())
	}
	if g.link != nil && due(g.alive.Add(g.timeout/3)) {
		g.link.Close()
		g.link = nil
	}
	if g.link == nil || asking {
		return wake, nil
	}
	// The first heartbeat on a connection is due at once: only its reply shows that the server serves us.
	if beat.Before(g.link.opened) || due(beat.Add(min(heartbeatInterval, g.timeout/20))) {
		return wake, g.link
	}
	return wake, nil
}
