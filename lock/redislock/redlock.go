package redislock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// RedlockOptions are the choices of a Redlock; a zero field means its default.
type RedlockOptions struct {
	Lease       time.Duration // the nodes free the key this long after the last renewal; default 10 s, renewed every third
	NodeTimeout time.Duration // how long one node has to answer, so that a dead one is no hindrance; default 50 ms
	MaxPause    time.Duration // longest pause between tries, each drawn at random below it; default 50 ms. It must be long beside a round trip
	MaxHold     time.Duration // renewal ends after this and the lease is lost: a hung holder must not hold for ever; default 5 min

	// Quarantine: a node that was started less than this ago does not count, because it may have forgotten a key that somebody
	// counts on. Default Lease; it must not be shorter than the Lease of anybody who uses these nodes. A negative one is none at all: for
	// nodes that forget nothing (appendonly yes, appendfsync always), or to begin at once where no lock was ever held.
	Quarantine time.Duration

	// Counted is told on how many nodes a lease stands, after every round that granted or renewed one. It must be quick. Default nil.
	Counted func(key string, nodes int)
}

// Redlock is a lock on N independent Redis masters, held by whoever has the key on a majority of them:
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/, to the letter, and with what the letter leaves open.
//
// A try sends SET NX PX with one random value to all nodes at once. It has the lock if N/2+1 granted it, and if of the lease, less
// 1 % and 2 ms for clocks of different rates, something is left, counted from before the first request. Otherwise it takes back
// what it was or may have been granted, on a context of its own and until the node answers (a node that answered that another has the
// key has nothing of ours), and tries again after a random pause, or those who split the vote would split it for ever.
//
// Every third of the lease all nodes are asked for another one. It counts if a majority *still* has the key: then nobody else can
// have had a majority in between. Only then the key is set again where it was missing, for as long as on the others, and counts from
// the next round on: so a lease that began on 3 of 5 nodes grows to 5 when the others come back, instead of being worn down to 2.
// A renewal without a majority changes nothing and is tried again; that the majority is gone for good is a loss at once.
//
// A node does not count for Quarantine after its start: it may have been part of a majority and have come back empty. Nor does a
// replica, and if two of the nodes are the same server (by run_id), nothing is granted at all. Both are learnt from INFO after
// every new connection, because a restarted server cannot be reached by an old one.
//
// Round trips, each to all N nodes in parallel and as slow as the slowest, or NodeTimeout: 2 uncontended (acquire 1, release 1), and 1 for
// each renewal; 1 more after new connections, and after a renewal that found keys missing; contended 1 for every try in vain,
// 2 if it was granted some. A node that hangs costs a round NodeTimeout, for a second or so; then tries do without it until it answers.
//
// Promises: exclusion while no lease is lost, also when a minority of the nodes fails or restarts empty; the holder is told by its
// own clock before the nodes free the key; a crashed holder is followed within Lease. With fewer than a majority of the nodes it
// says ErrDown, promptly.
//
// Does not promise a fence: NoFence. Kleppmann's argument (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html):
// a random value is not ordered, so no store can refuse the write of a holder that was paused past its lease, or that lost a node to
// a jump of the clock; who needs correctness needs a fence, and who wants efficiency is served by one Redis. Antirez' answer
// (http://antirez.com/news/101): the elapsed time is checked after the majority is reached, so only a pause after that harms, which no lease
// of any lock survives, clocks need only run at about the same rate, and a store that compares and sets can check the random value.
// Nor fairness, nor survival of a jump of the nodes' clocks by more than a small part of the lease.
type Redlock struct {
	nodes   []*node
	addrs   []string
	o       RedlockOptions
	quorum  int
	sweeper *sweeper

	release, renew *script
}

// NewRedlock makes a Redlock on clients, one for each node: at least three, better five. It asks no server anything. The clients must be
// of single servers and heed deadlines. Each client is given a hook, for good: make few Redlocks. Close it when no lease is held any more.
func NewRedlock(clients []redis.UniversalClient, o RedlockOptions) (*Redlock, error) {
	def(&o.Lease, 10*time.Second)
	def(&o.NodeTimeout, 50*time.Millisecond)
	def(&o.MaxPause, 50*time.Millisecond)
	def(&o.MaxHold, 5*time.Minute)
	def(&o.Quarantine, o.Lease)
	if len(clients) < 3 {
		return nil, fmt.Errorf("redlock needs at least 3 independent Redis masters, better 5, and was given %d", len(clients))
	}
	seen := make(map[string]bool)
	for i, c := range clients {
		addr := addrOf(c, i)
		if seen[addr] {
			return nil, fmt.Errorf("redlock: %s is listed twice: list %d independent masters", addr, len(clients))
		}
		seen[addr] = true
		switch c := c.(type) {
		case nil:
			return nil, fmt.Errorf("redlock: client %d is nil", i+1)
		case *redis.ClusterClient, *redis.Ring:
			return nil, fmt.Errorf("redlock: client %d is of many servers: each must be of one independent master", i+1)
		case *redis.Client:
			if !c.Options().ContextTimeoutEnabled {
				return nil, fmt.Errorf("redlock: the client of %s ignores deadlines, so that a node that hangs would hold up every round: "+
					"set ContextTimeoutEnabled", addr)
			}
		}
	}
	r := &Redlock{
		o: o, quorum: quorum(len(clients)), sweeper: newSweeper(),
		release: newScript(releaseSource), renew: newScript(renewSource),
	}
	for i, c := range clients {
		n := newNode(c, i)
		r.nodes, r.addrs = append(r.nodes, n), append(r.addrs, n.addr)
	}
	return r, nil
}

// Close gives up the releases that have not reached their node yet; their keys run out with the lease. Leases are not touched.
func (r *Redlock) Close() error {
	r.sweeper.close()
	return nil
}

// Acquire tries, and if ctx allows tries again until ctx ends.
func (r *Redlock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	pause := func() time.Duration { return rand.N(r.o.MaxPause) }
	return poll(ctx, o, pause, func() (*lock.Lease, error) { return r.try(ctx, key, o) })
}

func (r *Redlock) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	b := r.ballot(key, o)
	sent := time.Now()
	votes := b.bid(ctx, r.o.Lease)
	yes, answers := votes.count(), votes.errors()
	took := time.Since(sent)
	same := r.distinct()
	if yes >= r.quorum && took < lock.Valid(r.o.Lease) && same == nil {
		r.counted(key, yes)
		return b.hold(sent), nil
	}
	b.takeBack(context.WithoutCancel(ctx))
	switch short := r.minority(answers); {
	case same != nil:
		return nil, same
	case yes >= r.quorum:
		return nil, &lock.DownError{Server: "redlock", Reason: fmt.Sprintf(
			"%d of %d nodes granted the lock, but after %v of a lease of %v: nothing of it is left",
			yes, len(r.nodes), took.Round(time.Millisecond), r.o.Lease)}
	case short != nil && waitOver(ctx, o):
		return nil, context.Cause(ctx) // the wait was over; that says nothing of the nodes
	case short != nil:
		return nil, short
	}
	return nil, votes.held(key)
}

// each asks all nodes at once, and returns when all have answered or had their time.
func (r *Redlock) each(ctx context.Context, ask func(ctx context.Context, i int, n *node)) {
	ctx, cancel := context.WithTimeout(ctx, r.o.NodeTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, n := range r.nodes {
		all.Go(func() { ask(ctx, i, n) })
	}
	all.Wait()
}

func (r *Redlock) counted(key string, nodes int) {
	if r.o.Counted != nil {
		r.o.Counted(key, nodes)
	}
}

// distinct fails if two of the nodes are the same server, as far as they have told.
func (r *Redlock) distinct() error {
	ids := make([]identity, len(r.nodes))
	for i, n := range r.nodes {
		n.mu.Lock()
		ids[i] = n.id
		n.mu.Unlock()
	}
	return distinct(r.addrs, ids)
}
