package app

import (
	"net"
	"os"
	"syscall"
)

// takeBacklog takes all connections that the kernel has accepted, and stops listening some microseconds later. Without
// it, Close of the listener would take effect only when the goroutine in Accept is scheduled. Until then the kernel
// would accept further connections, and then reset them.
func takeBacklog(l *net.TCPListener) []net.Conn {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	var fds []int
	_ = raw.Control(func(listener uintptr) {
		for {
			fd, _, err := syscall.Accept4(int(listener), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			switch err {
			case nil:
				fds = append(fds, fd)
			case syscall.EINTR, syscall.ECONNABORTED:
			default: // EAGAIN: there are no more
				_ = syscall.Shutdown(int(listener), syscall.SHUT_RDWR)
				return
			}
		}
	})
	var list []net.Conn
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "connection")
		if conn, err := net.FileConn(file); err == nil {
			list = append(list, conn)
		}
		_ = file.Close() // FileConn has a descriptor of its own
	}
	return list
}
