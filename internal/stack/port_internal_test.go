package stack

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The port that was free may be somebody else's when the server wants it.
func TestASnatchedPortIsGivenUp(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	var snatched string
	server, err := s.open(t.Context(), "redis", func(ctx context.Context, name, dir string, port int) (*Server, error) {
		if snatched == "" {
			snatched = local(port)
			thief, err := s.redis(ctx, name, dir, port) // the hardest case: it answers to PING as ours would
			if err != nil {
				return nil, err
			}
			thief.Name, thief.life = "thief", s.life
			if err := thief.start(ctx); err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = thief.Kill() })
		}
		return s.redis(ctx, name, dir, port)
	})
	if err != nil {
		t.Fatal(err)
	}
	if server.Addr == snatched {
		t.Errorf("the server is on %s, which is another's", snatched)
	}
	if server.StandIn == "" {
		if err := redisReady(t.Context(), server.Addr, os.Getpid()); err == nil ||
			!strings.Contains(err.Error(), "belongs to") {
			t.Errorf("a Redis of another process is taken for ours: %v", err)
		}
	}
}

func TestPreferredPortsAreTakenIfFree(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	one, other := new(Stack), new(Stack)
	defer one.releasePorts()
	defer other.releasePorts()
	want, err := one.reserve()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.reserve(want); got == want || err != nil {
		t.Errorf("two stacks reserve %d: %d, %v", want, got, err)
	}
	one.releasePorts()
	if got, err := other.reserve(taken, want); got != want || err != nil {
		t.Errorf("reserve(taken, %d) = %d, %v", want, got, err)
	}
}

// While a server is dead its port stays its own.
func TestTheDeadKeepTheirPort(t *testing.T) {
	t.Parallel()
	one, err := Start(t.Context(), Options{Want: []Kind{Redis}})
	if err != nil {
		t.Fatal(err)
	}
	other := new(Stack)
	defer other.releasePorts()
	server := one.Server("redis")
	_, text, _ := net.SplitHostPort(server.Addr)
	port, _ := strconv.Atoi(text)
	if err := server.Kill(); err != nil {
		t.Error(err)
	}
	if got, err := other.reserve(port); got == port || err != nil {
		t.Errorf("the port %d of a dead server went to another stack: %d, %v", port, got, err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	if got, err := other.reserve(port); got != port || err != nil {
		t.Errorf("after Stop: reserve(%d) = %d, %v", port, got, err)
	}
}
