package app

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// takeBacklog stops listening, and returns all connections that the kernel has accepted. Close of the listener would
// take effect only when the goroutine in Accept is scheduled, and reset what the kernel accepts until then. To accept
// none after the last accept4 either, it first ignores new clients: they try again after a second, and are refused.
func takeBacklog(l *net.TCPListener) (list []net.Conn) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(listener uintptr) {
		if ignoreSYN(int(listener)) == nil {
			time.Sleep(time.Millisecond) // handshakes that have begun end
		}
		for {
			fd, _, err := syscall.Accept4(int(listener), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			switch err {
			case nil:
				file := os.NewFile(uintptr(fd), "connection")
				if conn, err := net.FileConn(file); err == nil {
					list = append(list, conn)
				}
				_ = file.Close() // FileConn has a descriptor of its own
			case syscall.EINTR, syscall.ECONNABORTED:
			default: // EAGAIN: there are no more
				_ = syscall.Shutdown(int(listener), syscall.SHUT_RDWR)
				return
			}
		}
	})
	return list
}

// ignoreSYN makes a listener drop the first packet of each handshake: of the TCP header's flags, in byte 13, it has SYN
// (2) without ACK (16). ldb [13]; and #18; jne #2, all; ret #0; all: ret #-1. Not with Multipath TCP.
func ignoreSYN(listener int) error {
	filter := []unix.SockFilter{
		{Code: 0x30, K: 13}, {Code: 0x54, K: 18}, {Code: 0x15, K: 2, Jf: 1}, {Code: 6}, {Code: 6, K: 1<<32 - 1},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.SetsockoptSockFprog(listener, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
}
