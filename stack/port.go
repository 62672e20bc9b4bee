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

// freePort finds a port of 127.0.0.1 on which nothing listens: one of preferred if possible. Another process may snatch it before
// it is used; whoever starts a server on it must be ready to try again.
func freePort(preferred ...int) (int, error) {
	for _, port := range preferred {
		if free(port) {
			return port, nil
		}
	}
	for range portTries {
		if port := portsFrom + rand.IntN(portsTo-portsFrom); free(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: none on 127.0.0.1 from " + strconv.Itoa(portsFrom) + " to " + strconv.Itoa(portsTo))
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
