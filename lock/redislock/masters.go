package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// A node is one of the masters of a Redlock, with the identity of the server that it is connected to.
type node struct {
	client redis.UniversalClient
	addr   string
	dials  atomic.Int64 // connections made so far

	mu    sync.Mutex
	known int64 // value of dials before id was read; -1: id was never read
	id    identity

	orphans  []orphan
	cleaning bool

	// silent: the node has not answered a request for longer than a round waits. Tries skip it until it answers, so
	// that they neither wait for the time-out nor leave more unanswered requests.
	silent atomic.Bool
}

// An identity is what a server reports about itself.
type identity struct {
	runID   string // new with every start
	replica bool
	born    time.Time // a time at or after the start of the server, by our monotonic clock
}

func newNode(c redis.UniversalClient, i int) *node {
	n := &node{client: c, addr: addrOf(c, i), known: -1}
	c.AddHook((*dialCounter)(&n.dials))
	return n
}

// addrOf returns the name of the i-th client in errors.
func addrOf(c redis.UniversalClient, i int) string {
	single, ok := c.(*redis.Client)
	if ok && strings.Contains(single.Options().Addr, ":") { // a Sentinel client has a placeholder as its address
		return single.Options().Addr
	}
	return nth(i)
}

// checkClients checks the clients of a Redlock without a request to a server.
func checkClients(clients []redis.UniversalClient) error {
	if len(clients) < 3 {
		const text = "redlock needs at least 3 independent Redis masters, better 5, and was given %d"
		return fmt.Errorf(text, len(clients))
	}
	seen := make(map[string]bool)
	for i, c := range clients {
		addr := addrOf(c, i)
		if seen[addr] {
			return fmt.Errorf("redlock: %s is listed twice: list %d independent masters", addr, len(clients))
		}
		seen[addr] = true
		switch c := c.(type) {
		case nil:
			return fmt.Errorf("redlock: client %d is nil", i+1)
		case *redis.ClusterClient, *redis.Ring:
			return fmt.Errorf("redlock: client %d is of many servers: each must be of one independent master", i+1)
		case *redis.Client:
			if !c.Options().ContextTimeoutEnabled {
				return fmt.Errorf("redlock: the client of %s ignores deadlines, so that a node that hangs "+
					"would hold up every round: set ContextTimeoutEnabled", addr)
			}
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
func identify(ctx context.Context, c redis.UniversalClient) (identity, error) {
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
// [lock.DownError] that is safe to show, wrapped in an error with addresses for the log. CheckMasters waits for a node
// that hangs until ctx ends.
func CheckMasters(ctx context.Context, clients []redis.UniversalClient, quarantine time.Duration) error {
	addrs, ids, errs := make([]string, len(clients)), make([]identity, len(clients)), make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		addrs[i] = addrOf(c, i)
		all.Go(func() {
			if ids[i], errs[i] = identify(ctx, c); errs[i] == nil {
				errs[i] = ids[i].eligible(quarantine)
			}
		})
	}
	all.Wait()
	if err := distinct(addrs, ids); err != nil {
		return err
	}
	return checkQuorum(addrs, errs)
}

// A quorumError has two DownErrors. The embedded one numbers the nodes, because clients must not see addresses.
// detail has the addresses, for the log.
type quorumError struct {
	*lock.DownError // what errors.As finds
	detail          *lock.DownError
}

func (e *quorumError) Error() string   { return e.detail.Error() }
func (e *quorumError) Unwrap() []error { return []error{e.DownError, e.detail} }

// distinct fails if two of the masters are the same server.
func distinct(addrs []string, ids []identity) error {
	seen := make(map[string]int)
	for i, id := range ids {
		if id.runID == "" {
			continue // not known yet
		}
		if first, twice := seen[id.runID]; twice {
			same := func(one, two string) *lock.DownError {
				return lock.NewDown("redlock", "same-master", "one", one, "two", two, "n", len(ids))
			}
			run := fmt.Sprintf("%s (run_id %.8s)", addrs[i], id.runID)
			return &quorumError{same(nth(first), nth(i)), same(addrs[first], run)}
		}
		seen[id.runID] = i
	}
	return nil
}

// checkQuorum returns nil if a majority of errs is nil. Otherwise its error lists the replies that do not count, with
// the reasons.
func checkQuorum(addrs []string, errs []error) error {
	var shown, logged []string
	for i, err := range errs {
		if err == nil {
			continue
		}
		reason, detail := reasonOf(err)
		shown = append(shown, nth(i)+" "+reason)
		logged = append(logged, addrs[i]+" "+reason+detail)
	}
	good := len(errs) - len(shown)
	if good >= quorum(len(errs)) {
		return nil
	}
	short := func(which []string) *lock.DownError {
		down := lock.NewDown("redlock", "quorum", "good", good, "all", len(errs), "must", quorum(len(errs)),
			"which", strings.Join(which, "; "))
		down.Denied = slices.ContainsFunc(errs, func(err error) bool { return deniedOf(err) != nil })
		return down
	}
	return &quorumError{short(shown), short(logged)}
}

func quorum(nodes int) int { return nodes/2 + 1 }

// nth returns the name of a node where its address must not be shown: its place in redlock.addrs.
func nth(i int) string { return fmt.Sprint("node ", i+1) }

// reasonOf returns err in words that can follow a node's name: a reason that is safe to show, and a detail for the
// log.
func reasonOf(err error) (reason, detail string) {
	var (
		ineligible *ineligibleError
		answer     redis.Error
		network    net.Error
		op         *net.OpError
	)
	switch {
	case errors.As(err, &ineligible):
		return ineligible.reason, ""
	case errors.Is(err, lock.ErrExpired), errors.Is(err, lock.ErrTaken):
		return "has not our key any more", ""
	case errors.As(err, &answer):
		code, _, _ := strings.Cut(answer.Error(), " ") // the rest may contain other addresses, for example in MOVED
		return "says " + code + remedy(code), " (" + answer.Error() + ")"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "did not answer in time", ""
	case errors.As(err, &op):
		return "is not reached", " (" + op.Err.Error() + ")"
	default:
		return "gave no answer", " (" + err.Error() + ")"
	}
}

// remedy returns how to repair the cause of an error reply, or "" if that is not known.
func remedy(code string) string {
	switch code {
	case "READONLY":
		return ": it is a replica; list independent masters"
	case "OOM":
		return ": it is out of memory; raise its maxmemory, or free some"
	case "WRONGTYPE":
		return ": it has no lock but something else under the key's name; remove or rename it"
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return ": see redis.username and redis.password"
	case "MOVED", "ASK", "CLUSTERDOWN":
		return ": it is of a Redis Cluster; list independent masters"
	}
	return ""
}
