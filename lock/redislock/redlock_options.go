package redislock

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock/internal/request"
)

// RedlockOptions are the options of a Redlock. A zero field means its default.
type RedlockOptions struct {
	// Lease is the time from the last renewal until the nodes free the key; default 10 s. It is renewed after each
	// third of this time.
	Lease time.Duration
	// NodeTimeout limits the wait for one node, so that a dead node does not delay the others; default 50 ms.
	NodeTimeout time.Duration
	// MaxHold is the longest hold. After it the lease is lost, so that a hung holder does not hold for ever. Default
	// 5 min.
	MaxHold time.Duration
	// Quarantine is how long a node does not count after its start, because it may have lost a key that a holder
	// relies on. Default Lease. It must not be shorter than the Lease of any client of these nodes. Negative means
	// none: for nodes that lose nothing (appendonly yes, appendfsync always), or before the first lock.
	Quarantine time.Duration
}

// Redlock is a lock on N independent Redis masters. A caller holds it if it has the key on a majority of them:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/. The algorithm is in redlock.go.
//
// A try has the lock if N/2+1 nodes granted it within the lease, which counts from before the first request and is
// shortened by 1 % and 2 ms for clocks of different rates. Otherwise the key is deleted on every node that granted it
// or did not answer, until the node answers.
//
// A renewal succeeds if a majority *still* has the key: then no other caller can have had a majority in between. Only
// after such a success is the key set again on nodes where it was missing, with the same expiry as on the other nodes.
// So a lease that began on 3 of 5 nodes grows to 5 when the other nodes return. A renewal without a majority changes
// nothing and is retried. If a majority has answered that it does not have the key, the lease is lost at once.
//
// For Quarantine after its start a node does not count: it may have been part of a majority, and have restarted empty.
// A replica does not count either. If two of the nodes are the same server (by run_id), nothing is granted at all.
// Redlock reads this with INFO after every new connection, because a restarted server needs a new one.
//
// Round trips, each to all N nodes in parallel, so each takes as long as the slowest node or NodeTimeout: 2 uncontended
// (acquire 1, release 1), and 1 for each renewal; 1 more after new connections, and after a renewal that found keys
// missing. Contended: 1 for every failed try, 2 if some nodes granted it. A node that hangs makes rounds take
// NodeTimeout for about a second. After that, tries skip it until it answers.
//
// Promises: exclusion while no lease is lost, even if a minority of the nodes fails or restarts empty; a lease that
// reports its loss by the holder's own clock before the nodes free the key; after a crash of the holder another caller
// can get the lock within Lease. If less than a majority of the nodes answers, Acquire returns ErrDown promptly.
//
// It has no fence (NoFence). Kleppmann's argument
// (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html): random values have no order, so no
// store can refuse the write of a holder that was paused past its lease, or that lost a node when its clock jumped. A
// program that needs correctness needs a fence, and for efficiency one Redis is enough. Antirez' answer
// (http://antirez.com/news/101): the elapsed time is checked after the majority is reached, so only a pause after that
// does harm, and no lease of any lock survives such a pause; clocks need only run at about the same rate; and a store
// that compares and sets can check the random value. Redlock promises neither fairness nor exclusion after the clocks
// of nodes jump by more than a small part of the lease.
type Redlock struct {
	nodes   []*node
	addrs   []string
	o       RedlockOptions
	quorum  int
	cleanup *request.Cleanup
}

// NewRedlock returns a Redlock on clients, one for each node: at least three, better five. It sends nothing. Each
// client must have ContextTimeoutEnabled. NewRedlock adds a permanent hook to each client, so make few Redlocks. Close
// it when all leases have ended.
//
// Each round of a key needs a goroutine and a connection for each node. So 1,000 keys that are acquired or renewed at
// the same moment need up to 1,000 connections to each node. The clients' PoolSize limits that (by default to 10 for
// each CPU). A request that waits for a connection for longer than NodeTimeout does not count, so with many keys raise
// PoolSize or NodeTimeout.
func NewRedlock(clients []*redis.Client, o RedlockOptions) (*Redlock, error) {
	o.Lease, o.NodeTimeout = cmp.Or(o.Lease, 10*time.Second), cmp.Or(o.NodeTimeout, 50*time.Millisecond)
	o.MaxHold, o.Quarantine = cmp.Or(o.MaxHold, 5*time.Minute), cmp.Or(o.Quarantine, o.Lease)
	err := cmp.Or(
		driver.AtLeast("Lease", o.Lease, driver.MinLease), driver.AtLeast("NodeTimeout", o.NodeTimeout, 0),
		driver.AtLeast("MaxHold", o.MaxHold, 0), checkClients(clients),
	)
	if err != nil {
		return nil, err
	}
	r := &Redlock{o: o, quorum: quorum(len(clients)), cleanup: request.NewCleanup(nil)}
	for _, c := range clients {
		r.nodes, r.addrs = append(r.nodes, newNode(c)), append(r.addrs, c.Options().Addr)
	}
	return r, nil
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

// Promise is what it promises with the defaults of its options.
func (*Redlock) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Blocking: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 10 * time.Second,
	}
}

// Close ends the waits, with lock.ErrClosed. It drops the releases that have not reached their node yet; their keys
// expire with the lease. Leases are not affected.
func (r *Redlock) Close() error {
	r.cleanup.Close()
	return nil
}

// redlockName returns the name of a lock on each node.
func redlockName(key string) string { return "redlock:" + request.Tag(key) }
