package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Bounds of a start and of a stop. A cold JVM or a first InnoDB start takes seconds on a busy computer.
const (
	startBound = 3 * time.Minute
	stopBound  = 5 * time.Second
	checkBound = 2 * time.Second
	checkEvery = 10 * time.Millisecond
)

// A Server is one server of a [Stack]: a child process, or a stand-in inside this process. Its methods are safe for
// concurrent use. They run one at a time.
type Server struct {
	Name string // redis, redis-2, zookeeper, mysql, nginx, app-1, ...
	Addr string // 127.0.0.1:port, the same after every restart

	// URL is the address for clients: Addr for redis and zookeeper, a DSN of go-sql-driver for mysql, an http:// URL
	// for others.
	URL string

	Admin   string // the http:// URL for operators, the same after every restart; empty if there is none
	StandIn string // why a stand-in runs and what it is; empty for the real server
	Log     string // file with its output; empty for a stand-in

	// A Builder sets these, and the stack calls them one at a time. Ready checks in the server's protocol that it
	// answers and is ours.
	Tier   Tier
	Launch func() (Run, error)
	Ready  func(ctx context.Context, pid int) error

	clock   *clock          // nil: the computer's clock
	life    context.Context // the stack's; nothing starts after its end
	unready string          // why a live server is not ready

	mu     sync.Mutex
	run    Run // nil before the first start
	paused bool
}

// A Run is a Server between a start and its end. Signals control it; a stand-in does what a process would do.
type Run interface {
	Pid() int // 0: no process of its own
	Signal(syscall.Signal) error
	Exited() <-chan struct{}
	Outcome() string // how it ended
}

// An UnreadyError ends the wait of a start when Server.Ready returns it: the server is alive but not ready, for that
// reason, and will do.
type UnreadyError struct{ Reason error }

func (e *UnreadyError) Error() string { return "alive but not ready: " + e.Reason.Error() }
func (e *UnreadyError) Unwrap() error { return e.Reason }

// Pid returns the process id, or 0 if the server does not run or is a stand-in.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive() {
		return 0
	}
	return s.run.Pid()
}

// Exited returns a channel that is closed when the current run ends, for whatever reason. Restart makes a new one.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run.Exited()
}

// Stop asks the server to end (SIGTERM), kills it after 5 s (SIGKILL), and returns when it is gone. If the server
// does not run, Stop returns nil.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

func (s *Server) stop() error {
	if err := s.end(syscall.SIGTERM); err != nil {
		return s.end(syscall.SIGKILL)
	}
	return nil
}

// Kill ends the server at once (SIGKILL) and returns when it is gone. If the server does not run, Kill returns nil.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(syscall.SIGKILL)
}

// Pause suspends the server (SIGSTOP) and returns when it has stopped. Connections stay open, and nothing answers.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	s.paused = true
	return nil
}

// Resume resumes a paused server (SIGCONT), which then handles everything that it was sent in the meantime.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(syscall.SIGCONT); err != nil {
		return err
	}
	s.paused = false
	return nil
}

// Restart stops the server if it runs, starts it again on the same address with its data, and returns when it answers.
// On error it does not run. After the Stop of its stack, Restart returns an error. After Kill, Redis has lost
// everything unless it keeps an AOF; ZooKeeper and MySQL have lost nothing that they confirmed.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *Server) alive() bool {
	if s.run == nil {
		return false
	}
	select {
	case <-s.run.Exited():
		return false
	default:
		return true
	}
}

func (s *Server) signal(sig syscall.Signal) error {
	if !s.alive() {
		return fmt.Errorf("%s: %w", s.Name, ErrNotRunning)
	}
	if err := s.run.Signal(sig); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// end sends sig and waits until the server has ended.
func (s *Server) end(sig syscall.Signal) error {
	if !s.alive() {
		return nil
	}
	err := s.signal(sig)
	if errors.Is(err, ErrNotRunning) {
		err = nil
	}
	if s.paused && err == nil {
		// A stopped process handles a SIGTERM only after SIGCONT.
		_ = s.run.Signal(syscall.SIGCONT)
	}
	if err != nil {
		return err
	}
	timer := time.NewTimer(stopBound)
	defer timer.Stop()
	select {
	case <-s.run.Exited():
		s.paused = false
		return nil
	case <-timer.C:
		return fmt.Errorf("%s still runs %v after %v", s.Name, stopBound, sig)
	}
}

// bounded returns ctx with the time limit of a start, which also ends with the life of a stack.
func bounded(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("not ready within %v", startBound))
	ctx, giveUp := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { giveUp(errStopped) })
	return ctx, func() { stop(); giveUp(nil); cancel() }
}

// start launches and waits until the server answers. On failure nothing runs, and the error quotes the log.
func (s *Server) start(ctx context.Context) error {
	ctx, cancel := bounded(ctx, s.life)
	defer cancel()
	switch {
	case s.life.Err() != nil:
		return fmt.Errorf("start %s: %w", s.Name, errStopped)
	case ctx.Err() != nil:
		return fmt.Errorf("start %s: %w", s.Name, context.Cause(ctx))
	}
	from := size(s.Log)
	run, err := s.Launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	s.run, s.paused = run, false
	if err := s.await(ctx); err != nil {
		// A server that does not answer has no data to lose, and may not react to SIGTERM.
		_ = s.end(syscall.SIGKILL)
		return fmt.Errorf("start %s: %w%s", s.Name, err, tail(s.Log, from))
	}
	return nil
}

// await asks until the server answers or ends, or until ctx ends.
func (s *Server) await(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, checkBound)
		err := s.Ready(once, s.run.Pid())
		cancel()
		select {
		case <-s.run.Exited():
			return fmt.Errorf("ended before it was ready: %s", s.run.Outcome())
		default:
		}
		unready, alive := errors.AsType[*UnreadyError](err)
		if err == nil || alive {
			s.unready = ""
			if alive {
				s.unready = unready.Error()
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-s.run.Exited():
		case <-ticker.C:
		}
	}
}
