package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// A door is the listener of an instance, and knows who has come in. It closes without hitting anybody: a connection on which a request is
// under way must not be closed, because a load balancer that has sent an order and gets no answer cannot know what became of it, and says
// so (502).
//
// http.Server.Shutdown keeps that promise only for requests that it has handed to their handler. One that comes in on an idle connection as
// that is closed is lost, one that is read after Shutdown was called is dropped (net/http, conn.serve), and a connection that the
// kernel has accepted and the server has not is reset. So it is called when nobody is left.
type door struct {
	net.Listener

	mu    sync.Mutex
	conns map[net.Conn]http.ConnState
	used  time.Time // when a request came last
}

func newDoor(l net.Listener) *door {
	return &door{Listener: l, conns: make(map[net.Conn]http.ConnState)}
}

// watch is for http.Server.ConnState.
func (d *door) watch(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(d.conns, c)
		return
	case http.StateActive:
		d.used = time.Now()
	}
	d.conns[c] = state
}

// shut lets nobody in any more: whoever connects is refused, which a load balancer may answer by trying elsewhere. server serves those who
// were at the door.
func (d *door) shut(server *http.Server) {
	if tcp, ok := d.Listener.(*net.TCPListener); ok {
		_ = server.Serve(&guests{Listener: d.Listener, waiting: lastGuests(tcp)}) // ends when there are no more
	}
	_ = d.Close()
}

// emptied waits until every connection is closed; or until those that are left have no request and there was none for so long as quiet; for
// limit at most. While the instance drains a connection is closed after its next reply, so that those of a load balancer that has work are
// used up, and one that has none sends nothing that could be lost. What is not promised: that the first request after a quiet time does
// not come just when its connection is closed.
func (d *door) emptied(quiet, limit time.Duration) {
	for began := time.Now(); time.Since(began) < limit; time.Sleep(5 * time.Millisecond) {
		open, busy, last := d.inside()
		if open == 0 || !busy && time.Since(began) >= quiet && time.Since(last) >= quiet {
			return
		}
	}
}

// inside is how many connections are open, whether one has a request, and when the last request came.
func (d *door) inside() (open int, busy bool, last time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, state := range d.conns {
		busy = busy || state == http.StateActive
	}
	return len(d.conns), busy, d.used
}

// guests are a listener with a last few connections.
type guests struct {
	net.Listener
	waiting []net.Conn
}

func (g *guests) Accept() (net.Conn, error) {
	if len(g.waiting) == 0 {
		return nil, net.ErrClosed
	}
	next := g.waiting[0]
	g.waiting = g.waiting[1:]
	return next, nil
}
