package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"syscall"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// get1 sends a request on a connection, and reads the reply.
func get1(c net.Conn, path string) (*http.Response, error) {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: stock\r\n\r\n", path); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return r, err
}

// Connections that the kernel accepted before the listener closes are served. Later ones are refused, never reset.
func TestBacklogIsServed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newConnections(listener)
	server := &http.Server{
		Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
		),
		ConnState:         c.track,
		ReadHeaderTimeout: time.Minute,
	}
	replies := make(chan error, 20)
	for range cap(replies) {
		conn, err := net.Dial("tcp", listener.Addr().String()) // nobody accepts it
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, err := get1(conn, "/")
			replies <- err
		}()
	}
	c.serveBacklog(server)
	if _, err := net.Dial("tcp", listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the listener was closed: %v, want that the connection is refused", err)
	}
	for range cap(replies) {
		if err := <-replies; err != nil {
			t.Errorf("a connection of the backlog got no reply: %v", err)
		}
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A request on an idle connection of a load balancer is answered although the instance accepts no connections any more.
// Then the connection is closed.
func TestShutdownLeavesIdleConnectionsOpen(t *testing.T) {
	t.Parallel()
	i := begin(t, backends("--drain=3s")...)
	address, err := url.Parse(i.url)
	if err != nil {
		t.Fatal(err)
	}
	idle, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if r, err := get1(idle, "/livez"); err != nil || r.Close {
		t.Fatalf("before: %v, %+v", err, r)
	}
	i.cancel()
	servertest.Eventually(t, 10*time.Second, "nobody is let in any more", func() (bool, string) {
		c, err := net.Dial("tcp", address.Host)
		if err != nil {
			return true, ""
		}
		c.Close()
		return false, "it is let in"
	})
	r, err := get1(idle, "/livez")
	if err != nil || r.StatusCode != http.StatusOK || !r.Close {
		t.Errorf("on an idle connection: %v, %+v; want a reply that ends it", err, r)
	}
	i.end(t)
}
