// Package redislock holds the locks on Redis: a key with a time limit, owned by whoever wrote its random value.
package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
)

// fenceLife is how long the server's clock must be past the last fence of a key before that is forgotten: a day. It may
// be forgotten because the next fence starts from the clock, which is larger then. Only a clock that is set back by
// more than this, after so long without a holder, could repeat one. So of keys there is one on the server for each lock
// that was held in the last day, of about 120 bytes and the name; a fence that was ahead of the clock stays for so much
// longer.
const fenceLife = 24 * time.Hour

// late is whether nothing is left of a lease that was asked for at sent. What was granted then may be another's by now.
func late(sent time.Time, lease time.Duration) bool { return time.Since(sent) >= lock.Valid(lease) }

var (
	escape   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
)

// tag is key as a hash tag, so that the keys of one lock share a slot of Redis Cluster, whatever the key is. No two keys have the same.
// An empty tag would be none: that of the empty key is a sign that no other key comes out as.
func tag(key string) string {
	if key == "" {
		return "{%}"
	}
	return "{" + escape.Replace(key) + "}"
}

// untag is the reverse, without the braces.
func untag(inside string) string {
	if inside == "%" {
		return ""
	}
	return unescape.Replace(inside)
}

// server is Redis as a plain lock sees it: two scripts, one round trip each.
type server struct {
	client           redis.UniversalClient
	acquire, release *script
	lease            time.Duration
	acks             acks
	sweeper          *sweeper
}

func newServer(c redis.UniversalClient, lease time.Duration, a acks) *server {
	return &server{
		client: c, lease: lease, acks: a, sweeper: newSweeper(),
		acquire: newScript(acquireSource), release: newScript(releaseSource),
	}
}

// A claim is one acquisition: a key and the value that only we would write there.
type claim struct {
	*server
	key, name string // as asked for, and as the key in Redis
	value     string // token, blank, owner
}

func (s *server) claim(ctx context.Context, key string) claim {
	return claim{s, key, "lock:" + tag(key), uuid.NewString() + " " + lock.Owner(ctx)}
}

// try asks once. The error is a HeldError if another holds the key. After any other error the outcome is unknown, so it
// frees before it returns, on a context of its own.
func (c claim) try(ctx context.Context) (lock.Fence, error) {
	answered, short := c.acks.run(ctx, c.client, c.acquire, []string{c.name, c.name + ":fence"},
		c.value, c.lease.Milliseconds(), fenceLife.Milliseconds())
	reply, err := answered.Slice()
	if err == nil {
		var fence lock.Fence
		fence, err = answer(c.key, reply)
		switch {
		case errors.Is(err, lock.ErrHeld):
			return 0, err
		case err == nil && short != nil:
			detached(ctx, c.free)
			return 0, short
		case err == nil:
			return fence, nil
		}
	}
	if refused(err) {
		return 0, refusal(c.name, err)
	}
	if crowded(err) {
		return 0, failure(ctx, "acquire "+c.name, err) // nothing was sent
	}
	c.sweeper.recall(ctx, c.tell)
	return 0, failure(ctx, "acquire "+c.name, err)
}

// detached frees on a context of its own: the caller's may have ended.
func detached(ctx context.Context, free func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	_ = free(ctx)
}

// answer reads the reply of a script that acquires: {fence}, or {"0", holder's value, its remaining ms}, which is a HeldError.
func answer(key string, reply []any) (lock.Fence, error) {
	if len(reply) == 0 {
		return 0, errors.New("empty reply")
	}
	text, _ := reply[0].(string)
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fence %q: %w", text, err)
	}
	if fence > 0 || len(reply) < 3 {
		return lock.Fence(fence), nil
	}
	held := &lock.HeldError{Key: key}
	if value, ok := reply[1].(string); ok {
		_, held.Holder, _ = strings.Cut(value, " ")
	}
	if ms, ok := reply[2].(int64); ok && ms > 0 {
		held.Remaining = time.Duration(ms) * time.Millisecond
	}
	return 0, held
}

// refused is whether the server answered with an error: the script did not get as far as a write.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// failure is what an acquisition says that got no answer.
func failure(ctx context.Context, doing string, err error) error {
	if waitOver(ctx) {
		return context.Cause(ctx) // that says nothing of the server
	}
	if crowded(err) {
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	return lock.Down(doing, err)
}

// crowded is whether all our connections were in use: nothing was sent, and that says nothing of the server.
func crowded(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// waitOver is whether a caller who waits has stopped. The client puts the deadline of ctx on its socket as well, where it passes
// a moment before ctx knows.
func waitOver(ctx context.Context) bool {
	if lock.IsNoWait(ctx) {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// refusal names the fix for the error replies that have one.
func refusal(name string, err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE"):
		return fmt.Errorf("key %s in Redis, or one beside it that begins like it, is no lock but something else (see TYPE); remove or rename it: %w", name, err)
	case strings.HasPrefix(text, "READONLY"):
		return &lock.DownError{Server: "redis", Reason: "it is a read-only replica; point redis.addrs at the master, or use redis.master_name"}
	case strings.HasPrefix(text, "OOM"):
		return &lock.DownError{Server: "redis", Reason: "it is out of memory; raise its maxmemory, or free some"}
	default:
		return lock.Down("ask "+name, err)
	}
}

// free gives the key back; it is ErrExpired or ErrTaken if it was not ours any more. If the server cannot be told, it is told
// later: a Redis that comes back with its data has the key still, and nobody would get it until the lease runs out.
func (c claim) free(ctx context.Context) error {
	err := c.tell(ctx)
	if errors.Is(err, lock.ErrDown) {
		c.sweeper.add(c.tell, time.Now().Add(c.lease))
	}
	return err
}

func (c claim) tell(ctx context.Context) error {
	return verdict(c.release.run(ctx, c.client, []string{c.name}, c.value).Int())
}

func verdict(reply int, err error) error {
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: something that is no lock has its name (%v)", lock.ErrTaken, err)
	case err != nil:
		return lock.Down("ask redis", err)
	case reply == 0:
		return lock.ErrExpired
	case reply < 0:
		return lock.ErrTaken
	}
	return nil
}

// hold makes the lease of a granted claim, which is not renewed.
func (c claim) hold(sent time.Time, f lock.Fence) *lock.Lease {
	l, _ := lock.NewLease(c.key, f, c.free)
	l.Keep(sent, lock.Keep{TTL: c.lease})
	return l
}

// A sight is what a key looked like to somebody who did not get it.
type sight struct {
	value string        // of the holder: token, blank, owner; empty: the key was gone again
	ttl   time.Duration // what remains; negative: no time limit, or the key was gone
}

// bid takes the key name if it is free, by SET NX, with a time limit if lease is not 0. In the same round trip it asks who
// has it: that is not one atomic step, but only the SET decides; the rest is for people to read.
// An error says nothing of the outcome unless it is refused.
func bid(ctx context.Context, c redis.UniversalClient, name, value string, lease time.Duration) (taken bool, other sight, err error) {
	var set *redis.Cmd
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		args := []any{"set", name, value}
		if lease > 0 {
			args = append(args, "px", lease.Milliseconds())
		}
		set = sendOnce(ctx, p, append(args, "nx")...)
		get = p.Get(ctx, name)
		pttl = p.PTTL(ctx, name)
		return nil
	})
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, sight{}, err
	}
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return false, sight{}, err // of another type: no lock
	}
	return false, sight{get.Val(), pttl.Val()}, nil
}

// held is s as an error.
func (s sight) held(key string) *lock.HeldError {
	_, who, _ := strings.Cut(s.value, " ")
	return &lock.HeldError{Key: key, Holder: who, Remaining: max(s.ttl, 0)}
}

// once is a command that is sent one time, whatever the client's MaxRetries and MaxRedirects say.
//
// A client of Redis Cluster repeats by itself what got no answer, on the same node and then on another, up to three
// times; a plain one does so unless it is told not to (MaxRetries -1). A lock cannot have that. The release that ran
// finds the key gone when it runs again, and says that the lock had been lost; an eviction that ran takes the lock from
// the next holder as well. What got no answer is unknown here, and the caller's to settle: see recall.
//
// MOVED and ASK are followed all the same: a node that answers so has done nothing.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis; of a pipeline one such command is enough.
func (once) NoRetry() bool { return true }

func sendOnce(ctx context.Context, c processor, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, once{cmd}) // the error is cmd's, too
	return cmd
}

// A processor is a client or a pipeline.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A script is Lua source. What is sent is its digest, and the source where Redis does not know it. All its keys are in
// KEYS and of one slot, so that a node of a cluster whose slots are being moved can tell whether it has them: if only
// some, it says TRYAGAIN and does nothing.
type script struct{ source, digest string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:])}
}

// run runs s once, and again only what cannot have begun; see patiently.
func (s *script) run(ctx context.Context, c redis.UniversalClient, keys []string, args ...any) *redis.Cmd {
	return patiently(ctx, c, func() *redis.Cmd {
		reply := s.evalSHA(ctx, c, keys, args)
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply = s.eval(ctx, c, keys, args)
		}
		return reply
	})
}

func (s *script) evalSHA(ctx context.Context, c processor, keys []string, args []any) *redis.Cmd {
	return s.send(ctx, c, "evalsha", s.digest, keys, args)
}

func (s *script) eval(ctx context.Context, c processor, keys []string, args []any) *redis.Cmd {
	return s.send(ctx, c, "eval", s.source, keys, args)
}

func (s *script) send(ctx context.Context, c processor, command, body string, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), command, body, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	_ = c.Process(ctx, once{cmd}) // the error is cmd's, too
	return cmd
}

// movingPause is the first pause between tries while a slot is moved, and movingTime how long it is tried. MIGRATE
// moves ten keys at a time, so that those of one lock are apart for milliseconds.
const (
	movingPause = 10 * time.Millisecond
	movingTime  = time.Second
)

// patiently asks again what a node of a cluster refused to begin, because the keys are on their way to another; and
// once more where there was no connection, because the cluster may have another node in the place of a dead one.
func patiently(ctx context.Context, c redis.UniversalClient, ask func() *redis.Cmd) *redis.Cmd {
	cluster, isCluster := c.(*redis.ClusterClient)
	pause := movingPause
	for try, began := 0, time.Now(); ; try++ {
		reply := ask()
		switch err := reply.Err(); {
		case !isCluster, time.Since(began) > movingTime:
			return reply
		case try == 0 && unsent(err):
			pause = 10 * movingPause // the client asks for the layout in the background
		case !moving(err):
			return reply
		}
		cluster.ReloadState(ctx)
		if !sleep(ctx, pause) {
			return reply
		}
		pause = min(2*pause, 10*movingPause)
	}
}

// moving is whether a node did nothing because it does not have the keys, or not all of them.
func moving(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// unsent is whether there was no connection to send a request on.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// acks is how many replicas must have acknowledged what a script wrote before it counts. The zero value asks none.
//
// WAIT (https://redis.io/docs/latest/commands/wait/) is not consensus. It makes it likelier that a lock survives the end of its master: each
// replica that has acknowledged has the key. It does not promise that one of those is promoted (ask for all replicas, or for so many that the
// others cannot be a majority of what may be promoted), nor that the acknowledged key is on the disk of anybody, nor that a master
// that was cut off is not asked by others who have not heard of its end: it then cannot grant, but what it granted before runs on. And an
// acquisition that is refused for want of acknowledgements may have reached some replica: if that one is promoted before it hears of
// the release, nobody has the lock until its lease runs out. Only the fence keeps a second holder from writing.
type acks struct {
	replicas int
	timeout  time.Duration
}

func newAcks(replicas int, timeout, lease time.Duration) acks {
	if timeout == 0 {
		timeout = min(500*time.Millisecond, lease/6)
	}
	return acks{replicas, timeout}
}

// run runs a script, and in the same round trip, on the same connection, waits for the replicas. short says that too few have acknowledged;
// it means something only if the script has granted something.
func (a acks) run(
	ctx context.Context, c redis.UniversalClient, script *script, keys []string, args ...any,
) (reply *redis.Cmd, short error) {
	if a.replicas == 0 {
		return script.run(ctx, c, keys, args...), nil
	}
	// The client follows a key to another node by itself, but not for a pipeline to one node.
	reply = patiently(ctx, c, func() *redis.Cmd {
		reply, short = a.ask(ctx, c, keys[0], func(p redis.Pipeliner) *redis.Cmd {
			return script.evalSHA(ctx, p, keys, args)
		})
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply, short = a.ask(ctx, c, keys[0], func(p redis.Pipeliner) *redis.Cmd {
				return script.eval(ctx, p, keys, args)
			})
		}
		return reply
	})
	return reply, short
}

func (a acks) ask(ctx context.Context, c redis.UniversalClient, key string, script func(redis.Pipeliner) *redis.Cmd) (reply *redis.Cmd, short error) {
	var one redis.Cmdable = c
	if cluster, ok := c.(*redis.ClusterClient); ok {
		// WAIT has no key by which the client would know where to send it.
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			reply = redis.NewCmd(ctx)
			reply.SetErr(err)
			return reply, nil
		}
		one = master
	}
	var acknowledged *redis.Cmd
	_, _ = one.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply = script(p)
		acknowledged = p.Do(ctx, "WAIT", a.replicas, a.timeout.Milliseconds())
		return nil
	})
	switch n, err := acknowledged.Int(); {
	case err != nil:
		return reply, failure(ctx, "wait for the replicas of "+key, err)
	case n < a.replicas:
		return reply, &lock.DownError{Server: "redis", Reason: fmt.Sprintf(
			"%d of the %d replicas that lock.replicas asks for acknowledged the lock within %v; see that they follow (INFO replication), or ask for fewer",
			n, a.replicas, a.timeout)}
	}
	return reply, nil
}
