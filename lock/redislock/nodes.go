package redislock

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// A node is one of the masters of a Redlock. It keeps account of whom it is talking to.
type node struct {
	client redis.UniversalClient
	addr   string
	dials  atomic.Int64 // connections made so far

	mu    sync.Mutex
	known int64 // dials before id was asked for; -1: never
	id    identity

	left     []leftover
	sweeping bool

	// silent: it owes an answer since longer than a round waits. Until it gives it, a try for the lock does without it at once,
	// instead of waiting for the time-out and leaving one more request behind.
	silent atomic.Bool
}

// An identity is which server it is, and since when.
type identity struct {
	runID   string // new with every start
	replica bool
	born    time.Time // it has not been started later than this, by our monotonic clock
}

func newNode(c redis.UniversalClient, i int) *node {
	n := &node{client: c, addr: addrOf(c, i), known: -1}
	c.AddHook((*dialCounter)(&n.dials))
	return n
}

// addrOf is how errors call the i-th of the clients.
func addrOf(c redis.UniversalClient, i int) string {
	if single, ok := c.(*redis.Client); ok && strings.Contains(single.Options().Addr, ":") { // a Sentinel client has a placeholder
		return single.Options().Addr
	}
	return nth(i)
}

// A dialCounter counts the connections that a client makes.
type dialCounter atomic.Int64

func (d *dialCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			(*atomic.Int64)(d).Add(1)
		}
		return conn, err
	}
}

func (*dialCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (*dialCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A doubtError is why the answer of a node does not count.
type doubtError struct{ reason string }

func (e *doubtError) Error() string { return e.reason }

// doubt is why what n has just answered does not count, or nil. A server that was restarted can only have been reached by a
// new connection, so it is asked who it is after one was made, and otherwise believed what it said last.
func (n *node) doubt(ctx context.Context, quarantine time.Duration) error {
	dials := n.dials.Load()
	n.mu.Lock()
	known, id := n.known, n.id
	n.mu.Unlock()
	if known != dials {
		fresh, err := identify(ctx, n.client)
		if err != nil {
			return err
		}
		n.mu.Lock()
		if n.known < dials {
			n.known, n.id = dials, fresh
		}
		id = n.id
		n.mu.Unlock()
	}
	return id.doubt(quarantine)
}

func (id identity) doubt(quarantine time.Duration) error {
	if id.replica {
		return &doubtError{"is a replica; list independent masters"}
	}
	if quarantine <= 0 {
		return nil
	}
	// As a holder counts on less than its lease, for clocks of different rates, so a node stays away for more.
	if left := 2*quarantine - lock.Valid(quarantine) - time.Since(id.born); left > 0 {
		return &doubtError{fmt.Sprintf("was started less than %v ago and may have forgotten who holds what; it counts in %v",
			quarantine, (left + time.Second - 1).Truncate(time.Second))}
	}
	return nil
}

// identify asks a server who it is, in one round trip.
func identify(ctx context.Context, c redis.UniversalClient) (identity, error) {
	var server, replication *redis.StringCmd
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		server, replication = p.Info(ctx, "server"), p.Info(ctx, "replication")
		return nil
	})
	if err != nil {
		return identity{}, fmt.Errorf("ask who it is (INFO): %w", err)
	}
	told := make(map[string]string)
	for line := range strings.Lines(server.Val() + "\r\n" + replication.Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			told[name] = value
		}
	}
	up, known := age(told)
	if !known || told["run_id"] == "" {
		return identity{}, &doubtError{"does not tell its run_id and uptime (INFO server)"}
	}
	return identity{runID: told["run_id"], replica: told["role"] != "master", born: time.Now().Add(-up)}, nil
}

// age is how long a server has been up at least. Its uptime is one truncated second less another, so it may have been up for a second
// less than it says. With the fraction of its clock (since Redis 7.0) that is what it was up at least since the end of the second in which it
// started, and everybody who asks means the same moment: otherwise a node counts for one instance a second before it does for the next.
func age(told map[string]string) (up time.Duration, known bool) {
	seconds, err := strconv.ParseInt(told["uptime_in_seconds"], 10, 64)
	if err != nil {
		return 0, false
	}
	up = time.Duration(seconds-1) * time.Second
	if clock, err := strconv.ParseInt(told["server_time_usec"], 10, 64); err == nil {
		up += time.Duration(clock%1e6) * time.Microsecond
	}
	return up, true
}
