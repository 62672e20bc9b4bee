package app

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// Between the last connection that is taken from the backlog and the end of the listener, the kernel accepts none: it
// could only reset it, and with it a request. Handshakes that have begun are not disturbed.
func TestNobodyIsAcceptedAndReset(t *testing.T) {
	t.Parallel()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	listener, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	early, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ignored error
	err = raw.Control(func(fd uintptr) { ignored = ignoreSYN(int(fd)) })
	if errors.Is(ignored, syscall.EPERM) && os.Geteuid() != 0 {
		t.Skip("an ordinary user may have no filter here: then the moment between two calls remains")
	}
	if err != nil || ignored != nil {
		t.Fatal(err, ignored)
	}
	late := make(chan error, 1)
	go func() {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			conn.Close()
		}
		late <- err
	}()
	select {
	case err := <-late:
		t.Errorf("a client that came too late: %v, want that it waits", err)
		late <- err
	case <-time.After(300 * time.Millisecond):
	}
	for _, conn := range takeBacklog(listener.(*net.TCPListener)) {
		defer conn.Close()
		if conn.RemoteAddr().String() != early.LocalAddr().String() {
			t.Errorf("%s is in the backlog", conn.RemoteAddr())
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	_ = listener.Close()
	if n, err := early.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("who came in time reads %d bytes, %v", n, err)
	}
	if err := <-late; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("who came too late: %v, want that he is refused", err)
	}
}
