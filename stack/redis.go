package stack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const installRedis = "apt-get install redis-server"

// redis prepares a redis-server without persistence, or with an AOF, or its stand-in.
func (s *Stack) redis(_ context.Context, name, dir string, port int) (*Server, error) {
	server, err := s.redisServer(name, dir, port)
	if err != nil {
		return miniRedis(err.Error(), port), nil
	}
	return server, nil
}

// redisServer prepares a real redis-server. first is what it is told before the rest, such as a file, which the rest overrides.
func (s *Stack) redisServer(name, dir string, port int, first ...string) (*Server, error) {
	program, err := find(installRedis, "redis-server")
	if err != nil {
		return nil, err
	}
	aof := "no"
	if s.options.AOF {
		// The file is written before the reply leaves, and synced when the system likes: a killed server loses no confirmed write, a
		// computer that loses power may. Not "everysec": while a sync is under way it answers before it writes, for up to two seconds,
		// and a server that is killed then has forgotten what it confirmed.
		aof = "yes"
	}
	cmd := command{path: program, dir: dir, log: filepath.Join(s.Dir, name+".log"), args: slices.Concat(first, []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", aof, "--appendfsync", "no",
	})}
	var own *clock
	if s.options.Clocks {
		if own, cmd.env, err = newClock(dir); err != nil {
			return nil, err
		}
	}
	return &Server{
		Log:    cmd.log,
		clock:  own,
		launch: func() (run, error) { return cmd.start(syscall.SIGKILL) },
		ready:  func(ctx context.Context, pid int) error { return redisReady(ctx, local(port), pid) },
	}, nil
}

// redisReady wants a PONG, which a server that still loads its AOF does not give, from the process that we started.
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

// dial opens a connection whose reads and writes end with ctx's deadline.
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
