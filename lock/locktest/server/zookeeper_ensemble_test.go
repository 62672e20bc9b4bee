package server_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// An ensemble has one leader, which is not the first server; and the first server reaches the leader at the address
// that Via returns. The ensemble serves without a minority of its servers, and not without a majority of them.
func TestZooKeeperEnsemble(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := start(t, server.Options{})
	var mu sync.Mutex
	asked := 0
	e, err := s.StartZooKeeperEnsemble(t.Context(), server.EnsembleOptions{Via: func(addr string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return addr, nil
	}})
	servertest.Started(t, err)
	if asked != 2 || len(e.Servers) != 3 {
		t.Fatalf("%d servers, %d addresses were asked for; want 3 and 2", len(e.Servers), asked)
	}
	mode := func(member *server.Server) string {
		conn, err := net.DialTimeout("tcp", member.Addr, time.Second)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, "srvr")
		reply, _ := io.ReadAll(conn)
		_, of, _ := strings.Cut(string(reply), "Mode: ")
		of, _, _ = strings.Cut(of, "\n")
		return of
	}
	leaders := 0
	for _, member := range e.Servers {
		if mode(member) == "leader" {
			leaders++
		}
	}
	if got := mode(e.Servers[0]); got != "follower" || leaders != 1 {
		t.Errorf("the first server is %q, and there are %d leaders", got, leaders)
	}
	if err := e.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if one, other := mode(e.Servers[1]), mode(e.Servers[2]); one == "" || other == "" {
		t.Errorf("with one of three dead the others are %q and %q, want them to serve", one, other)
	}
	if err := e.Servers[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it follows again", func() bool { return mode(e.Servers[0]) == "follower" })
	for _, member := range e.Servers[1:] {
		if err := member.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "with two of three dead the last one does not serve", func() bool { return mode(e.Servers[0]) == "" })
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	servertest.Eventually(t, 0, what, func() (bool, string) { return so(), "" })
}
