// Package stack starts and stops what a run needs on this computer: Redis, ZooKeeper, MariaDB, instances of stock and nginx
// before them, each on a free port of 127.0.0.1, with all files in one temporary folder.
//
// Real servers are taken from PATH. Where redis-server is missing an embedded one stands in, where nginx is missing a small proxy
// does; what has no stand-in is reported with the reason. Every server can be paused, killed and restarted.
package stack

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
	"sync"
	"time"
)

var (
	errStopped = errors.New("the stack is stopped")
	// errOther ends a start that is no longer wanted; the other's error is the one to show.
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
	telling sync.Mutex

	mu       sync.Mutex
	servers  []*Server        // that have been ready, oldest first
	claims   []net.PacketConn // on their ports; see claim
	named    map[string]int
	missing  map[string]string
	starting sync.WaitGroup
}

// Start makes a Stack and starts the backends that are wanted, in parallel. What is not installed is no error: see [Stack.Missing].
// ctx bounds the start only; afterwards only Stop ends the servers. On error nothing is left running, and the folder is gone unless
// Options.Keep is set.
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
	build := map[Kind]builder{Redis: s.redis, ZooKeeper: s.zookeeper, MySQL: s.mariadb}[kind]
	if build == nil {
		return nil, fmt.Errorf("start %q: no such backend", kind)
	}
	return s.open(ctx, s.name(string(kind)), build)
}

// Missing says what was not found, by name of the server, with the reason and, where there is one, what stands in.
func (s *Stack) Missing() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.missing)
}

// Stop stops all servers, the front first, then the instances, then the backends, and removes the folder unless Options.Keep is
// set. A start that is under way is given up. It is idempotent, depends on no context, and takes at most 10 s for each of the three
// steps, usually less than two in all.
func (s *Stack) Stop() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.end()
		s.mu.Unlock()
		s.starting.Wait()
		var failed []error
		for t := front; t >= backend; t-- {
			failed = append(failed, s.stopTier(t))
		}
		s.disclaim()
		s.stopped = errors.Join(failed...)
		if !s.options.Keep {
			s.stopped = errors.Join(s.stopped, os.RemoveAll(s.Dir))
		}
	})
	return s.stopped
}

func (s *Stack) stopTier(t tier) error {
	var all sync.WaitGroup
	servers := s.servers // nothing is added any more
	failed := make([]error, len(servers))
	for i, server := range slices.Backward(servers) {
		if server.tier != t {
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

// A Kind is a sort of backend.
type Kind string

// The backends that a Stack can start.
const (
	Redis     Kind = "redis"
	ZooKeeper Kind = "zookeeper"
	MySQL     Kind = "mysql" // MariaDB
)

// Options says what a Stack is made of. The zero value wants no backend.
type Options struct {
	Want []Kind // backends to start; the same twice makes two
	AOF  bool   // Redis keeps an append-only file and has its data after a restart, also after Kill; default: it has none

	// Clocks gives each Redis a wall clock of its own, which Server.SetClock moves. It needs libfaketime: see CheckClocks. Without that, a
	// stand-in takes Redis' place.
	Clocks bool

	Binary string   // the stock program; default: os.Executable()
	Env    []string // KEY=value for every instance, after the addresses of the backends; STOCK_* of this process are not passed on

	// AnyPort keeps instances off the usual ports, on which a program of the user's may want to listen while one of them is dead: what
	// keeps other stacks off does not keep that off.
	AnyPort bool

	Parent string // where the temporary folder is made; default: os.TempDir()
	Keep   bool   // Stop leaves the folder, with logs and data

	Progress func(Event) // told what happens, one event at a time; default: nobody is
}

// An Event is a step of a start or a stop.
type Event struct {
	Server string        // Server.Name
	What   string        // starting, ready, missing, failed, stopped
	Took   time.Duration // since the step before it; 0 for starting and missing
	Detail string        // address, or the reason
}

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

// add makes a server that is ready one of the stack's.
func (s *Stack) add(server *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, server)
}

// drop stops a server and forgets it.
func (s *Stack) drop(server *Server) error {
	s.mu.Lock()
	s.servers = slices.DeleteFunc(s.servers, func(other *Server) bool { return other == server })
	s.mu.Unlock()
	return server.Stop()
}

// Server finds a server by name: redis, zookeeper, mysql, nginx, app-1; a second one of a sort is redis-2. It is nil if it was
// never ready.
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

// instances lists the instances, oldest first.
func (s *Stack) instances() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.servers), func(server *Server) bool { return server.tier != instance })
}

// Where ports are looked for: below the range from which the kernel serves outgoing connections (32768 and up on Linux, 49152
// and up on macOS). A port from ":0" lies in that range, and after a server is killed any client's connection may take it, even the
// one that tries to reach the dead server: then the restart on the same port fails. The fault lab does that all day.
const (
	portsFrom = 20000
	portsTo   = 32000
	portTries = 200
)

// claim finds a port of 127.0.0.1 on which nothing listens, one of preferred if possible, and keeps every other stack off it until
// Stop, also those of other processes and also while the server on it is dead: otherwise an instance of another stack, which has the
// same name, may listen there when ours comes back, and be taken for it. A program that is no stack knows of no claim: whoever starts
// a server on the port must be ready to try again.
//
// The claim is a UDP socket bound to the same number. No server here uses UDP, a killed process leaves none behind, and it works on
// every system, which a file of locks or a name in a socket's namespace would not.
func (s *Stack) claim(preferred ...int) (int, error) {
	for _, port := range preferred {
		if s.claimed(port) {
			return port, nil
		}
	}
	for range portTries {
		if port := portsFrom + rand.IntN(portsTo-portsFrom); s.claimed(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: none on 127.0.0.1 from " + strconv.Itoa(portsFrom) + " to " + strconv.Itoa(portsTo))
}

func (s *Stack) claimed(port int) bool {
	claim, err := net.ListenPacket("udp", local(port))
	if err != nil {
		return false
	}
	if !free(port) {
		claim.Close()
		return false
	}
	s.mu.Lock()
	s.claims = append(s.claims, claim)
	s.mu.Unlock()
	return true
}

// disclaim gives all ports back.
func (s *Stack) disclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, claim := range s.claims {
		claim.Close()
	}
	s.claims = nil
}

func free(port int) bool {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
