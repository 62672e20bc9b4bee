package server

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/alicebob/miniredis/v2"
)

// miniRedis prepares the stand-in for redis-server. It knows every command that this service sends, but not CONFIG,
// CLIENT and replication. It keeps nothing over a restart, with or without an AOF.
func miniRedis(why string, port int) *Server {
	return &Server{
		StandIn: why + "; an embedded miniredis stands in",
		Launch:  func() (Run, error) { return startMini(Local(port)) },
		Ready: func(ctx context.Context, _ int) error {
			conn, err := dial(ctx, Local(port))
			if err == nil {
				conn.Close()
			}
			return err
		},
	}
}

// A mini is one run of miniredis.
type mini struct {
	server *miniredis.Miniredis
	exit   chan struct{}
	once   sync.Once

	mu     sync.Mutex
	paused bool
}

func startMini(addr string) (Run, error) {
	m := &mini{server: miniredis.NewMiniRedis(), exit: make(chan struct{})}
	// By default TTLs elapse only when a test moves the clock, so a lease would never run out.
	m.server.ClockTTL(true)
	if err := m.server.StartAddr(addr); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *mini) Pid() int                { return 0 }
func (m *mini) Exited() <-chan struct{} { return m.exit }
func (m *mini) Outcome() string         { return "closed" }

// signal does what a process would do. A paused stand-in holds the mutex that every command needs: connections stay
// open, nothing answers, and time goes on.
func (m *mini) Signal(sig syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch sig {
	case syscall.SIGSTOP:
		if !m.paused {
			m.server.Lock()
			m.paused = true
		}
	case syscall.SIGCONT:
		m.resume()
	case syscall.SIGTERM, syscall.SIGKILL:
		m.once.Do(func() {
			m.resume()
			m.server.Close()
			close(m.exit)
		})
	default:
		return errors.New("the embedded miniredis does not know " + sig.String())
	}
	return nil
}

func (m *mini) resume() {
	if m.paused {
		m.server.Unlock()
		m.paused = false
	}
}
