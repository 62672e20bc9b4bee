package wire

import "sync"

// An Action is what happens to the message that springs a trap.
type Action int

// The actions. CutReply, HoldReply and Vanish are of requests only.
const (
	Cut       Action = iota // the connection breaks instead: a request that the server never saw, or a reply that got lost
	CutReply                // the server sees the request and answers; the connection breaks instead of the reply
	Hold                    // kept back, and all behind it in this direction, until the snare is released
	HoldReply               // the server sees the request; its reply is kept back until the snare is released
	Vanish                  // as HoldReply, and the server is not told that the client has gone, until the snare is released
)

// A Trap waits for one message.
type Trap struct {
	On    Direction
	Match func(message []byte) bool // nil: every message but the protocol's chatter
	Skip  int                       // so many that match pass first
	Do    Action
}

// A Snare is a trap that was set. It springs once.
type Snare struct {
	trap     Trap
	sprung   chan struct{}
	released chan struct{}
	once     sync.Once
}

// Set sets a trap for messages that are forwarded from now on. Of several that match the same message the oldest has it.
func (p *Proxy) Set(t Trap) *Snare {
	s := &Snare{trap: t, sprung: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snares = append(p.snares, s)
	return s
}

// Sprung is closed when the message has come. Of one that is held this means that it is being held.
func (s *Snare) Sprung() <-chan struct{} { return s.sprung }

// Release lets what is held go on, or takes the trap away if it has not sprung. It is idempotent.
func (s *Snare) Release() { s.once.Do(func() { close(s.released) }) }

// spring finds the snare for a message and counts it. p.mu is held.
func (p *Proxy) spring(d Direction, message []byte, chatter bool) *Snare {
	for i, s := range p.snares {
		if s.trap.On != d || (s.trap.Match == nil && chatter) || (s.trap.Match != nil && !s.trap.Match(message)) {
			continue
		}
		select {
		case <-s.released:
			continue // taken away
		default:
		}
		if s.trap.Skip > 0 {
			s.trap.Skip--
			continue
		}
		p.snares = append(p.snares[:i:i], p.snares[i+1:]...)
		close(s.sprung)
		return s
	}
	return nil
}
