//go:build unix && !linux

package app

import "net"

// takeBacklog leaves the backlog to the listener's Close, which resets its connections. On Linux they are served.
func takeBacklog(*net.TCPListener) []net.Conn { return nil }
