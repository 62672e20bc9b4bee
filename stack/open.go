package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// portSnatched is how often a start is tried again because another process took the port first.
const portSnatched = 5

// A tier says what is stopped together; higher ones are stopped first.
type tier int

const (
	backend tier = iota
	instance
	front
)

// A builder prepares a server: finds its program and writes its files. It must allow being called again with another port.
type builder func(ctx context.Context, name, dir string, port int) (*Server, error)

// open builds a server, starts it and makes it one of the stack's.
func (s *Stack) open(ctx context.Context, name string, build builder, ports ...int) (*Server, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !s.begin() {
		return nil, fmt.Errorf("start %s: %w", name, errStopped)
	}
	defer s.starting.Done()
	defer context.AfterFunc(s.life, func() { cancel(errStopped) })()

	began := time.Now()
	s.tell(Event{name, "starting", 0, ""})
	server, err := s.tryPorts(ctx, name, build, ports)
	var missing *MissingError
	switch {
	case errors.As(err, &missing):
		s.miss(name, err.Error())
		return nil, err
	case err != nil:
		s.tell(Event{name, "failed", time.Since(began), err.Error()})
		return nil, err
	}
	s.add(server)
	if server.StandIn != "" {
		s.miss(name, server.StandIn)
	}
	detail := server.Addr
	if server.unready != "" {
		detail += ", alive but not ready: " + server.unready
	}
	s.tell(Event{name, "ready", time.Since(began), detail})
	return server, nil
}

// begin announces a start, unless the stack is being stopped.
func (s *Stack) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.starting.Add(1)
	return true
}

// name takes the next name of a sort: redis, redis-2, redis-3; an instance always has its number.
func (s *Stack) name(sort string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[sort]++
	return nth(sort, s.named[sort])
}

func nth(sort string, n int) string {
	if n == 1 && sort != app {
		return sort
	}
	return fmt.Sprintf("%s-%d", sort, n)
}

func (s *Stack) miss(name, reason string) {
	s.mu.Lock()
	s.missing[name] = reason
	s.mu.Unlock()
	s.tell(Event{name, "missing", 0, reason})
}

func (s *Stack) tryPorts(ctx context.Context, name string, build builder, ports []int) (*Server, error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	for try := 1; ; try++ {
		port, err := s.claim(ports...)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		server, err := build(ctx, name, dir, port)
		var missing *MissingError
		switch {
		case errors.As(err, &missing):
			return nil, err // the reason is for people to read, and stands for itself
		case err != nil:
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		server.Name, server.Addr, server.life = name, local(port), s.life
		if server.URL == "" {
			server.URL = server.Addr
		}
		if err = server.start(ctx); err == nil {
			return server, nil
		}
		// Our server is gone: whoever listens there now is the one that snatched the port.
		if try == portSnatched || ctx.Err() != nil || free(port) && (server.admin == 0 || free(server.admin)) {
			return nil, err
		}
	}
}
