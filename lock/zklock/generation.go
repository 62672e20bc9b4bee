package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// State is what a process can know of its ZooKeeper session.
type State int

const (
	// Suspended: not connected, or the server is silent. The session and its leases may still be alive: holders work on,
	// waiters wait for a while.
	Suspended State = iota
	// Connected: heard of a moment ago.
	Connected
	// Lost: expired, or silent for so long that it must be treated so. Its leases are lost.
	Lost
)

// String is the state in Curator's words.
func (s State) String() string { return [...]string{"SUSPENDED", "CONNECTED", "LOST"}[s] }

const (
	// patience is how long a waiter stays with a suspended session. Together with silence: an answer within 2.5 s.
	patience = 1500 * time.Millisecond
	// silence is how old the last proof of life may be before the session counts as suspended; less with short sessions.
	silence = time.Second
	// beatEvery is the time between two proofs of life; less with short sessions.
	beatEvery = 500 * time.Millisecond
)

var (
	errClosed = errors.New("zookeeper session closed by this process")
	errOutage = errors.New("no connection to zookeeper")
)

// A generation is one ZooKeeper session from its first connection to its loss, over any number of connections.
//
// The library begins a new session by itself when the old one has expired, on the same Conn and without a word to
// those who wait for an answer: a request sent for one session may be executed in the next (CURATOR-498, CURATOR-604). Therefore a
// Conn serves one session here, and its dialer refuses to connect once that is over.
type generation struct {
	s      *Session
	conn   *zk.Conn
	events <-chan zk.Event // only to see the end of the library's goroutines; see event
	route  *route
	over   context.Context // ends with the reason when the session must not be relied on any more
	end    context.CancelCauseFunc
	nudge  chan struct{} // wakes attend

	requests sync.WaitGroup
	watching watching
	known    atomic.Pointer[scale] // nil: to be read
	reading  chan struct{}         // one place, for who reads it

	// Guarded by s.mu.
	closed   bool // no more requests
	link     *link
	linked   bool // the server has accepted our session on link
	id       int64
	timeout  time.Duration // as granted by the server
	alive    time.Time     // the session was alive at the server at or after this time
	state    State
	since    time.Time       // of state
	outage   context.Context // ends when the state has been Suspended for patience; replaced when Connected again
	giveUp   context.CancelFunc
	relinked chan struct{} // closed and replaced when a connection was replaced by another
}

func newGeneration(s *Session) *generation {
	g := &generation{
		s: s, nudge: make(chan struct{}, 1), since: time.Now(), relinked: make(chan struct{}), reading: make(chan struct{}, 1),
	}
	g.over, g.end = context.WithCancelCause(context.Background())
	g.outage, g.giveUp = context.WithCancel(context.Background())
	g.route = &route{over: g.over}
	return g
}

// event is the one reader of the library's session events. It is a callback and no reader of the event channel, because that
// holds 6 events and the library drops those that do not fit. It is called from the library's connection loop and must not block.
func (g *generation) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		g.attached()
	case zk.StateExpired:
		g.lose(fmt.Errorf("%w: by the ZooKeeper server", lock.ErrExpired))
	case zk.StateDisconnected, zk.StateConnecting:
		g.detached()
	}
}

func (g *generation) attached() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.id != 0 && g.link.session != g.id {
		g.end(fmt.Errorf("%w: the ZooKeeper session was replaced", lock.ErrExpired)) // not seen; the dialer should prevent it
		return
	}
	again := g.id != 0
	g.id, g.timeout, g.linked = g.link.session, g.link.timeout, true
	g.heard(g.link.opened) // our greeting left after that and was answered
	if again {
		close(g.relinked)
		g.relinked = make(chan struct{})
	}
	g.s.signal()
	g.wake()
}

func (g *generation) detached() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.linked = false
	g.suspend(time.Now())
	g.wake()
}

// heard takes note that the session was alive after sent. s.mu is held.
func (g *generation) heard(sent time.Time) {
	if sent.After(g.alive) {
		g.alive = sent
	}
	if g.state != Suspended || !g.linked || time.Since(g.alive) > g.silence() {
		return
	}
	g.state, g.since = Connected, time.Now()
	if g.outage.Err() != nil {
		g.outage, g.giveUp = context.WithCancel(context.Background())
	}
	g.s.log.Info("zookeeper session connected", "session", fmt.Sprintf("%#x", g.id), "timeout", g.timeout)
}

// suspend is for when the session may or may not be alive. s.mu is held.
func (g *generation) suspend(now time.Time) {
	if g.state == Connected {
		g.state, g.since = Suspended, now
		g.s.log.Warn("zookeeper session suspended", "session", fmt.Sprintf("%#x", g.id))
	}
}

// lose ends the generation; all its leases are told.
func (g *generation) lose(cause error) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.ended(cause)
}

func (g *generation) ended(cause error) {
	if g.state == Lost {
		return
	}
	g.state, g.since, g.linked = Lost, time.Now(), false
	g.end(cause)
	g.s.log.Warn("zookeeper session lost", "session", fmt.Sprintf("%#x", g.id), "cause", cause)
}

// silence is how old the last proof of life of a connected session may be.
func (g *generation) silence() time.Duration { return min(silence, g.timeout/4) }

func (g *generation) wake() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}

// bound is ctx, ended also by the loss of the session and by an outage.
func (g *generation) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	g.s.mu.Lock()
	outage := g.outage
	g.s.mu.Unlock()
	bound, cancel := context.WithCancelCause(ctx)
	over := context.AfterFunc(g.over, func() { cancel(context.Cause(g.over)) })
	out := context.AfterFunc(outage, func() { cancel(errOutage) })
	return bound, func() { over(); out(); cancel(nil) }
}
