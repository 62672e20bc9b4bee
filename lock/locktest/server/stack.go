// Package server starts and stops servers on this computer: Redis, ZooKeeper and MariaDB, alone or as clusters. Each
// listens on a free port of 127.0.0.1, and all files are in one temporary folder.
//
// Real servers are taken from PATH. If redis-server is missing, an embedded one stands in. A missing server without a
// stand-in is reported with the reason. Every server can be paused, killed and restarted.
//
// [Stack.Open] adds a server of another kind, given a [Builder].
package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	errStopped = errors.New("the stack is stopped")
	// errOther cancels the other starts when one fails. That one's error is returned.
	errOther = errors.New("another server did not start")
)

// A Stack is a set of servers with a beginning and an end. It is safe for concurrent use.
type Stack struct {
	Dir string // the temporary folder: NAME.log and NAME/ of each server

	options Options
	life    context.Context // ends when Stop begins
	end     context.CancelFunc
	once    sync.Once
	stopped error
	telling sync.Mutex // held while Options.Progress runs

	mu       sync.Mutex
	servers  []*Server        // servers that have been ready, oldest first
	ports    []net.PacketConn // one for each reserved port; see reserve
	named    map[string]int   // number of names given for each kind; see name
	missing  map[string]string
	starting sync.WaitGroup
}

// Start makes a Stack and starts the backends in Options.Want, in parallel. A backend that is not installed is no
// error: see [Stack.Missing]. ctx bounds the start only; afterwards only Stop ends the servers. On error nothing is
// left running, and the folder is gone.
func Start(ctx context.Context, o Options) (*Stack, error) {
	dir, err := os.MkdirTemp(o.Parent, "stock-")
	if err != nil {
		return nil, fmt.Errorf("make the stack's folder: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("make the stack's folder: %w", err)
	}
	s := &Stack{Dir: dir, options: o, named: map[string]int{}, missing: map[string]string{}}
	s.life, s.end = context.WithCancel(context.Background())

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	failed := make([]error, len(o.Want))
	for i, kind := range o.Want {
		all.Go(func() {
			var missing *MissingError
			_, err := s.Add(ctx, kind)
			if err != nil && !errors.As(err, &missing) && !errors.Is(err, errOther) {
				failed[i] = err
				cancel(errOther)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Add starts one more backend. The error of one that is not installed is a MissingError.
func (s *Stack) Add(ctx context.Context, kind Kind) (*Server, error) {
	build := map[Kind]Builder{Redis: s.redis, ZooKeeper: s.zookeeper, MySQL: s.mariadb}[kind]
	if build == nil {
		return nil, fmt.Errorf("start %q: no such backend", kind)
	}
	return s.Open(ctx, s.Name(string(kind)), build)
}

// Missing maps the name of each server that was not found to the reason and, if there is one, its stand-in.
func (s *Stack) Missing() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.missing)
}

// Stop stops all servers, one [Tier] after the other, and removes the folder. A start in progress is cancelled. Stop is
// idempotent and depends on no context. It takes at most 10 s for each tier, usually less than 2 s in all.
func (s *Stack) Stop() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.end()
		s.mu.Unlock()
		s.starting.Wait()
		var failed []error
		for t := Front; t >= Backend; t-- {
			failed = append(failed, s.stopTier(t))
		}
		s.releasePorts()
		s.stopped = errors.Join(append(failed, os.RemoveAll(s.Dir))...)
	})
	return s.stopped
}

func (s *Stack) stopTier(t Tier) error {
	var all sync.WaitGroup
	servers := s.servers // no longer changes
	failed := make([]error, len(servers))
	for i, server := range slices.Backward(servers) {
		if server.Tier != t {
			continue
		}
		all.Go(func() {
			began := time.Now()
			failed[i] = server.Stop()
			s.tell(Event{server.Name, "stopped", time.Since(began), ""})
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

func (s *Stack) tell(e Event) {
	if s.options.Progress == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	s.options.Progress(e)
}

// A Kind is a kind of backend.
type Kind string

// The backends that a Stack can start.
const (
	Redis     Kind = "redis"
	ZooKeeper Kind = "zookeeper"
	MySQL     Kind = "mysql" // MariaDB
)

// Options configure a Stack. The zero value means no backend.
type Options struct {
	Want []Kind // backends to start; a kind that is listed twice is started twice

	// AOF makes Redis keep an append-only file, so that its data survives a restart, even after Kill. Without it, Redis
	// restarts empty.
	AOF bool

	// More has further settings of the backends of a kind, which override those of this package: arguments of
	// redis-server and mariadbd, lines of zoo.cfg.
	More map[Kind][]string

	// Clocks gives each Redis its own wall clock, which Server.SetClock moves. It needs libfaketime: see CheckClocks.
	// Without that, a stand-in replaces Redis.
	Clocks bool

	Parent string // where the temporary folder is made; default: os.TempDir()

	Progress func(Event) // called for each event, one at a time; may be nil
}

// An Event is a step of a start or a stop.
type Event struct {
	Server string        // Server.Name
	What   string        // starting, ready, missing, failed, stopped
	Took   time.Duration // since the previous step; 0 for starting and missing
	Detail string        // address, or the reason
}

// startTries is how often a start is tried if another process takes the port first.
const startTries = 5

// A Tier is a set of servers that are stopped together. Higher tiers are stopped first.
type Tier int

// The tiers. The servers of this package are backends.
const (
	Backend  Tier = iota
	Instance      // a client of backends
	Front         // what is in front of instances
)

// A Builder prepares a server: it finds the program (see [Find]) and writes its files into dir. The server is to listen
// on port of 127.0.0.1. A Builder may be called again with another port.
type Builder func(ctx context.Context, name, dir string, port int) (*Server, error)

// Open builds a server, starts it, on one of ports if possible, and adds it to the stack. Its name must be new: see
// [Stack.Name].
func (s *Stack) Open(ctx context.Context, name string, build Builder, ports ...int) (*Server, error) {
	if !s.begin() {
		return nil, fmt.Errorf("start %s: %w", name, errStopped)
	}
	defer s.starting.Done()
	ctx, cancel := bounded(ctx, s.life)
	defer cancel()

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
		detail += ", " + server.unready
	}
	s.tell(Event{name, "ready", time.Since(began), detail})
	return server, nil
}

// begin registers a start with Stop, and reports false if the stack is being stopped.
func (s *Stack) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.starting.Add(1)
	return true
}

// Name returns the next name of a kind: redis, redis-2, redis-3.
func (s *Stack) Name(kind string) string {
	if n := s.Number(kind); n > 1 {
		return fmt.Sprintf("%s-%d", kind, n)
	}
	return kind
}

// Number returns the next number of a kind, from 1 on, for names that always have it.
func (s *Stack) Number(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named[kind]++
	return s.named[kind]
}

func (s *Stack) miss(name, reason string) {
	s.mu.Lock()
	s.missing[name] = reason
	s.mu.Unlock()
	s.tell(Event{name, "missing", 0, reason})
}

func (s *Stack) tryPorts(ctx context.Context, name string, build Builder, ports []int) (*Server, error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	for try := 1; ; try++ {
		port, err := s.reserve(ports...)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		server, err := build(ctx, name, dir, port)
		var missing *MissingError
		switch {
		case errors.As(err, &missing):
			return nil, err // the reason needs no prefix
		case err != nil:
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		server.Name, server.Addr, server.life = name, Local(port), s.life
		if server.URL == "" {
			server.URL = server.Addr
		}
		if err = server.start(ctx); err == nil {
			return server, nil
		}
		// Our server has ended. If the port is not free, another process took it.
		admin := strings.TrimPrefix(server.Admin, "http://")
		if try == startTries || ctx.Err() != nil || free(server.Addr) && (admin == "" || free(admin)) {
			return nil, err
		}
	}
}

// add adds a server that is ready to the stack.
func (s *Stack) add(server *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, server)
}

// Drop stops a server and removes it from the stack.
func (s *Stack) Drop(server *Server) error {
	s.mu.Lock()
	s.servers = slices.DeleteFunc(s.servers, func(other *Server) bool { return other == server })
	s.mu.Unlock()
	return server.Stop()
}

// Server returns the server of that name: redis, zookeeper, mysql; the second of a kind is redis-2. It
// returns nil if there is none, or if it was never ready.
func (s *Stack) Server(name string) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		if server.Name == name {
			return server
		}
	}
	return nil
}

// Tier returns the servers of a tier, oldest first.
func (s *Stack) Tier(t Tier) []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.servers), func(server *Server) bool { return server.Tier != t })
}

// Ports are chosen below the kernel's range for outgoing connections (from 32768 on Linux, from 49152 on macOS). A port
// from ":0" is in that range: when its server is killed, the connection of any client may take the port, and then the
// restart fails.
const (
	portsFrom = 20000
	portsTo   = 32000
	portTries = 200
)

// reserve finds a port of 127.0.0.1 on which nothing listens, one of preferred if possible. It reserves the port until
// Stop against all stacks, also of other processes, and also while the server on it is dead. Otherwise an instance of
// another stack with the same name could listen there, and be mistaken for ours. Other programs ignore the reservation,
// so a start on the port can fail and must be retried.
//
// The reservation is a UDP socket bound to the same number. No server here uses UDP, and the socket ends with its
// process on every system, unlike a lock file or an abstract socket.
func (s *Stack) reserve(preferred ...int) (int, error) {
	for _, port := range preferred {
		if s.tryReserve(port) {
			return port, nil
		}
	}
	for range portTries {
		if port := portsFrom + rand.IntN(portsTo-portsFrom); s.tryReserve(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: none on 127.0.0.1 from " + strconv.Itoa(portsFrom) + " to " +
		strconv.Itoa(portsTo))
}

// Reserve returns an address of 127.0.0.1, with one of the preferred ports if possible, for a server that the caller
// starts itself. Nothing listens there, and no stack uses it until Stop.
func (s *Stack) Reserve(preferred ...int) (addr string, err error) {
	port, err := s.reserve(preferred...)
	return Local(port), err
}

func (s *Stack) tryReserve(port int) bool {
	reservation, err := net.ListenPacket("udp", Local(port))
	if err != nil {
		return false
	}
	if !free(Local(port)) {
		reservation.Close()
		return false
	}
	s.mu.Lock()
	s.ports = append(s.ports, reservation)
	s.mu.Unlock()
	return true
}

// releasePorts ends all reservations.
func (s *Stack) releasePorts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reservation := range s.ports {
		reservation.Close()
	}
	s.ports = nil
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// Local returns the address of a port of 127.0.0.1.
func Local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
