package wire

import "sync"

// An Action is applied to the message that springs a trap.
type Action int

// The actions. CutReply, HoldReply and Answer are for requests only.
const (
	Cut       Action = iota // the connection breaks, and the message is lost
	CutReply                // the server gets the request; the connection breaks instead of the reply
	Hold                    // the message, and all later ones in this direction, wait for Release
	HoldReply               // the server gets the request; its reply waits for Release
	Answer                  // the server does not get it, and the client gets the result of Trap.Answer as its reply
)

// A Trap waits for one message.
type Trap struct {
	On    Direction
	Match func(message []byte) bool // nil: every message but the protocol's chatter
	Skip  int                       // the number of matches that pass first
	Do    Action
	Every bool // it springs at every match until Release, instead of once; not with actions that hold back

	Answer func(request []byte) []byte // for the action Answer; must return a whole message of the protocol
}

// A Snare is a trap that was set. It springs once, unless Trap.Every is set.
type Snare struct {
	trap     Trap
	sprung   chan struct{}
	spring   sync.Once
	released chan struct{}
	once     sync.Once
}

// Set sets a trap for messages that are forwarded from now on. If several match the same message, the oldest springs.
func (p *Proxy) Set(t Trap) *Snare {
	s := &Snare{trap: t, sprung: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snares = append(p.snares, s)
	return s
}

// Sprung returns a channel that is closed when the message has come. By then, a message for Hold is being held.
func (s *Snare) Sprung() <-chan struct{} { return s.sprung }

// Release forwards what is held. If the trap has not sprung, Release removes it. It is idempotent.
func (s *Snare) Release() { s.once.Do(func() { close(s.released) }) }

// spring returns the snare that a message springs, or nil. It must be called with p.mu held.
func (p *Proxy) spring(d Direction, message []byte, chatter bool) *Snare {
	for i, s := range p.snares {
		if s.trap.On != d || (s.trap.Match == nil && chatter) || (s.trap.Match != nil && !s.trap.Match(message)) {
			continue
		}
		select {
		case <-s.released:
			continue // removed
		default:
		}
		if s.trap.Skip > 0 {
			s.trap.Skip--
			continue
		}
		if !s.trap.Every {
			p.snares = append(p.snares[:i:i], p.snares[i+1:]...)
		}
		s.spring.Do(func() { close(s.sprung) })
		return s
	}
	return nil
}
