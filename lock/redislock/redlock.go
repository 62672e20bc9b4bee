package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
func (r *Redlock) Acquire(ctx context.Context, key string) (*lock.Lease, error) {
	return poll(ctx, func() time.Duration { return rand.N(r.o.MaxPause) }, func() (*lock.Lease, error) { return r.try(ctx, key) })
}

func (r *Redlock) try(ctx context.Context, key string) (*lock.Lease, error) {
	b := r.ballot(ctx, key)
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
	case short != nil && waitOver(ctx):
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

// A ballot is one try for a key, and the lease that comes of it. Every try has a value of its own: what an earlier one left on a
// node that did not answer may be swept at any time.
type ballot struct {
	*Redlock
	key, name, value string
	traces           []trace // by node
}

// A trace is what a node may have of ours.
type trace int8

const (
	nothing trace = iota
	ours          // it has the key, or had it
	unsure        // a request got no answer, and may even arrive later than what takes the key back
)

func (r *Redlock) ballot(ctx context.Context, key string) *ballot {
	return &ballot{r, key, "redlock:" + tag(key), token(ctx), make([]trace, len(r.nodes))}
}

// A vote is what a node answered to a bid: the key is ours, or another's, or the answer does not count.
type vote struct {
	yes   bool
	other sight
	err   error
}

type votes []vote

// bid asks all nodes for the key.
func (b *ballot) bid(ctx context.Context, lease time.Duration) votes {
	list := make(votes, len(b.nodes))
	b.each(ctx, func(ctx context.Context, i int, n *node) { list[i] = b.bidAt(ctx, i, n, lease) })
	return list
}

func (b *ballot) bidAt(ctx context.Context, i int, n *node, lease time.Duration) vote {
	if n.silent.Load() {
		return vote{err: errSilent}
	}
	taken, other, err := bid(ctx, n.client, b.name, b.value, lease)
	switch {
	case err != nil && (refused(err) || unsent(err)):
		return vote{err: err}
	case err != nil:
		b.traces[i] = unsure
		return vote{err: err}
	case taken || other.value == b.value: // ours, if not granted now: an earlier request without an answer was done after all
		b.traces[i] = ours
		return vote{yes: true, err: n.doubt(ctx, b.o.Quarantine)}
	}
	return vote{other: other, err: n.doubt(ctx, b.o.Quarantine)}
}

var errSilent = &doubtError{"owes an answer to an earlier request"}

// count is how many granted the lock, and count.
func (list votes) count() (yes int) {
	for _, v := range list {
		if v.yes && v.err == nil {
			yes++
		}
	}
	return yes
}

// errors says which answers do not count.
func (list votes) errors() []error {
	errs := make([]error, len(list))
	for i, v := range list {
		errs[i] = v.err
	}
	return errs
}

// held is who has the key, if a majority of those who answered agree on that: a vote that was split has no winner.
func (list votes) held(key string) *lock.HeldError {
	answered, named, longest := 0, make(map[string]int), make(map[string]sight)
	for _, v := range list {
		if v.err != nil {
			continue
		}
		answered++
		if v.yes || v.other.value == "" {
			continue
		}
		named[v.other.value]++
		if v.other.ttl >= longest[v.other.value].ttl {
			longest[v.other.value] = v.other
		}
	}
	for value, times := range named {
		if times > answered/2 {
			return longest[value].held(key)
		}
	}
	return &lock.HeldError{Key: key}
}

// hold makes the lease of a ballot that was won.
func (b *ballot) hold(sent time.Time) *lock.Lease {
	l, _ := lock.NewLease(b.key, lock.NoFence, b.free)
	l.Keep(sent, lock.Keep{TTL: b.o.Lease, Every: b.o.Lease / 3, Max: b.o.MaxHold, Renew: b.prolong})
	return l
}

// prolong asks all nodes for another lease.
func (b *ballot) prolong(ctx context.Context) error {
	sent := time.Now()
	answers := make([]error, len(b.nodes))
	b.each(ctx, func(ctx context.Context, i int, n *node) {
		answers[i] = verdict(b.renew.run(ctx, n.client, []string{b.name}, b.value, b.o.Lease.Milliseconds()).Int())
		if answers[i] == nil {
			answers[i] = n.doubt(ctx, b.o.Quarantine)
		}
	})
	still, gone, taken := tally(answers)
	switch {
	case still >= b.quorum:
		b.counted(b.key, still+b.topUp(ctx, sent, answers))
		return nil
	case gone+taken <= len(b.nodes)-b.quorum:
		return b.minority(answers)
	case taken > 0:
		return fmt.Errorf("%w: %d of %d nodes still have our key", lock.ErrTaken, still, len(b.nodes))
	default:
		return fmt.Errorf("%w: %d of %d nodes still have our key", lock.ErrExpired, still, len(b.nodes))
	}
}

// topUp sets the key again where it is missing and returns on how many nodes that count. It ends there as on the others, so that
// nobody waits longer for a crashed holder. It is not cut off by the end of the lease: what it sets must be known to the release.
func (b *ballot) topUp(ctx context.Context, sent time.Time, answers []error) int {
	lease := b.o.Lease - time.Since(sent)
	if _, gone, _ := tally(answers); gone == 0 || lease <= time.Millisecond {
		return 0
	}
	list := make(votes, len(b.nodes))
	b.each(context.WithoutCancel(ctx), func(ctx context.Context, i int, n *node) {
		if errors.Is(answers[i], lock.ErrExpired) {
			list[i] = b.bidAt(ctx, i, n, lease)
		}
	})
	return list.count()
}

func tally(answers []error) (ours, gone, taken int) {
	for _, err := range answers {
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

// free gives the lease back. It is nil if a majority had our key still, ErrExpired or ErrTaken if that cannot be, and ErrDown if
// too few nodes answered to know.
func (b *ballot) free(ctx context.Context) error {
	answers := b.takeBack(ctx)
	still, gone, taken := tally(answers)
	switch {
	case still >= b.quorum:
		return nil
	case len(answers)-gone-taken >= b.quorum:
		return b.minority(answers)
	case taken > 0:
		return lock.ErrTaken
	default:
		return lock.ErrExpired
	}
}

// takeBack deletes our key wherever it may be, and has swept what cannot be deleted now.
func (b *ballot) takeBack(ctx context.Context) []error {
	answers := make([]error, len(b.nodes))
	b.each(ctx, func(ctx context.Context, i int, n *node) {
		if b.traces[i] == nothing {
			answers[i] = lock.ErrExpired
			return
		}
		answers[i] = lock.Down("release", errSilent)
		if !n.silent.Load() {
			answers[i] = verdict(b.release.run(ctx, n.client, []string{b.name}, b.value).Int())
		}
		left := leftover{b.name, b.value, time.Now().Add(b.o.Lease), 1}
		switch answered := !errors.Is(answers[i], lock.ErrDown); {
		case answers[i] == nil, answered && b.traces[i] == ours:
			return
		case b.traces[i] == unsure && !answered:
			left.looks = 2
			fallthrough
		case b.traces[i] == unsure:
			left.until = time.Now().Add(unsureLife)
		}
		n.leave(b.sweeper, b.release, left)
	})
	return answers
}

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
