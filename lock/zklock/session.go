package zklock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// A Session connects this process to ZooKeeper, for any number of locks. It connects by itself. When a ZooKeeper
// session is lost it begins another one. Each of these sessions is a generation. Leases belong to a generation and
// are lost with it, all at once. A lost generation is never used again, even if the server has kept its session
// alive. A Session is safe for concurrent use.
type Session struct {
	config  Config
	log     *slog.Logger
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	owned   sync.WaitGroup // the goroutines that Close waits for
	orphans orphans
	auth    []byte       // sent at the begin of each connection
	denied  atomic.Int64 // when a denial was logged last, in nanoseconds since 1970; see logDenial

	mu      sync.Mutex // also guards what changes in a generation
	unknown bool       // the server demands an identity, or refuses ours; false when Connected
	current *generation
	changed chan struct{} // closed and replaced when current becomes usable or changes
}

var (
	errClosed = errors.New("zookeeper session closed by this process")
	errOutage = errors.New("no connection to zookeeper")

	// errNoConnection is safe to show. The reasons are in the log.
	errNoConnection = lock.NewDown("zookeeper", "no-session")
	// errNoIdentity: the server knows no identity of this process, and does not serve it without one.
	errNoIdentity = lock.NewDown("zookeeper", "wants-authentication")
)

// Dial makes a Session. It does not wait for a server. A server that returns is used within 2 s. In rare cases a
// starting server receives a greeting and never answers it; then this takes up to 3 ConnectTimeouts longer. An error
// means that config is wrong.
func Dial(config Config) (*Session, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	s := &Session{config: config, log: config.Logger, changed: make(chan struct{})}
	s.auth = authRequests(config.Credentials)
	s.orphans.added = make(chan struct{}, 1)
	s.ctx, s.stop = context.WithCancel(context.Background())
	first, err := s.begin()
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	s.owned.Go(func() { s.run(first) })
	s.owned.Go(s.deleteOrphans)
	return s, nil
}

// Close ends the ZooKeeper session. All its leases are lost, and then all its nodes are removed. Close returns when all
// goroutines of the Session have ended: at once, or after some 2 s if the server does not answer.
func (s *Session) Close() error {
	s.stop()
	s.owned.Wait()
	return nil
}

// Check makes one round trip to the server, for a health probe. It waits up to reconnectTime for a broken connection
// to be replaced, because holders and waiters survive that, too. The error is a lock.DownError, or the cause of ctx
// if no reply arrived in time.
func (s *Session) Check(ctx context.Context) error {
	connected, cancel := context.WithTimeout(ctx, reconnectTime)
	defer cancel()
	for {
		g, err := s.usable(connected)
		if err == nil {
			_, err = ask(ctx, g, 0, func() (string, error) {
				path, err := g.conn.Sync("/")
				return path, replied("/", "read", err)
			}, nil)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("ask zookeeper: %w", context.Cause(ctx))
		case answered(err):
			return s.refused(err)
		case connected.Err() != nil || errors.Is(err, lock.ErrDown):
			return s.noConnection()
		}
	}
}

// State returns the state of the current ZooKeeper session. A lost session is replaced at once by one that is not
// connected yet.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.state
}

// now returns the current generation, and whether it has a connection.
func (s *Session) now() (g *generation, linked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.current.linked
}

// run begins one generation after another until Close. A generation that cannot connect keeps trying. This loop needs
// no back-off, because a generation ends only after it has had a session.
func (s *Session) run(g *generation) {
	for {
		g.monitor()
		s.retire(g)
		for {
			if s.ctx.Err() != nil {
				return
			}
			next, err := s.begin()
			if err == nil {
				g = next
				break
			}
			s.log.Error("zookeeper cannot be used", "error", err) // unexpected: the same settings worked before
			select {
			case <-s.ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (s *Session) begin() (*generation, error) {
	g := newGeneration(s)
	conn, events, err := zk.Connect(s.config.Hosts, s.config.SessionTimeout,
		zk.WithDialer(g.dial), zk.WithHostProvider(g.route), zk.WithEventCallback(g.event),
		zk.WithLogger(debugLog{s.log}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	g.conn, g.events = conn, events
	s.mu.Lock()
	s.current = g
	s.signal()
	s.mu.Unlock()
	return g, nil
}

// retire ends the library's part of a generation that is over.
//
// After Close, a request ends the ZooKeeper session, and its nodes are removed. After a loss no request is sent: work
// whose ctx has just ended needs time to stop, and the server should keep the nodes for this time. When a holder
// releases its lease, the next generation deletes the node. The other nodes are removed when the server expires the
// session. The library must not send anything for the old session, because that would keep the session alive. So its
// connection is closed first, and it gets no new one.
func (s *Session) retire(g *generation) {
	s.mu.Lock()
	g.closed = true
	link := g.link
	s.mu.Unlock()
	if s.ctx.Err() == nil && link != nil {
		link.Close()
	}
	s.owned.Go(func() {
		g.conn.Close() // sends a request to the server if possible, for at most a second
		if link != nil {
			link.Close()
		}
		for range g.events { // closed when the library's goroutines have ended
		}
		g.requests.Wait()
	})
}

// usable waits for the current generation to have a connection, for at most ConnectTimeout, and returns it. In an
// outage it does not wait, and does not use a connection before the server has answered a request on it.
func (s *Session) usable(ctx context.Context) (*generation, error) {
	var timeout <-chan time.Time
	for {
		s.mu.Lock()
		g, linked, changed := s.current, s.current.linked, s.changed
		outage := g.outage
		s.mu.Unlock()
		if linked && g.over.Err() == nil && outage.Err() == nil {
			return g, nil
		}
		if timeout == nil {
			timer := time.NewTimer(s.config.ConnectTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-outage.Done():
			return nil, s.noConnection()
		case <-timeout:
			return nil, s.noConnection()
		case <-ctx.Done():
			return nil, fmt.Errorf("no connection to ZooKeeper yet: %w", context.Cause(ctx)) // the server may be up
		case <-s.ctx.Done():
			return nil, errors.Join(errNoConnection, errClosed)
		}
	}
}

// noConnection returns why there is no usable connection.
func (s *Session) noConnection() *lock.DownError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown {
		return errNoIdentity
	}
	return errNoConnection
}

// signal wakes the callers that wait for a usable generation. s.mu is held.
func (s *Session) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// A State is the state of a ZooKeeper session, as far as this process knows.
type State int

const (
	// Suspended: not connected, or the server does not answer. The session and its leases may still be alive. Holders
	// continue their work. Waiters keep their place for 1.5 s.
	Suspended State = iota
	// Connected: the server has answered a request within the last second.
	Connected
	// Lost: expired, or without a reply for so long that it must be treated as expired. Its leases are lost.
	Lost
)

// String returns Curator's name of the state.
func (s State) String() string { return [...]string{"SUSPENDED", "CONNECTED", "LOST"}[s] }

const (
	// gracePeriod is how long a waiter keeps its place in a suspended session. Together with maxSilence, a waiter gets
	// its error within 2.5 s.
	gracePeriod = 1500 * time.Millisecond
	// maxSilence is how old the last answered heartbeat may be before the session counts as suspended. It is less for
	// short sessions.
	maxSilence = time.Second
	// reconnectTime is how long a health probe waits for a connection. It is half of the probe's time limit, so that
	// the probe reports within a second that a server accepts no connection.
	reconnectTime = 400 * time.Millisecond
	// heartbeatInterval is the time between two heartbeats. It is less for short sessions.
	heartbeatInterval = 500 * time.Millisecond
)

// A generation is one ZooKeeper session from its first connection to its loss, over any number of connections. The
// recipes make their requests and set their watches through it.
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
	recheck  chan struct{} // wakes monitor
	requests sync.WaitGroup
	watches  watches
	record   atomic.Pointer[fenceRecord] // nil: not read yet
	reading  chan struct{}               // has room for one: the goroutine that reads the record

	// Guarded by s.mu.
	closed      bool // no more requests
	link        *link
	linked      bool // the server has accepted our session on link
	id          int64
	timeout     time.Duration // as granted by the server
	alive       time.Time     // the server has kept the session alive until this time at least
	state       State
	since       time.Time       // of state
	outage      context.Context // ends when Suspended for gracePeriod; replaced when Connected again
	endWaits    context.CancelFunc
	reconnected chan struct{} // closed and replaced when the connection has been replaced by another
}

func newGeneration(s *Session) *generation {
	g := &generation{
		s: s, since: time.Now(),
		recheck: make(chan struct{}, 1), reading: make(chan struct{}, 1), reconnected: make(chan struct{}),
	}
	g.over, g.end = context.WithCancelCause(context.Background())
	g.outage, g.endWaits = context.WithCancel(context.Background())
	g.route = &route{over: g.over}
	return g
}

// event handles the library's session events. It is a callback, because the event channel holds only 6 events and the
// library drops those that do not fit. The library's connection loop calls event, so it must not block.
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
		// The dialer should have prevented a second session on this Conn.
		g.end(fmt.Errorf("%w: the ZooKeeper session was replaced", lock.ErrExpired))
		return
	}
	again := g.id != 0
	g.id, g.timeout, g.linked = g.link.session, g.link.timeout, true
	if g.link.opened.After(g.alive) {
		g.alive = g.link.opened // our greeting was sent after this time, and was answered
	}
	if again {
		close(g.reconnected)
		g.reconnected = make(chan struct{})
	}
	g.s.signal()
	g.wakeMonitor()
}

func (g *generation) detached() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.linked = false
	g.suspend(time.Now())
	g.wakeMonitor()
}

// confirmAlive records that a request of that time was answered. s.mu is held.
func (g *generation) confirmAlive(sent time.Time) {
	if sent.After(g.alive) {
		g.alive = sent
	}
	if g.state != Suspended || !g.linked || time.Since(g.alive) > g.maxSilence() {
		return
	}
	g.state, g.since, g.s.unknown = Connected, time.Now(), false
	if g.outage.Err() != nil {
		g.outage, g.endWaits = context.WithCancel(context.Background())
	}
	g.s.log.Info("zookeeper session connected", "session", fmt.Sprintf("%#x", g.id), "timeout", g.timeout)
}

// suspend records that the session may not be alive. s.mu is held.
func (g *generation) suspend(now time.Time) {
	if g.state == Connected {
		g.state, g.since = Suspended, now
		g.s.log.Warn("zookeeper session suspended", "session", fmt.Sprintf("%#x", g.id))
	}
}

// lose ends the generation, and so all its leases.
func (g *generation) lose(cause error) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.loseLocked(cause)
}

func (g *generation) loseLocked(cause error) {
	if g.state == Lost {
		return
	}
	g.state, g.since, g.linked = Lost, time.Now(), false
	g.end(cause)
	g.s.log.Warn("zookeeper session lost", "session", fmt.Sprintf("%#x", g.id), "cause", cause)
}

// loss returns why the session must not be relied on any more, or nil. It reads the clock itself: a process that was
// paused for longer than its session may handle an older event, such as the deletion of the node before its own,
// before the timer of monitor fires.
func (g *generation) loss() error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if now := time.Now(); !g.alive.IsZero() && !now.Before(g.limit()) {
		g.expire(now)
	}
	return context.Cause(g.over)
}

// limit returns when the session must not be relied on any more. s.mu is held.
func (g *generation) limit() time.Time { return g.alive.Add(g.timeout * 2 / 3) }

// expire ends a generation whose limit has passed. s.mu is held.
func (g *generation) expire(now time.Time) {
	g.loseLocked(fmt.Errorf("%w: ZooKeeper silent for %v, two thirds of the session timeout", lock.ErrExpired,
		now.Sub(g.alive).Round(time.Millisecond)))
}

// maxSilence returns how old the last answered heartbeat of a connected session may be. s.mu is held.
func (g *generation) maxSilence() time.Duration { return min(maxSilence, g.timeout/4) }

// bound returns a context that ends with ctx, with the loss of the session, or with an outage.
func (g *generation) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	g.s.mu.Lock()
	outage := g.outage
	g.s.mu.Unlock()
	bound, cancel := context.WithCancelCause(ctx)
	over := context.AfterFunc(g.over, func() { cancel(context.Cause(g.over)) })
	out := context.AfterFunc(outage, func() { cancel(errOutage) })
	return bound, func() { over(); out(); cancel(nil) }
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
	type answer struct {
		sent time.Time
		err  error
	}
	answers := make(chan answer, 1)
	asking := false
	var last time.Time
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wake, due := g.applyLimits(time.Now(), last, asking)
		if due && g.beginRequest() {
			last, asking = time.Now(), true
			sent := last
			go func() {
				defer g.requests.Done()
				_, err := g.conn.Sync("/")
				answers <- answer{sent, err}
			}()
		}
		timer.Reset(time.Until(wake))
		select {
		case <-g.s.ctx.Done():
			g.lose(errClosed)
			return
		case <-g.over.Done():
			return
		case <-g.recheck:
		case <-timer.C:
		case a := <-answers:
			asking = false
			switch a.err {
			case nil:
				g.s.mu.Lock()
				g.confirmAlive(a.sent)
				g.s.mu.Unlock()
			case zk.ErrSessionExpired:
				g.lose(fmt.Errorf("%w: by the ZooKeeper server", lock.ErrExpired))
				return
			}
		}
	}
}

// applyLimits changes the state by the time limits that have passed. It returns when to call it again, and whether a
// heartbeat is due. lastBeat is when the last heartbeat was sent; asking is true while it has no reply.
func (g *generation) applyLimits(now, lastBeat time.Time, asking bool) (wake time.Time, beat bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
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
		return wake, false
	}
	if g.linked {
		if due(g.alive.Add(g.maxSilence())) {
			g.suspend(now)
		}
		if due(g.alive.Add(g.timeout / 3)) {
			g.linked = false
			g.link.Close()
		}
	}
	if g.state == Suspended && g.outage.Err() == nil && due(g.since.Add(gracePeriod)) {
		g.endWaits()
	}
	if !g.linked || asking {
		return wake, false
	}
	// The first heartbeat on a connection is due at once: only its reply shows that the server serves us.
	return wake, lastBeat.Before(g.link.opened) || due(lastBeat.Add(min(heartbeatInterval, g.timeout/20)))
}

func (g *generation) wakeMonitor() {
	select {
	case g.recheck <- struct{}{}:
	default:
	}
}

type debugLog struct{ *slog.Logger }

// Printf is the library's only way to log.
func (l debugLog) Printf(format string, args ...any) {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		l.Debug("zookeeper client: " + fmt.Sprintf(format, args...))
	}
}
