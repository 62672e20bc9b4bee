// Package zklock locks keys with ZooKeeper nodes that live as long as the session of the process that made them.
package zklock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// Defaults of a Config.
const (
	DefaultSessionTimeout = 10 * time.Second
	DefaultConnectTimeout = time.Second
	DefaultRoot           = "/stock/locks"
)

// A Config says which ensemble, and how. The zero value of a field is its default.
type Config struct {
	Hosts          []string      // servers of one ensemble, host or host:port; the port is 2181 unless given. Required
	SessionTimeout time.Duration // how long the server keeps our nodes without hearing of us; it may grant another. 10 s
	ConnectTimeout time.Duration // for one TCP connection, and for Acquire to wait for any. 1 s
	Root           string        // the node under which every key has a folder. "/stock/locks"
	Logger         *slog.Logger  // what happens to the session; the library's own words at debug level. None
}

// A Session is this process's presence in ZooKeeper, for any number of locks. It connects by itself, and when a ZooKeeper session
// is lost it begins another one: a generation. Leases belong to a generation and are lost with it, all at once; nothing of an old
// generation comes back, not even if the server turns out to have kept it alive. It is safe for concurrent use.
type Session struct {
	config Config
	log    *slog.Logger
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	owned  sync.WaitGroup // every goroutine that outlives a call
	debris debris

	mu      sync.Mutex // guards what changes in a generation, too
	current *generation
	changed chan struct{} // closed and replaced when current can be used, or is another
}

// Dial makes a Session. It does not wait for a server: one that is down is used within 2 s of its return, or within 3 ConnectTimeouts and
// 2 s if our greeting came while it started and it never answers that, as happens once in a hundred starts. An error is a mistake in config.
func Dial(config Config) (*Session, error) {
	if config.SessionTimeout <= 0 {
		config.SessionTimeout = DefaultSessionTimeout
	}
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = DefaultConnectTimeout
	}
	if config.Root == "" {
		config.Root = DefaultRoot
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if len(config.Hosts) == 0 {
		return nil, errors.New("zookeeper: no hosts are given")
	}
	if err := checkRoot(config.Root); err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	config.Root = strings.TrimSuffix(config.Root, "/")
	s := &Session{config: config, log: config.Logger, changed: make(chan struct{})}
	s.debris.found = make(chan struct{}, 1)
	s.ctx, s.stop = context.WithCancel(context.Background())
	first, err := s.begin()
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	s.owned.Go(func() { s.run(first) })
	s.owned.Go(s.sweep)
	return s, nil
}

// Close ends the ZooKeeper session. Every lease of it is lost and then removed at once. It returns when nothing of the Session
// runs any more: at once, or within some 2 s if the server does not answer.
func (s *Session) Close() error {
	s.stop()
	s.owned.Wait()
	return nil
}

// Check asks the server for one round trip, for a health probe. Its error is a lock.DownError, or ctx's if no answer came in time.
func (s *Session) Check(ctx context.Context) error {
	s.mu.Lock()
	g, linked := s.current, s.current.linked
	s.mu.Unlock()
	if !linked {
		return errNoConnection
	}
	_, err := ask(ctx, g, 0, func() (string, error) { return g.conn.Sync("/") }, nil)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("ask zookeeper: %w", context.Cause(ctx))
	default:
		return errNoConnection
	}
}

// State is what is known of the current ZooKeeper session. A lost one is replaced at once by one that is not yet connected.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.state
}

// errNoConnection says all that is safe to show; the reasons are in the log.
var errNoConnection = &lock.DownError{Server: "zookeeper", Reason: "no server of the ensemble accepts our session"}

// run keeps one generation alive after another until Close. A generation that cannot connect is not given up: only one that had
// a session can lose it, so this loop needs no back-off of its own.
func (s *Session) run(g *generation) {
	for {
		g.attend()
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
			s.log.Error("zookeeper cannot be used", "error", err) // the same settings worked before: unreachable
			select {
			case <-s.ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// begin starts a generation and makes it the current one.
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
// After Close the ZooKeeper session is closed in good form, which removes its nodes. After a loss it is not: work that
// has just been told to stop gets the time that the server still keeps its nodes. What is ours is deleted by the next
// generation as soon as each piece of work gives its lease back; the rest goes when the server expires the session. The
// library must not speak for the old session again, or would keep it alive: its connection is cut first, and it gets no other.
func (s *Session) retire(g *generation) {
	s.mu.Lock()
	g.closed = true
	link := g.link
	s.mu.Unlock()
	if s.ctx.Err() == nil && link != nil {
		link.Close()
	}
	s.owned.Go(func() {
		g.conn.Close() // asks the server if it can, for at most a second
		if link != nil {
			link.Close()
		}
		for range g.events { // closed when the library's goroutines have ended
		}
		g.requests.Wait()
	})
}

// usable waits for a generation with a connection: not at all if there is one, and for ConnectTimeout at most.
func (s *Session) usable(ctx context.Context) (*generation, error) {
	var timeout <-chan time.Time
	for {
		s.mu.Lock()
		g, linked, changed := s.current, s.current.linked, s.changed
		outage := g.outage
		s.mu.Unlock()
		if linked && g.over.Err() == nil {
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
			return nil, errNoConnection
		case <-timeout:
			return nil, errNoConnection
		case <-ctx.Done():
			return nil, errors.Join(errNoConnection, context.Cause(ctx))
		case <-s.ctx.Done():
			return nil, errors.Join(errNoConnection, errClosed)
		}
	}
}

// signal wakes those who wait for a usable generation. s.mu is held.
func (s *Session) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// A debugLog is where the library's log goes.
type debugLog struct{ *slog.Logger }

// Printf is the library's only way to log.
func (l debugLog) Printf(format string, args ...any) {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		l.Debug("zookeeper client: " + fmt.Sprintf(format, args...))
	}
}
