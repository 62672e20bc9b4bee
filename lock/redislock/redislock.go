// Package redislock holds the locks on Redis: a key with a time limit, whose value says which acquisition wrote it.
//
// This file has what the locks share: the names and values in Redis, scripts and their round trips, an attempt at a
// key on one server, and what the errors of Redis mean. Each other file is one lock, or one thing that a lock can do.
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

// fenceLife is how long the server's clock must be past the last fence of a key before that fence may be forgotten: a
// day. It may be forgotten because the next fence starts from the clock, which is larger by then. A fence could repeat
// only if the clock were set back by more than this after a day without a holder. So the server keeps one key, of about
// 120 bytes and the name, for each lock that was held in the last day. A fence ahead of the clock stays longer by the
// time that it is ahead.
const fenceLife = 24 * time.Hour

var (
	escape   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
)

// tag returns key as a hash tag, so that the keys of one lock share a slot of Redis Cluster, whatever the key is. No
// two keys have the same tag. Redis ignores an empty tag, so the empty key gets a sign that no other key turns into.
func tag(key string) string {
	if key == "" {
		return "{%}"
	}
	return "{" + escape.Replace(key) + "}"
}

// untag returns the key of a hash tag, which is given without its braces.
func untag(inside string) string {
	if inside == "%" {
		return ""
	}
	return unescape.Replace(inside)
}

// newValue returns a value that only this acquisition writes: a random token, a blank and the owner's name.
func newValue(o lock.Options) string { return uuid.NewString() + " " + o.Owner }

// ownerOf returns the owner's name in a value.
func ownerOf(value string) string {
	_, owner, _ := strings.Cut(value, " ")
	return owner
}

// leaseOver reports whether nothing is left of a lease that was asked for at sent. What was granted then may belong to
// another by now.
func leaseOver(sent time.Time, lease time.Duration) bool {
	return spent(time.Since(sent), lease)
}

// spent reports whether nothing is left of a lease so long after its request left.
func spent(took, lease time.Duration) bool { return took >= lock.Valid(lease) }

// def sets *d to value if it is zero.
func def(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// server is Redis as SetNX and Watchdog use it: one script acquires and one releases, one round trip each.
type server struct {
	client   redis.UniversalClient
	lease    time.Duration
	replicas replicas
	cleanup  *cleanup
}

// An attempt is one acquisition of a key, from its first request to its release.
type attempt struct {
	*server
	options          lock.Options
	key, value       string
	acquire, release call
	queued           bool // an earlier request may have left a place in a queue
}

// A call is a script with its keys and arguments.
type call struct {
	script *script
	keys   []string
	args   []any
}

func (c call) run(ctx context.Context, client redis.UniversalClient) *redis.Cmd {
	return c.script.run(ctx, client, c.keys, c.args...)
}

// request runs the script that acquires, once. The error is a HeldError if another holds the key. If the outcome is
// unknown, request releases before it returns, on a context of its own.
func (a *attempt) request(ctx context.Context) (lock.Fence, error) {
	answered, short := a.replicas.run(ctx, a.options, a.client, a.acquire)
	reply, err := answered.Slice()
	if err == nil {
		var fence lock.Fence
		fence, err = parseGranted(a.key, reply)
		switch {
		case errors.Is(err, lock.ErrHeld):
			return 0, err
		case err == nil && short != nil:
			detached(ctx, a.free)
			return 0, short
		case err == nil:
			return fence, nil
		}
	}
	if !refused(err) && (a.queued || !poolExhausted(err)) { // an exhausted pool has sent nothing
		a.cleanup.undo(ctx, a.sendRelease)
	}
	return 0, acquireError(ctx, a.options, a.acquire.keys[0], err)
}

// free gives up all that the attempt has. It returns ErrExpired or ErrTaken if the lock was not ours any more. If the
// server does not answer, the release is repeated in the background: a Redis that comes back with its data still has
// the key, and nobody could acquire it until the lease ran out.
func (a *attempt) free(ctx context.Context) error {
	return a.cleanup.persist(a.sendRelease, a.lease)(ctx)
}

func (a *attempt) sendRelease(ctx context.Context) error {
	return ownership(a.release.run(ctx, a.client).Int())
}

// detached calls free on a context of its own, because the caller's may have ended.
func detached(ctx context.Context, free func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	_ = free(ctx)
}

// parseGranted reads the reply of a script that acquires. That is {fence}, or {"0", the holder's value, its remaining
// ms}, which becomes a HeldError.
func parseGranted(key string, reply []any) (lock.Fence, error) {
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
		held.Holder = ownerOf(value)
	}
	if ms, ok := reply[2].(int64); ok && ms > 0 {
		held.Remaining = time.Duration(ms) * time.Millisecond
	}
	return 0, held
}

// ownership reads the reply of a script that compares the owner before it acts. It returns nil if the key was ours,
// ErrExpired if the key is gone, and ErrTaken if another has it.
func ownership(reply int, err error) error {
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

// A keyState is what Redis has under the name of a lock.
type keyState struct {
	value string        // of the holder; empty: there is no such key
	ttl   time.Duration // what remains; negative: no time limit, or no key
}

// held returns s as an error.
func (s keyState) held(key string) *lock.HeldError {
	return &lock.HeldError{Key: key, Holder: ownerOf(s.value), Remaining: max(s.ttl, 0)}
}

// setNX takes the key name if it is free, by SET NX, with a time limit if lease is not 0. In the same round trip it
// reads what the key has. That is not one atomic step, but only the SET decides; the rest is for people to read.
// After an error the outcome is unknown, unless the server refused.
func setNX(
	ctx context.Context, c redis.UniversalClient, name, value string, lease time.Duration,
) (taken bool, found keyState, err error) {
	var set *redis.Cmd
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		args := []any{"set", name, value}
		if lease > 0 {
			args = append(args, "px", lease.Milliseconds())
		}
		set = sendOnce(ctx, p, append(args, "nx")...)
		get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, keyState{}, err
	}
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return false, keyState{}, err // of another type: no lock
	}
	return false, keyState{get.Val(), pttl.Val()}, nil
}

// refused reports whether the server answered with an error: the script did not get as far as a write.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// acquireError returns what an acquisition says that was refused or got no answer.
func acquireError(ctx context.Context, o lock.Options, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return unanswered(ctx, o, "acquire "+name, err)
}

// queryError returns what a question about the key name says that was refused or got no answer.
func queryError(doing, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return lock.Down(doing+" "+name, err)
}

// unanswered returns what an acquisition says that got no answer.
func unanswered(ctx context.Context, o lock.Options, doing string, err error) error {
	if waitOver(ctx, o) {
		return context.Cause(ctx) // which says nothing about the server
	}
	if poolExhausted(err) {
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	return lock.Down(doing, err)
}

// poolExhausted reports whether all our connections were in use. Nothing was sent, and it says nothing about the
// server.
func poolExhausted(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// waitOver reports whether the wait of a caller that waits has ended. The client also sets the deadline of ctx on its
// socket, where it passes a moment before ctx knows.
func waitOver(ctx context.Context, o lock.Options) bool {
	if o.TryOnce {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// refusal returns an error reply of the server, with the fix where one is known.
func refusal(name string, err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE"):
		return fmt.Errorf("key %s in Redis, or one beside it that begins like it, is no lock but something else "+
			"(see TYPE); remove or rename it: %w", name, err)
	case strings.HasPrefix(text, "READONLY"):
		const reason = "it is a read-only replica; point redis.addrs at the master, or use redis.master_name"
		return &lock.DownError{Server: "redis", Reason: reason}
	case strings.HasPrefix(text, "OOM"):
		return &lock.DownError{Server: "redis", Reason: "it is out of memory; raise its maxmemory, or free some"}
	default:
		return lock.Down("ask "+name, err)
	}
}

// A script is Lua source. Its digest is sent, and the source only where Redis does not know it. All its keys are in
// KEYS and share one slot, so that a node of a cluster whose slots are being moved can tell whether it has them: if it
// has only some, it answers TRYAGAIN and does nothing.
type script struct{ source, digest string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:])}
}

// run runs s once. It repeats only what cannot have begun; see retryUnstarted.
func (s *script) run(ctx context.Context, c redis.UniversalClient, keys []string, args ...any) *redis.Cmd {
	return retryUnstarted(ctx, c, func() *redis.Cmd {
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
	_ = c.Process(ctx, once{cmd}) // the error is in cmd, too
	return cmd
}

// A processor is a client or a pipeline.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// once is a command that is sent one time, whatever the client's MaxRetries and MaxRedirects say.
//
// A client of Redis Cluster repeats a request that got no answer by itself, on the same node and then on another, up to
// three times; a plain client does so unless it is told not to (MaxRetries -1). A lock cannot have that. A release that
// was done finds the key gone when it is repeated, and reports that the lock had been lost; an eviction that was done
// takes the lock from the next holder as well. Here a request without an answer has an unknown outcome, which the
// caller settles: see cleanup.undo.
//
// MOVED and ASK are followed all the same: a node that answers so has done nothing.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command. One such command is enough for a pipeline.
func (once) NoRetry() bool { return true }

func sendOnce(ctx context.Context, c processor, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, once{cmd}) // the error is in cmd, too
	return cmd
}

// movingPause is the first pause between tries while a slot is moved, and movingTime is how long the tries go on.
// MIGRATE moves ten keys at a time, so the keys of one lock are apart for milliseconds.
const (
	movingPause = 10 * time.Millisecond
	movingTime  = time.Second
)

// retryUnstarted repeats a request that a node of a cluster refused to begin, because the keys are on their way to
// another node. It also repeats once where there was no connection, because the cluster may have replaced a dead node.
func retryUnstarted(ctx context.Context, c redis.UniversalClient, ask func() *redis.Cmd) *redis.Cmd {
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
		if lock.Sleep(ctx, pause) != nil {
			return reply
		}
		pause = min(2*pause, 10*movingPause)
	}
}

// moving reports whether a node did nothing because it does not have the keys, or not all of them.
func moving(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") ||
		redis.HasErrorPrefix(err, "TRYAGAIN")
}

// unsent reports whether there was no connection to send a request on.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// replicas is how many replicas must have acknowledged what a script wrote before it counts. The zero value asks none.
//
// WAIT (https://redis.io/docs/latest/commands/wait/) is not consensus. It makes it likelier that a lock survives the
// end of its master, because each replica that has acknowledged has the key. It does not promise
//   - that one of those replicas is promoted. Ask for all replicas, or for so many that the others cannot be a majority
//     of those that may be promoted;
//   - that the acknowledged key is on anybody's disk;
//   - that a master that was cut off is no longer asked by clients that have not heard of its end. It can then grant
//     nothing, but what it granted before runs on.
//
// An acquisition that is refused for want of acknowledgements may have reached some replica. If that one is promoted
// before it hears of the release, nobody has the lock until its lease runs out. Only the fence keeps a second holder
// from writing.
type replicas struct {
	number  int
	timeout time.Duration
}

func newReplicas(number int, timeout, lease time.Duration) replicas {
	if timeout == 0 {
		timeout = min(500*time.Millisecond, lease/6)
	}
	return replicas{number, timeout}
}

// run runs a script and waits for the replicas, in one round trip on one connection. The error short says that too few
// replicas have acknowledged; it means something only if the script has granted something.
func (r replicas) run(
	ctx context.Context, o lock.Options, c redis.UniversalClient, call call,
) (reply *redis.Cmd, short error) {
	if r.number == 0 {
		return call.run(ctx, c), nil
	}
	// The client follows a key to another node by itself, but not for a pipeline to one node.
	reply = retryUnstarted(ctx, c, func() *redis.Cmd {
		reply, short = r.wait(ctx, o, c, call.keys[0], func(p redis.Pipeliner) *redis.Cmd {
			return call.script.evalSHA(ctx, p, call.keys, call.args)
		})
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply, short = r.wait(ctx, o, c, call.keys[0], func(p redis.Pipeliner) *redis.Cmd {
				return call.script.eval(ctx, p, call.keys, call.args)
			})
		}
		return reply
	})
	return reply, short
}

func (r replicas) wait(
	ctx context.Context, o lock.Options, c redis.UniversalClient, key string, script func(redis.Pipeliner) *redis.Cmd,
) (reply *redis.Cmd, short error) {
	var node redis.Cmdable = c
	if cluster, ok := c.(*redis.ClusterClient); ok {
		// WAIT has no key by which the client would know where to send it.
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			reply = redis.NewCmd(ctx)
			reply.SetErr(err)
			return reply, nil
		}
		node = master
	}
	var acknowledged *redis.Cmd
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply = script(p)
		acknowledged = p.Do(ctx, "WAIT", r.number, r.timeout.Milliseconds())
		return nil
	})
	switch n, err := acknowledged.Int(); {
	case err != nil:
		return reply, unanswered(ctx, o, "wait for the replicas of "+key, err)
	case n < r.number:
		return reply, &lock.DownError{Server: "redis", Reason: fmt.Sprintf(
			"%d of the %d replicas that lock.replicas asks for acknowledged the lock within %v; "+
				"see that they follow (INFO replication), or ask for fewer", n, r.number, r.timeout)}
	}
	return reply, nil
}
