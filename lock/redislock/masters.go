package redislock

import (
	"cmp"
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
	"example.com/stock/lock/driver"
)

// A node is one of the masters of a Redlock, with the identity of the server that it is connected to.
type node struct {
	client *redis.Client
	addr   string
	dials  atomic.Int64 // connections made so far

	mu    sync.Mutex
	known int64 // value of dials before id was read; -1: id was never read
	id    identity

	// silent: the node has not answered a release for much longer than a round waits. Tries skip it until it answers,
	// so that they neither wait for the time-out nor leave more unanswered requests.
	silent atomic.Bool
}

// An identity is what a server reports about itself.
type identity struct {
	runID   string // new with every start
	replica bool
	born    time.Time // a time at or after the start of the server, by our monotonic clock
}

func newNode(c *redis.Client) *node {
	n := &node{client: c, addr: c.Options().Addr, known: -1}
	c.AddHook((*dialCounter)(&n.dials))
	return n
}

// checkClients checks the clients of a Redlock without a request to a server.
func checkClients(clients []*redis.Client) error {
	if len(clients) < 3 {
		const text = "redlock needs at least 3 independent Redis masters, better 5, and was given %d"
		return fmt.Errorf(text, len(clients))
	}
	seen := make(map[string]bool)
	for _, c := range clients {
		addr := c.Options().Addr
		if seen[addr] {
			return fmt.Errorf("redlock: %s is listed twice: list %d independent masters", addr, len(clients))
		}
		seen[addr] = true
		if !c.Options().ContextTimeoutEnabled {
			return fmt.Errorf("redlock: the client of %s ignores deadlines, so that a node that hangs would hold up "+
				"every round: set ContextTimeoutEnabled", addr)
		}
	}
	return nil
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

// An ineligibleError is the reason why a node's reply does not count.
type ineligibleError struct{ reason string }

func (e *ineligibleError) Error() string { return e.reason }

var errSilent = &ineligibleError{"owes an answer to an earlier request"}

// eligible returns nil if the reply that n has just given counts, or the reason why not. A restarted server can only
// be reached over a new connection. So the node's identity is read after each new connection, and otherwise the last
// one is used.
func (n *node) eligible(ctx context.Context, quarantine time.Duration) error {
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
	return id.eligible(quarantine)
}

func (id identity) eligible(quarantine time.Duration) error {
	if id.replica {
		return &ineligibleError{"is a replica; list independent masters"}
	}
	if quarantine <= 0 {
		return nil
	}
	// Clocks run at different rates. A holder therefore relies on less than its lease, and a node does not count for
	// longer than quarantine by the same margin.
	if left := 2*quarantine - lock.Valid(quarantine) - time.Since(id.born); left > 0 {
		return &ineligibleError{fmt.Sprintf(
			"was started less than %v ago and may have forgotten who holds what; it counts in %v",
			quarantine, (left + time.Second - 1).Truncate(time.Second))}
	}
	return nil
}

// identify reads the identity of a server, in one round trip.
func identify(ctx context.Context, c *redis.Client) (identity, error) {
	var server, replication *redis.StringCmd
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		server, replication = p.Info(ctx, "server"), p.Info(ctx, "replication")
		return nil
	})
	if err != nil {
		return identity{}, fmt.Errorf("read its identity (INFO): %w", err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(server.Val() + "\r\n" + replication.Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	up, known := age(info)
	if !known || info["run_id"] == "" {
		return identity{}, &ineligibleError{"does not report its run_id and uptime (INFO server)"}
	}
	return identity{runID: info["run_id"], replica: info["role"] != "master", born: time.Now().Add(-up)}, nil
}

// age returns a lower bound for the uptime of a server. uptime_in_seconds is the difference of two truncated seconds,
// so it may be a second too large. age therefore subtracts a second, and adds the fraction of the server's clock (since
// Redis 7.0). So all clients count the uptime from the end of the second in which the server started. Otherwise a node
// would become eligible for one client a second earlier than for another.
func age(info map[string]string) (up time.Duration, known bool) {
	seconds, err := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if err != nil {
		return 0, false
	}
	up = time.Duration(seconds-1) * time.Second
	if clock, err := strconv.ParseInt(info["server_time_usec"], 10, 64); err == nil {
		up += time.Duration(clock%1e6) * time.Microsecond
	}
	return up, true
}

// CheckMasters is for a health check. It returns nil if enough of the nodes to grant a lock are distinct masters,
// answer, and have been up for longer than quarantine (see [RedlockOptions]; 0 or less means any time). The error is a
// [driver.DownError] that is safe to show, wrapped in an error with addresses for the log. CheckMasters waits for a
// node that hangs until ctx ends.
func CheckMasters(ctx context.Context, clients []*redis.Client, quarantine time.Duration) error {
	addrs, ids := make([]string, len(clients)), make([]identity, len(clients))
	errs := atOnce(clients, func(i int, c *redis.Client) (err error) {
		addrs[i] = c.Options().Addr
		if ids[i], err = identify(ctx, c); err != nil {
			return err
		}
		return ids[i].eligible(quarantine)
	})
	return cmp.Or(distinct(addrs, ids), checkQuorum(addrs, errs))
}

// round calls ask for all nodes at once, and returns their answers when each has answered or NodeTimeout has passed.
func (r *Redlock) round(ctx context.Context, ask func(ctx context.Context, i int, n *node) error) []error {
	ctx, cancel := context.WithTimeout(ctx, r.o.NodeTimeout)
	defer cancel()
	return atOnce(r.nodes, func(i int, n *node) error { return ask(ctx, i, n) })
}

// An outcome is the result of the requests that set our key on a node.
type outcome int8

const (
	notSet  outcome = iota // the node does not have our key, and will not have it
	set                    // the node has our key, or had it
	unknown                // a request got no answer, and may even arrive after the release
)

// settle repeats a release in the background, until it has deleted the key or has so many answers that the key will not
// come any more: one, or two after an acquisition without an answer; see cleanup.undo. err is that of the release.
func (n *node) settle(c *cleanup, free func(context.Context) error, acquired outcome, err error) {
	answers := 1
	if acquired == unknown {
		answers = 2
	}
	settled := func(err error) bool {
		if !isAnswer(err) {
			return false
		}
		answers--
		return err == nil || answers == 0
	}
	if settled(err) {
		return
	}
	c.Repeat(time.Now().Add(driver.Forever), func(ctx context.Context) bool {
		err := free(ctx)
		n.silent.Store(!isAnswer(err))
		return settled(err)
	})
}

// atOnce calls ask for all of list at the same time, and returns what each call returned.
func atOnce[T any](list []T, ask func(i int, one T) error) []error {
	answers := make([]error, len(list))
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() { answers[i] = ask(i, one) })
	}
	all.Wait()
	return answers
}
