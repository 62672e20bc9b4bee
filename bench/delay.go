package main

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A delay is a TCP proxy that holds every byte back for the same time, in both directions, as a longer cable would. It does not
// limit bandwidth, and keeps order.
type delay struct {
	target   string
	listener net.Listener
	lanes    [2]*lane // there and back
	accepts  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// openDelay listens on a free port of 127.0.0.1 and passes on to target what it gets, oneWay later.
func openDelay(target string, oneWay time.Duration) (*delay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delay{target: target, listener: listener, conns: map[net.Conn]struct{}{}}
	for i := range d.lanes {
		d.lanes[i] = openLane(oneWay)
	}
	d.accepts.Go(d.accept)
	return d, nil
}

func (d *delay) addr() string { return d.listener.Addr().String() }

func (d *delay) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", d.target)
		if err != nil {
			client.Close()
			continue
		}
		if !d.keep(client, server) {
			return
		}
		d.accepts.Go(func() { d.lanes[0].carry(client, server) })
		d.accepts.Go(func() { d.lanes[1].carry(server, client) })
	}
}

// keep notes connections for close, or closes them if it has been.
func (d *delay) keep(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range conns {
		if d.closed {
			conn.Close()
			continue
		}
		d.conns[conn] = struct{}{}
	}
	return !d.closed
}

func (d *delay) close() error {
	err := d.listener.Close()
	d.mu.Lock()
	d.closed = true
	for conn := range d.conns {
		conn.Close()
	}
	d.mu.Unlock()
	d.accepts.Wait()
	for _, l := range d.lanes {
		l.close()
	}
	return err
}

// lateness is how much later than it should the proxy passed things on.
func (d *delay) lateness() *hdrhistogram.Histogram {
	all := newHistogram()
	for _, l := range d.lanes {
		l.mu.Lock()
		all.Merge(l.late)
		l.mu.Unlock()
	}
	return all
}

// A lane delays what goes in one direction, on all connections. As the delay is always the same, what came first is due first: one
// queue and one thread are enough. The thread sleeps in the kernel, because a timer of the Go runtime may be a millisecond late
// in a process that has nothing else to do.
type lane struct {
	oneWay time.Duration
	queue  chan parcel
	done   chan struct{}

	order sync.Mutex // makes the order of stamps that of the queue

	mu   sync.Mutex
	late *hdrhistogram.Histogram
}

// A parcel is some bytes for a connection; none: close it.
type parcel struct {
	data []byte
	to   net.Conn
	due  time.Time
}

func openLane(oneWay time.Duration) *lane {
	l := &lane{oneWay: oneWay, queue: make(chan parcel, 1<<16), done: make(chan struct{}), late: newHistogram()}
	go l.deliver()
	return l
}

// carry reads from one connection until it ends, and then has the other closed.
func (l *lane) carry(from, to net.Conn) {
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if n > 0 {
			l.send(parcel{data: data[:n], to: to})
		}
		if err != nil {
			l.send(parcel{to: to})
			return
		}
	}
}

func (l *lane) send(p parcel) {
	l.order.Lock()
	defer l.order.Unlock()
	p.due = time.Now().Add(l.oneWay)
	l.queue <- p
}

func (l *lane) deliver() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.done)
	sharpTimers()
	for p := range l.queue {
		sleepUntil(p.due)
		if len(p.data) == 0 {
			p.to.Close()
			continue
		}
		l.mu.Lock()
		record(l.late, time.Since(p.due))
		l.mu.Unlock()
		// Requests and replies are small: a socket's buffer takes them, so that nobody waits for a slow reader here.
		if _, err := p.to.Write(p.data); err != nil && !errors.Is(err, net.ErrClosed) {
			p.to.Close()
		}
	}
}

// close is for a lane into which nobody sends any more.
func (l *lane) close() {
	close(l.queue)
	<-l.done
}
