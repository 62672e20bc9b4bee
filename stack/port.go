package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Where ports are looked for: below the range from which the kernel serves outgoing connections (32768 and up on Linux, 49152
// and up on macOS). A port from ":0" lies in that range, and after a server is killed any client's connection may take it, even the
// one that tries to reach the dead server: then the restart on the same port fails. The fault lab does that all day.
const (
	portsFrom = 20000
	portsTo   = 32000
	portTries = 200
)

// claim finds a port of 127.0.0.1 on which nothing listens, one of preferred if possible, and keeps every other stack off it until
// Stop, also those of other processes and also while the server on it is dead: otherwise an instance of another stack, which has the
// same name, may listen there when ours comes back, and be taken for it. A program that is no stack knows of no claim: whoever starts
// a server on the port must be ready to try again.
//
// The claim is a UDP socket bound to the same number. No server here uses UDP, a killed process leaves none behind, and it works on
// every system, which a file of locks or a name in a socket's namespace would not.
func (s *Stack) claim(preferred ...int) (int, error) {
	for _, port := range preferred {
		if s.claimed(port) {
			return port, nil
		}
	}
	for range portTries {
		if port := portsFrom + rand.IntN(portsTo-portsFrom); s.claimed(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: none on 127.0.0.1 from " + strconv.Itoa(portsFrom) + " to " + strconv.Itoa(portsTo))
}

func (s *Stack) claimed(port int) bool {
	claim, err := net.ListenPacket("udp", local(port))
	if err != nil {
		return false
	}
	if !free(port) {
		claim.Close()
		return false
	}
	s.mu.Lock()
	s.claims = append(s.claims, claim)
	s.mu.Unlock()
	return true
}

// disclaim gives all ports back.
func (s *Stack) disclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, claim := range s.claims {
		claim.Close()
	}
	s.claims = nil
}

func free(port int) bool {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
