//go:build unix && !linux

package app

import "net"

// takeBacklog does nothing, so the listener's Close resets the connections of the backlog. On Linux these connections
// are served.
func takeBacklog(*net.TCPListener) []net.Conn { return nil }
