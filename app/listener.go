package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections closes the listener of an instance and its connections so that no request is lost: a load balancer that
// gets no reply to an order answers 502, and the client cannot know the outcome.
//
// http.Server.Shutdown loses a request that arrives on an idle connection while it closes this connection, drops a
// request that it reads after the call (net/http, conn.serve), and resets connections that only the kernel has
// accepted. So it is called only when all connections are closed.
type connections struct {
	listener net.Listener

	mu     sync.Mutex
	states map[net.Conn]http.ConnState
	last   time.Time // when the last request arrived
}

func newConnections(l net.Listener) *connections {
	return &connections{listener: l, states: make(map[net.Conn]http.ConnState)}
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.states, conn)
		return
	case http.StateActive:
		c.last = time.Now()
	}
	c.states[conn] = state
}

// serveBacklog closes the listener, and serves the connections that the kernel had accepted before. Later connections
// are refused, so that a load balancer can try another instance.
func (c *connections) serveBacklog(server *http.Server) {
	if tcp, ok := c.listener.(*net.TCPListener); ok {
		// Serve returns after the last connection of the backlog.
		_ = serve(server, &backlogListener{Listener: c.listener, backlog: takeBacklog(tcp)})
	}
	_ = c.listener.Close()
}

// drain waits until every connection is closed, or until no request has been in progress or arrived for the time quiet,
// but at most for limit. While the instance drains, each connection closes after its next reply, so the connections of
// a busy load balancer soon close. The connections of an idle load balancer stay open, and a request can still be lost
// if it arrives just when its connection is closed.
func (c *connections) drain(quiet, limit time.Duration) {
	for began := time.Now(); time.Since(began) < limit; time.Sleep(5 * time.Millisecond) {
		open, busy, last := c.state()
		if open == 0 || !busy && time.Since(began) >= quiet && time.Since(last) >= quiet {
			return
		}
	}
}

// state returns the number of open connections, whether one has a request, and when the last request arrived.
func (c *connections) state() (open int, busy bool, last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		busy = busy || state == http.StateActive
	}
	return len(c.states), busy, c.last
}

// A backlogListener accepts a fixed list of connections.
type backlogListener struct {
	net.Listener
	backlog []net.Conn
}

func (l *backlogListener) Accept() (net.Conn, error) {
	if len(l.backlog) == 0 {
		return nil, net.ErrClosed
	}
	next := l.backlog[0]
	l.backlog = l.backlog[1:]
	return next, nil
}

// serve serves connections of a listener, with TLS if the server has a configuration for it.
func serve(server *http.Server, l net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

func (a *App) listen() (err error) {
	if a.secure, err = a.serverTLS("tls.", a.cfg.TLS); err != nil {
		return err
	}
	if a.secureOperators, err = a.serverTLS("admin.tls.", a.cfg.Admin.TLS); err != nil {
		return err
	}
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // which Go prefers, and takeBacklog does not know
	if a.listener, err = plain.Listen(context.Background(), "tcp", a.cfg.Addr); err != nil {
		return failure("listen", "why", err)
	}
	a.connections = newConnections(a.listener)
	if a.cfg.Admin.Addr == "" {
		return nil
	}
	if a.operators, err = net.Listen("tcp", a.cfg.Admin.Addr); err != nil {
		_ = a.listener.Close()
		return failure("listen-operators", "why", err)
	}
	return nil
}

func (a *App) closeListeners() error {
	err := a.listener.Close()
	if a.operators != nil {
		err = errors.Join(err, a.operators.Close())
	}
	return err
}

// MeasureLog adds the number of lines that w has dropped to the metrics. Call it once, before Run.
func (a *App) MeasureLog(w *LogWriter) { a.metrics.Log(w.Dropped) }

// Addr returns the address of the listener for clients.
func (a *App) Addr() net.Addr { return a.listener.Addr() }
