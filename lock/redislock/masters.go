package redislock

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A node is one of the masters of a Redlock.
type node struct {
	client *redis.Client
	dials  atomic.Int64             // connections made so far
	id     atomic.Pointer[identity] // of the server that was last asked; nil: none was

	// silent: the node has not answered a release for much longer than a round waits. Tries skip it until it answers,
	// so that they neither wait for the time-out nor leave more unanswered requests.
	silent atomic.Bool
}

var errSilent = &ineligibleError{"owes an answer to an earlier request"}

// An identity is what a server reports about itself.
type identity struct {
	dials   int64  // of the node, before the identity was read
	runID   string // new with every start
	replica bool
	born    time.Time // a time at or after the start of the server, by our monotonic clock
}

// An ineligibleError is the reason why a node's reply does not count.
type ineligibleError struct{ reason string }

func (e *ineligibleError) Error() string { return e.reason }

// newNode returns a node that counts its connections.
func newNode(c *redis.Client) *node {
	n := &node{client: c}
	c.AddHook((*dialCounter)(&n.dials))
	return n
}

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

// eligible returns nil if the reply that n has just given counts, or the reason why not. A restarted server can only
// be reached over a new connection. So the node's identity is read after each new connection, and otherwise the last
// one is used.
func (n *node) eligible(ctx context.Context, quarantine time.Duration) error {
	dials, id := n.dials.Load(), n.id.Load()
	if id == nil || id.dials != dials {
		fresh, err := identify(ctx, n.client)
		if err != nil {
			return err
		}
		fresh.dials, id = dials, fresh
		n.id.Store(fresh)
	}
	return id.eligible(quarantine)
}

func (id *identity) eligible(quarantine time.Duration) error {
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
func identify(ctx context.Context, c *redis.Client) (*identity, error) {
	var server, replication *redis.StringCmd
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		server, replication = p.Info(ctx, "server"), p.Info(ctx, "replication")
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read its identity (INFO): %w", err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(server.Val() + "\r\n" + replication.Val()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	seconds, err := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if err != nil || info["run_id"] == "" {
		return nil, &ineligibleError{"does not report its run_id and uptime (INFO server)"}
	}
	// The uptime is the difference of two truncated seconds, so it may be a second too large.
	up := time.Duration(seconds-1) * time.Second
	return &identity{runID: info["run_id"], replica: info["role"] != "master", born: time.Now().Add(-up)}, nil
}

// distinct returns an error if two of the nodes are known to be the same server.
func (r *Redlock) distinct() error {
	ids := make([]*identity, len(r.nodes))
	for i, n := range r.nodes {
		ids[i] = n.id.Load()
	}
	return distinct(r.addrs, ids)
}

// distinct fails if two of the masters are the same server. Clients see the places of nodes in redlock.urls, and the
// log their addresses.
func distinct(addrs []string, ids []*identity) error {
	seen := make(map[string]int)
	for i, id := range ids {
		if id == nil {
			continue // not known yet
		}
		if first, twice := seen[id.runID]; twice {
			same := driver.NewDown("redlock", "same-master", "one", nth(first), "two", nth(i), "n", len(ids))
			return fmt.Errorf("%w: %s and %s have run_id %.8s", same, addrs[first], addrs[i], id.runID)
		}
		seen[id.runID] = i
	}
	return nil
}

// CheckMasters is for a health check. It returns nil if enough of the nodes to grant a lock are distinct masters,
// answer, and have been up for longer than quarantine (see [RedlockOptions]; 0 or less means any time). The error is a
// [driver.DownError] that is safe to show, wrapped in an error with addresses for the log. CheckMasters waits for a
// node that hangs until ctx ends.
func CheckMasters(ctx context.Context, clients []*redis.Client, quarantine time.Duration) error {
	addrs, ids := make([]string, len(clients)), make([]*identity, len(clients))
	errs := atOnce(clients, func(i int, c *redis.Client) (err error) {
		addrs[i] = c.Options().Addr
		if ids[i], err = identify(ctx, c); err != nil {
			return err
		}
		return ids[i].eligible(quarantine)
	})
	return cmp.Or(distinct(addrs, ids), checkQuorum(addrs, errs))
}
