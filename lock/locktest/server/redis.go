package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const installRedis = "apt-get install redis-server"

// redis prepares a redis-server without persistence or with an AOF, or the stand-in if there is none.
func (s *Stack) redis(_ context.Context, name, dir string, port int) (*Server, error) {
	server, err := s.redisServer(name, dir, port)
	if err != nil {
		return miniRedis(err.Error(), port), nil
	}
	return server, nil
}

// redisServer prepares a real redis-server. Its command line begins with first, such as a file, which the rest
// overrides.
func (s *Stack) redisServer(name, dir string, port int, first ...string) (*Server, error) {
	program, err := Find(installRedis, "redis-server")
	if err != nil {
		return nil, err
	}
	aof := "no"
	if s.options.AOF {
		// The file is written before the reply leaves, and synced by the system at its own time. So a killed server
		// loses no confirmed write; a computer that loses power may. "everysec" does not guarantee that: during a sync,
		// Redis replies before it writes, for up to two seconds.
		aof = "yes"
	}
	args := slices.Concat(first, []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", aof, "--appendfsync", "no",
	}, s.options.More[Redis])
	cmd := Command{Path: program, Dir: s.Dir, Log: filepath.Join(s.Dir, name+".log"), Args: args}
	var own *clock
	if s.options.Clocks {
		if own, cmd.Env, err = newClock(dir); err != nil {
			return nil, err
		}
	}
	return &Server{
		Log:    cmd.Log,
		clock:  own,
		Launch: func() (Run, error) { return cmd.Start(syscall.SIGKILL) },
		Ready:  func(ctx context.Context, pid int) error { return redisReady(ctx, Local(port), pid) },
	}, nil
}

// redisReady requires a PONG from the process that we started. A server that is loading its AOF does not send one.
// It needs no client: one that cannot connect goes on trying for a second after it is closed.
func redisReady(ctx context.Context, addr string, pid int) error {
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\nQUIT\r\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || lines.Text() != "+PONG" {
		return fmt.Errorf("PING answered %q: %w", lines.Text(), orEOF(lines.Err()))
	}
	for lines.Scan() {
		if of, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			if of != strconv.Itoa(pid) {
				return fmt.Errorf("%s belongs to process %s", addr, of)
			}
			return nil
		}
	}
	return fmt.Errorf("INFO server: %w", orEOF(lines.Err()))
}

func orEOF(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// dial opens a connection. Its reads and writes end at ctx's deadline.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return conn, nil
}

// askRedis sends one command on a new connection, because the servers here are killed and paused.
func askRedis(ctx context.Context, addr string, command ...any) *redis.Cmd {
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ContextTimeoutEnabled: true,
		DialTimeout: checkBound, ReadTimeout: checkBound, WriteTimeout: checkBound,
	})
	defer client.Close()
	return client.Do(ctx, command...)
}

// until calls ok until it returns nil. The error contains what and the last error of ok.
func until(ctx context.Context, what string, ok func(context.Context) error) error {
	ticker := time.NewTicker(5 * checkEvery)
	defer ticker.Stop()
	var last error
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // not an error caused by the end of ctx
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

const installClock = "apt-get install libfaketime"

// errNoClock reports that a server uses the computer's clock, which SetClock does not change.
var errNoClock = errors.New("has no clock of its own: see Options.Clocks")

// A clock is the wall clock of one server, which libfaketime reads from a file. It runs at the usual rate, and jumps
// when the file changes. CLOCK_MONOTONIC is not changed, as on a computer whose wall clock is set.
type clock struct{ file string }

// CheckClocks returns nil if servers can have their own clocks here, and otherwise a MissingError.
func CheckClocks() error {
	_, err := clockLibraries()
	return err
}

// clockLibraries returns the libraries to preload into a server. The C library is among them so that its malloc
// replaces redis-server's jemalloc, which asks for the time before libfaketime is ready.
func clockLibraries() (preload string, err error) {
	for _, pattern := range []string{
		"/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime",
	} {
		dirs, _ := filepath.Glob(pattern) // fails only for a malformed pattern
		for _, dir := range dirs {
			faketime := filepath.Join(dir, "libfaketimeMT.so.1")
			libc := filepath.Join(filepath.Dir(dir), "libc.so.6")
			if isFile(faketime) && isFile(libc) {
				return faketime + ":" + libc, nil
			}
		}
	}
	return "", &MissingError{"libfaketime", installClock}
}

// newClock makes a clock that shows the computer's time, and the environment for a server that uses it.
func newClock(dir string) (*clock, []string, error) {
	preload, err := clockLibraries()
	if err != nil {
		return nil, nil, err
	}
	c := &clock{filepath.Join(dir, "clock")}
	if err := c.set(0); err != nil {
		return nil, nil, err
	}
	return c, append(os.Environ(), "LD_PRELOAD="+preload, "FAKETIME_TIMESTAMP_FILE="+c.file,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"), nil
}

// set makes the clock differ from the computer's by ahead. It replaces the file in one step, because libfaketime
// reads it whenever the server asks for the time.
func (c *clock) set(ahead time.Duration) error {
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+f\n", ahead.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// SetClock makes the wall clock of a Redis that was started with [Options.Clocks] jump: from now on it differs from the
// computer's by ahead. A negative ahead sets it back. The difference outlives a restart.
func (s *Server) SetClock(ahead time.Duration) error {
	if s.clock == nil {
		return fmt.Errorf("%s %w", s.Name, errNoClock)
	}
	if err := s.clock.set(ahead); err != nil {
		return fmt.Errorf("set the clock of %s: %w", s.Name, err)
	}
	return nil
}
