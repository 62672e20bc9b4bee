package zklock

import (
	"encoding/binary"
	"sync"
	"time"
)

// A renewal lets the library renew its watches on a new connection of an old session before anything else is asked.
//
// The library tells the server since which transaction it has heard nothing, and reads that from a variable that every answer moves on,
// without a lock. If an answer is quicker, a watch misses what happened in between; and the race detector is right to complain.
type renewal struct {
	due bool // the connection continues a session

	mu      sync.Mutex
	greeted bool   // the first request is the greeting
	held    []byte // back, until the watches are renewed
	waits   bool   // the time limit runs
	done    bool
}

// renewalTime is how long requests are held back: only the library knows whether there are watches to renew.
const renewalTime = 50 * time.Millisecond

// Operations of the protocol, and where a request has its own: after its length and its xid.
const (
	opPing       = 11
	opSetWatches = 101
	opClose      = -11
	opAt         = 8
)

// Write sends a request, or keeps it for the time being. The library writes one whole request at a time.
func (l *link) Write(p []byte) (int, error) {
	r := &l.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due || r.done || !r.greeted || len(p) < opAt+4 {
		r.greeted = true
		return l.Conn.Write(p)
	}
	switch int32(binary.BigEndian.Uint32(p[opAt:])) {
	case opPing:
		return l.Conn.Write(p)
	case opSetWatches:
		r.done = true
		n, err := l.Conn.Write(p)
		if err == nil && len(r.held) > 0 {
			_, err = l.Conn.Write(r.held)
		}
		return n, err
	case opClose:
		r.done = true
		if _, err := l.Conn.Write(r.held); err != nil {
			return 0, err
		}
		return l.Conn.Write(p)
	}
	r.held = append(r.held, p...)
	if !r.waits {
		r.waits = true
		time.AfterFunc(renewalTime, l.goOn)
	}
	return len(p), nil
}

// goOn sends what was held back: there is nothing to renew.
func (l *link) goOn() {
	r := &l.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	if _, err := l.Conn.Write(r.held); err != nil {
		l.Close() // the library sees that at its next request or answer
	}
}
