package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// RedlockOptions are the options of a Redlock. A zero field means its default.
type RedlockOptions struct {
	// Lease is the time from the last renewal until the nodes free the key; default 10 s. It is renewed after each
	// third of this time.
	Lease time.Duration
	// NodeTimeout limits the wait for one node, so that a dead node does not delay the others; default 50 ms.
	NodeTimeout time.Duration
	// MaxPause is the longest pause between tries; each pause is random. It must be long compared to a round trip.
	// Default 50 ms.
	MaxPause time.Duration
	// MaxHold is the longest hold. After it the lease is lost, so that a hung holder does not hold for ever. Default
	// 5 min.
	MaxHold time.Duration

	// Quarantine is how long a node does not count after its start, because it may have lost a key that a holder
	// relies on. Default Lease. It must not be shorter than the Lease of any client of these nodes. Negative means
	// none: for nodes that lose nothing (appendonly yes, appendfsync always), or before the first lock.
	Quarantine time.Duration

	// Counted is called with the number of nodes that have the key, after every round that granted or renewed a
	// lease. It must return quickly. Default nil.
	Counted func(key string, nodes int)
}

// Redlock is a lock on N independent Redis masters. A caller holds it if it has the key on a majority of them:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
//
// A try sends SET NX PX with one random value to all nodes at once. It has the lock if N/2+1 nodes granted it within
// the lease, which counts from before the first request and is shortened by 1 % and 2 ms for clocks of different rates.
// Otherwise it deletes the key on every node that granted it or did not answer, with its own context and until the node
// answers. It retries after a random pause. With equal pauses, contenders could split the nodes among themselves again
// in every try.
//
// After each third of the lease, a renewal is sent to all nodes. It succeeds if a majority *still* has the key: then no
// other caller can have had a majority in between. Only after such a success is the key set again on nodes where it was
// missing, with the same expiry as on the other nodes. These nodes count from the next round on. So a lease that began
// on 3 of 5 nodes grows to 5 when the other nodes return. A renewal without a majority changes nothing and is retried.
// If a majority has answered that it does not have the key, the lease is lost at once.
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
	cleanup *cleanup

	releaseScript, renewScript *redisscript.Script
}

// NewRedlock returns a Redlock on clients, one for each node: at least three, better five. It sends nothing. Each
// client must be of a single server, with ContextTimeoutEnabled. NewRedlock adds a permanent hook to each client, so
// make few Redlocks. Close it when all leases have ended.
func NewRedlock(clients []redis.UniversalClient, o RedlockOptions) (*Redlock, error) {
	def(&o.Lease, 10*time.Second)
	def(&o.NodeTimeout, 50*time.Millisecond)
	def(&o.MaxPause, 50*time.Millisecond)
	def(&o.MaxHold, 5*time.Minute)
	def(&o.Quarantine, o.Lease)
	err := cmp.Or(
		lock.AtLeast("Lease", o.Lease, lock.MinLease), lock.AtLeast("NodeTimeout", o.NodeTimeout, 0),
		lock.AtLeast("MaxPause", o.MaxPause, 0), lock.AtLeast("MaxHold", o.MaxHold, 0), checkClients(clients),
	)
	if err != nil {
		return nil, err
	}
	r := &Redlock{
		o: o, quorum: quorum(len(clients)), cleanup: newCleanup(),
		releaseScript: redisscript.New(releaseSource), renewScript: redisscript.New(renewSource),
	}
	for i, c := range clients {
		n := newNode(c, i)
		r.nodes, r.addrs = append(r.nodes, n), append(r.addrs, n.addr)
	}
	return r, nil
}

// Close drops the releases that have not reached their node yet; their keys expire with the lease. Leases are not
// affected.
func (r *Redlock) Close() error {
	r.cleanup.close()
	return nil
}

// Acquire tries until ctx ends, or once with TryOnce.
func (r *Redlock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := lock.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	pause := func() time.Duration { return rand.N(r.o.MaxPause) }
	return poll(ctx, o, pause, func() (*lock.Lease, error) { return r.try(ctx, key, o) })
}

func (r *Redlock) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a := r.attempt(key, o)
	sent := time.Now()
	responses := a.acquire(ctx, r.o.Lease)
	granted, errs := responses.granted(), responses.errors()
	took := time.Since(sent)
	same := r.distinct()
	if r.wins(granted, took) && same == nil {
		r.counted(key, granted)
		return a.hold(sent), nil
	}
	a.release(context.WithoutCancel(ctx))
	switch short := checkQuorum(r.addrs, errs); {
	case same != nil:
		return nil, same
	case granted >= r.quorum:
		return nil, lock.NewDown("redlock", "lease-spent", "n", granted, "all", len(r.nodes),
			"took", took.Round(time.Millisecond), "lease", r.o.Lease.String())
	case short != nil && waitOver(ctx):
		return nil, context.Cause(ctx) // the nodes may be up
	case short != nil:
		return nil, short
	}
	return nil, responses.held(key)
}

// wins reports whether a try has the lock if this many nodes granted it within took, counted from before its first
// request.
func (r *Redlock) wins(granted int, took time.Duration) bool {
	return granted >= r.quorum && !spent(took, r.o.Lease)
}

// stands returns the result of a renewal: ours nodes have our key, and others nodes answered that they do not. renewed
// means that a majority has the key, and lost that no majority can have it any more. If both are false, the renewal is
// retried.
func (r *Redlock) stands(ours, others int) (renewed, lost bool) {
	return ours >= r.quorum, ours < r.quorum && others > len(r.nodes)-r.quorum
}

// keep returns the Keep of a lease, without Renew.
func (r *Redlock) keep() lock.Keep {
	return lock.Keep{TTL: r.o.Lease, Every: r.o.Lease / 3, Max: r.o.MaxHold}
}

// round calls ask for all nodes at once, and returns when each has answered or NodeTimeout has passed.
func (r *Redlock) round(ctx context.Context, ask func(ctx context.Context, i int, n *node)) {
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

// distinct returns an error if two of the nodes are known to be the same server.
func (r *Redlock) distinct() error {
	ids := make([]identity, len(r.nodes))
	for i, n := range r.nodes {
		n.mu.Lock()
		ids[i] = n.id
		n.mu.Unlock()
	}
	return distinct(r.addrs, ids)
}

// A redlockAttempt is one try for a key on all nodes, and its lease. Every try has a new value, because a key that an
// earlier try left on a node may still be deleted at any time.
type redlockAttempt struct {
	*Redlock
	key, name, value string
	outcomes         []outcome // by node
}

// An outcome is the result of the requests that set our key on a node.
type outcome int8

const (
	notSet  outcome = iota // the node does not have our key, and will not have it
	set                    // the node has our key, or had it
	unknown                // a request got no answer, and may even arrive after the release
)

func (r *Redlock) attempt(key string, o lock.Options) *redlockAttempt {
	return &redlockAttempt{r, key, "redlock:" + tag(key), newValue(o), make([]outcome, len(r.nodes))}
}

// A response is a node's reply to an acquisition: the node granted the key, or returned the holder, or does not
// count.
type response struct {
	granted bool
	found   keyState
	err     error // why the answer does not count; nil: it counts
}

type responses []response

func (a *redlockAttempt) acquire(ctx context.Context, lease time.Duration) responses {
	list := make(responses, len(a.nodes))
	a.round(ctx, func(ctx context.Context, i int, n *node) { list[i] = a.acquireAt(ctx, i, n, lease) })
	return list
}

func (a *redlockAttempt) acquireAt(ctx context.Context, i int, n *node, lease time.Duration) response {
	if n.silent.Load() {
		return response{err: errSilent}
	}
	taken, found, err := setNX(ctx, nil, n.client, a.name, a.value, lease)
	switch {
	case err != nil && (refused(err) || unsent(err)):
		return response{err: err}
	case err != nil:
		a.outcomes[i] = unknown
		return response{err: err}
	case taken || found.value == a.value: // if taken is false, an earlier request without a reply had set the key
		a.outcomes[i] = set
		return response{granted: true, err: n.eligible(ctx, a.o.Quarantine)}
	}
	return response{found: found, err: n.eligible(ctx, a.o.Quarantine)}
}

// granted returns the number of nodes that granted the lock and are eligible to vote.
func (list responses) granted() (nodes int) {
	for _, r := range list {
		if r.granted && r.err == nil {
			nodes++
		}
	}
	return nodes
}

// errors returns the error of each node, which is nil if its reply counts.
func (list responses) errors() []error {
	errs := make([]error, len(list))
	for i, r := range list {
		errs[i] = r.err
	}
	return errs
}

// held returns the error of a try. It names the holder if a majority of the nodes that answered report the same one.
func (list responses) held(key string) *lock.HeldError {
	answered, votes, longest := 0, make(map[string]int), make(map[string]keyState)
	for _, r := range list {
		if r.err != nil {
			continue
		}
		answered++
		if r.granted || r.found.value == "" {
			continue
		}
		votes[r.found.value]++
		if r.found.ttl >= longest[r.found.value].ttl {
			longest[r.found.value] = r.found
		}
	}
	for value, n := range votes {
		if n > answered/2 {
			return longest[value].held(key)
		}
	}
	return &lock.HeldError{Key: key}
}

// hold returns the lease of an attempt that has a majority.
func (a *redlockAttempt) hold(sent time.Time) *lock.Lease {
	l, _ := lock.NewLease(a.key, lock.NoFence, a.free)
	k := a.keep()
	k.Renew = a.renew
	l.Keep(sent, k)
	return l
}

// renew requests a renewal from all nodes.
func (a *redlockAttempt) renew(ctx context.Context) error {
	sent := time.Now()
	errs := make([]error, len(a.nodes))
	a.round(ctx, func(ctx context.Context, i int, n *node) {
		reply := run(ctx, n.client, a.renewScript, []string{a.name}, a.value, a.o.Lease.Milliseconds())
		errs[i] = ownership(reply.Int())
		if errs[i] == nil {
			errs[i] = n.eligible(ctx, a.o.Quarantine)
		}
	})
	ours, gone, taken := tally(errs)
	renewed, lost := a.stands(ours, gone+taken)
	switch {
	case renewed:
		a.counted(a.key, ours+a.topUp(ctx, sent, errs))
		return nil
	case !lost:
		return checkQuorum(a.addrs, errs)
	case taken > 0:
		return fmt.Errorf("%w: %d of %d nodes still have our key", lock.ErrTaken, ours, len(a.nodes))
	default:
		return fmt.Errorf("%w: %d of %d nodes still have our key", lock.ErrExpired, ours, len(a.nodes))
	}
}

// topUp sets the key again on nodes where the renewal found it missing, and returns how many of these nodes count.
// The key ends there when it ends on the other nodes, so that after a crash the next holder need not wait longer. The
// end of the lease does not interrupt topUp, because the release must know all nodes that may have the key.
func (a *redlockAttempt) topUp(ctx context.Context, sent time.Time, renewed []error) int {
	lease := a.o.Lease - time.Since(sent)
	if _, gone, _ := tally(renewed); gone == 0 || lease <= time.Millisecond {
		return 0
	}
	list := make(responses, len(a.nodes))
	a.round(context.WithoutCancel(ctx), func(ctx context.Context, i int, n *node) {
		if errors.Is(renewed[i], lock.ErrExpired) {
			list[i] = a.acquireAt(ctx, i, n, lease)
		}
	})
	return list.granted()
}

// tally counts the nodes that have our key, that have no key, and that have another caller's key.
func tally(errs []error) (ours, gone, taken int) {
	for _, err := range errs {
		switch {
		case err == nil:
			ours++
		case errors.Is(err, lock.ErrExpired):
			gone++
		case errors.Is(err, lock.ErrTaken):
			taken++
		}
	}
	return ours, gone, taken
}

// free releases the lock. It returns nil if a majority still had our key, ErrExpired or ErrTaken if no majority can
// have had it, and ErrDown if too few nodes answered.
func (a *redlockAttempt) free(ctx context.Context) error {
	errs := a.release(ctx)
	ours, gone, taken := tally(errs)
	switch {
	case ours >= a.quorum:
		return nil
	case len(errs)-gone-taken >= a.quorum:
		return checkQuorum(a.addrs, errs)
	case taken > 0:
		return lock.ErrTaken
	default:
		return lock.ErrExpired
	}
}

// release deletes our key on every node that may have it. A key that cannot be deleted now becomes an orphan.
func (a *redlockAttempt) release(ctx context.Context) []error {
	errs := make([]error, len(a.nodes))
	a.round(ctx, func(ctx context.Context, i int, n *node) {
		if a.outcomes[i] == notSet {
			errs[i] = lock.ErrExpired
			return
		}
		errs[i] = lock.Down("release", errSilent)
		if !n.silent.Load() {
			errs[i] = ownership(run(ctx, n.client, a.releaseScript, []string{a.name}, a.value).Int())
		}
		left := orphan{a.name, a.value, time.Now().Add(a.o.Lease), 1}
		switch answered := !errors.Is(errs[i], lock.ErrDown); {
		case errs[i] == nil, answered && a.outcomes[i] == set:
			return
		case a.outcomes[i] == unknown && !answered:
			left.answers = 2
			fallthrough
		case a.outcomes[i] == unknown:
			left.until = time.Now().Add(unknownLife)
		}
		n.addOrphan(a.cleanup, a.releaseScript, left)
	})
	return errs
}
