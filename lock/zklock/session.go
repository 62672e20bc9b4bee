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
	"example.com/stock/lock/driver"
)

// A Session connects this process to ZooKeeper, for any number of locks. It connects by itself. When a ZooKeeper
// session is lost it begins another one. Each of these sessions is a generation. Leases belong to a generation and
// are lost with it, all at once. A lost generation is never used again, even if the server has kept its session
// alive. A Session is safe for concurrent use.
type Session struct {
	config Config
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	owned  sync.WaitGroup // the goroutines that Close waits for
	life   *driver.Life

	current atomic.Pointer[generation]
	// changed signals that current is another generation, has another connection or none, or that ctx has ended.
	changed broadcast
}

// Dial makes a Session. It does not wait for a server. A server that returns is used within 2 s. In rare cases a
// starting server receives a greeting and never answers it; then this takes up to 3 ConnectTimeouts longer. An error
// means that config is wrong.
func Dial(config Config) (*Session, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	s := &Session{config: config, life: driver.NewLife()}
	s.changed.ch = make(chan struct{})
	s.ctx, s.stop = context.WithCancel(context.Background())
	first, err := s.begin()
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	s.owned.Go(func() { s.run(first) })
	return s, nil
}

// Close ends the waits, with lock.ErrClosed, and the ZooKeeper session. All its leases are lost, and then all its nodes
// are removed. Close returns when all goroutines of the Session have ended: at once, or after some 2 s if the server
// does not answer.
func (s *Session) Close() error {
	s.life.Close()
	s.stop()
	s.changed.signal()
	s.owned.Wait()
	return nil
}

// Check makes one round trip to the server, for a health probe. It waits up to reconnectTime for a broken connection
// to be replaced, because holders and waiters survive that, too. The error is a driver.DownError, or the cause of ctx
// if no reply arrived in time.
func (s *Session) Check(ctx context.Context) error {
	connected, cancel := context.WithTimeout(ctx, reconnectTime)
	defer cancel()
	for {
		g, err := s.usable(connected)
		if err == nil {
			_, err = ask(ctx, g, 0, "/", "read", func() (string, error) { return g.conn.Sync("/") })
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("ask zookeeper: %w", context.Cause(ctx))
		case answered(err):
			return s.down(err)
		case connected.Err() != nil || errors.Is(err, lock.ErrDown):
			return s.noConnection()
		}
		// The connection or the session has just ended, as after the process stood still. The next one may serve.
	}
}

// run begins one generation after another until Close. A generation that cannot connect keeps trying. This loop needs
// no back-off, because a generation ends only after it has had a session.
func (s *Session) run(g *generation) {
	for {
		g.monitor()
		s.retire(g)
		if s.ctx.Err() != nil {
			return
		}
		g, _ = s.begin() // the same settings worked before
	}
}

func (s *Session) begin() (*generation, error) {
	g := newGeneration(s)
	g.mu.Lock() // the library calls event before conn is set
	defer g.mu.Unlock()
	conn, events, err := zk.Connect(s.config.Hosts, s.config.SessionTimeout,
		zk.WithDialer(g.dial), zk.WithHostProvider(g.route), zk.WithEventCallback(g.event),
		zk.WithLogger(slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug)), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	g.conn, g.events = conn, events
	s.current.Store(g)
	s.changed.signal()
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
	dialed := g.now().dialed
	if s.ctx.Err() == nil && dialed != nil {
		dialed.Close()
	}
	s.owned.Go(func() {
		g.conn.Close() // sends a request to the server if possible, for at most a second
		if dialed != nil {
			dialed.Close()
		}
		for range g.events { // closed when the library's goroutines have ended
		}
		g.requests.Wait()
	})
}

// usable waits for the current generation to have a connection, for at most ConnectTimeout, and returns it. In an
// outage it does not wait, and does not use a connection before the server has answered a request on it.
func (s *Session) usable(ctx context.Context) (*generation, error) {
	if g := s.current.Load(); g.now().usable() {
		return g, nil
	}
	limited, cancel := context.WithTimeout(ctx, s.config.ConnectTimeout)
	defer cancel()
	for {
		changed := s.changed.next()
		g := s.current.Load()
		now := g.now()
		outage := now.outage.Err() != nil && g.over.Err() == nil // otherwise the next generation begins at once
		switch {
		case now.usable():
			return g, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("no connection to ZooKeeper yet: %w", context.Cause(ctx)) // the server may be up
		case outage, limited.Err() != nil, s.ctx.Err() != nil:
			return nil, s.noConnection()
		}
		select {
		case <-changed:
		case <-limited.Done():
		}
	}
}

// reconnectTime is how long a health probe waits for a connection. It is half of the probe's time limit, so that the
// probe reports within a second that a server accepts no connection.
const reconnectTime = 400 * time.Millisecond

// A broadcast wakes all who wait for a change. They get the channel before they look at what may change.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that the next signal closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
