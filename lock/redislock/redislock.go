// Package redislock locks keys with Redis: a key with a time limit, whose value identifies the acquisition that wrote
// it.
//
// Read setnx.go first: it is the plain algorithm of [SetNX] from acquire to release, and names what each other file
// adds. watchdog.go does the same for [Watchdog], which queues its waiters and renews its lease. [Redlock] is in
// redlock.go, [RLock] in rlock.go, and typical handwritten locks are in setnx_del.go, setnx_expire.go and
// setnx_watch.go.
//
// This file has the common parts: names and values in Redis, scripts and their round trips, an attempt at a key on one
// server, and the interpretation of errors.
package redislock

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/rediserr"
	"example.com/stock/lock/driver/redisscript"
)

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// tag returns key as a hash tag, so that all keys of one lock share a slot of Redis Cluster. No two keys have the same
// tag.
func tag(key string) string { return "{" + escape.Replace(key) + "}" }

// ownerOf returns the owner's name in a value.
func ownerOf(value string) string {
	_, owner, _ := strings.Cut(value, " ")
	return owner
}

// leaseOver reports whether a lease requested at sent has run out, so that another caller may hold the key.
func leaseOver(sent time.Time, lease time.Duration) bool {
	return spent(time.Since(sent), lease)
}

// spent reports whether a lease has run out if its reply took this long.
func spent(took, lease time.Duration) bool { return took >= lock.Valid(lease) }

func def(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// server is the Redis server of all locks but Redlock.
type server struct {
	client   redis.UniversalClient
	prefix   string   // of all keys in Redis
	parts    []string // of a lock: what follows its name in each of its keys
	read     reader
	lease    time.Duration
	replicas Replicas
	cleanup  *cleanup
	invalid  error // names an option with an invalid value
}

// A reader inspects keys in one round trip. After an error it returns the states of the first keys.
type reader func(ctx context.Context, s *server, keys []string) ([]lock.State, error)

// name returns the name of a lock in Redis.
func (s *server) name(key string) string { return s.prefix + ":" + tag(key) }

// names returns the Redis keys of a lock.
func (s *server) names(key string) []string {
	names, name := make([]string, len(s.parts)), s.name(key)
	for i, part := range s.parts {
		names[i] = name + part
	}
	return names
}

// Close ends the waits, with lock.ErrClosed. It drops the releases that have not reached the server yet; their keys
// expire with the lease. Leases are not affected.
func (s *server) Close() error {
	s.cleanup.Close()
	return nil
}

// mayAcquire returns an error if no acquisition of key may begin.
func (s *server) mayAcquire(ctx context.Context, key string) error {
	return cmp.Or(s.invalid, s.cleanup.MayAcquire(ctx, key))
}

// An attempt is one acquisition of a key, from its first request to its release. One script acquires and one releases,
// in one round trip each.
type attempt struct {
	*server
	options          lock.Options
	key, value       string
	acquire, release call
	queued           bool // an earlier request may have joined a queue
	underWay         atomic.Int32
}

type call struct {
	script *redisscript.Script
	keys   []string
	args   []any
}

func (c call) run(ctx context.Context, client redis.UniversalClient) *redis.Cmd {
	return run(ctx, client, c.script, c.keys, c.args...)
}

// request runs the acquire script once. The error is a HeldError if another caller holds the key. If the outcome is
// unknown, request releases the key before it returns, with its own context.
func (a *attempt) request(ctx context.Context) (lock.Fence, error) {
	got, err := ask(ctx, &a.underWay, func() granted { return a.grant(ctx, a.acquire) })
	var reply any
	if err == nil {
		reply, err = got.reply.Result()
	}
	if err == nil {
		var fence lock.Fence
		fence, err = parseGranted(a.key, reply)
		switch {
		case errors.Is(err, lock.ErrHeld):
			return 0, err
		case err == nil && got.short != nil:
			detached(ctx, a.free)
			return 0, got.short
		case err == nil:
			return fence, nil
		}
	}
	if !refused(err) && (a.queued || !poolExhausted(err)) { // if the pool was exhausted, nothing was sent
		a.cleanup.undo(ctx, &a.underWay, a.sendRelease)
	}
	return 0, acquireError(ctx, a.acquire.keys[0], err)
}

// free releases the lock, or leaves its queue. It returns ErrExpired or ErrTaken if the lock was no longer ours. If the
// server does not answer, free repeats the release in the background: a Redis that restarts with its data still has the
// key, and without the release no caller could acquire it until the lease ran out.
func (a *attempt) free(ctx context.Context) error {
	return a.cleanup.persist(a.sendRelease, a.lease)(ctx)
}

func (a *attempt) sendRelease(ctx context.Context) error {
	return ownership(a.release.run(ctx, a.client).Int())
}

// detached calls free with a new context, because the caller's context may have ended.
func detached(ctx context.Context, free func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	_ = free(ctx)
}

// parseGranted parses the reply of an acquire script. It is either the fence, alone or in a list, or {"0", the
// holder's value, its remaining ms}, which becomes a HeldError.
func parseGranted(key string, reply any) (lock.Fence, error) {
	list, _ := reply.([]any)
	if len(list) > 0 {
		reply = list[0]
	}
	text, _ := reply.(string)
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fence %q: %w", text, err)
	}
	if fence > 0 || len(list) < 3 {
		return lock.Fence(fence), nil
	}
	held := &lock.HeldError{Key: key}
	if value, ok := list[1].(string); ok {
		held.Holder = ownerOf(value)
	}
	if ms, ok := list[2].(int64); ok && ms > 0 {
		held.Remaining = time.Duration(ms) * time.Millisecond
	}
	return 0, held
}

// ownership converts the reply of a script that compares the owner before it acts. It returns nil if the key was
// ours, ErrExpired if the key is gone, and ErrTaken if another caller has it.
func ownership(reply int, err error) error {
	switch {
	case err != nil && redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: a value that is no lock has its name (%v)", lock.ErrTaken, err)
	case err != nil:
		return requestError("ask", "redis", err)
	case reply == 0:
		return lock.ErrExpired
	case reply < 0:
		return lock.ErrTaken
	}
	return nil
}

// isReply reports whether err is an error reply of the server.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// requestError returns the error of a request about the key name that the server refused or did not answer.
func requestError(doing, name string, err error) error {
	if isReply(err) {
		return refusal(name, err)
	}
	return driver.Down(doing+" "+name, err)
}

// refused reports whether the server answered with an error that proves that nothing was written.
func refused(err error) bool {
	meaning, _ := rediserr.Of(err)
	return isReply(err) && meaning.Outcome != rediserr.Unknown
}

// acquireError returns the error of an acquisition that the server refused or did not answer.
func acquireError(ctx context.Context, name string, err error) error {
	if isReply(err) {
		return refusal(name, err)
	}
	return unanswered(ctx, "acquire "+name, err)
}

// unanswered returns the error of an acquisition that the server did not answer.
func unanswered(ctx context.Context, doing string, err error) error {
	if waitOver(ctx) {
		return context.Cause(ctx) // the server may be up
	}
	if poolExhausted(err) {
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	return driver.Down(doing, err)
}

// poolExhausted reports whether all connections of the pool were in use. Nothing was sent, and the server may be up.
func poolExhausted(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// waitOver reports whether the caller's ctx has ended. The client sets ctx's deadline on its socket, too, and there it
// may pass a moment before ctx ends. So waitOver waits for the end of ctx.
func waitOver(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// refusal returns the error for an error reply of the server, with instructions for a repair if there are any.
func refusal(name string, err error) error {
	if strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("key %s in Redis, or one with that prefix, is no lock but something else "+
			"(see TYPE); remove or rename it: %w", name, err)
	}
	if meaning, known := rediserr.Of(err); known {
		return &driver.DownError{
			Server: "redis", Reason: meaning.Reason, Values: rediserr.Values(err), Full: meaning.Full,
			Denied: meaning.Denied(),
		}
	}
	return driver.Down("ask "+name, err)
}

// While a slot is moved, movingPause is the first pause between tries, and movingTime limits them. MIGRATE moves ten
// keys at a time, so the keys of one lock are on different nodes only for milliseconds.
const (
	movingPause = 10 * time.Millisecond
	movingTime  = time.Second
)

// ask calls do, and returns its result, or the cause of ctx if ctx ends first. do is a request of a client, which may
// ignore ctx and wait for as long as its own settings say: those of go-redis ignore a deadline by default, and the end
// of a ctx without one always. Such a request goes on until the client gives it up or is closed, and counts in underWay
// until then; nil: nobody needs to know.
func ask[T any](ctx context.Context, underWay *atomic.Int32, do func() T) (T, error) {
	if ctx.Done() == nil {
		return do(), nil
	}
	if underWay == nil {
		underWay = new(atomic.Int32)
	}
	underWay.Add(1)
	result := make(chan T, 1)
	go func() {
		defer underWay.Add(-1)
		result <- do()
	}()
	select {
	case r := <-result:
		return r, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// run runs a script once, and returns when ctx ends at the latest. It repeats a request only if the server cannot have
// begun it; see retryUnstarted.
func run(
	ctx context.Context, c redis.UniversalClient, s *redisscript.Script, keys []string, args ...any,
) *redis.Cmd {
	reply, err := ask(ctx, nil, func() *redis.Cmd { return send(ctx, c, s, keys, args...) })
	if err != nil {
		reply = redis.NewCmd(ctx)
		reply.SetErr(err)
	}
	return reply
}

// send is run, but returns when the client does.
func send(
	ctx context.Context, c redis.UniversalClient, s *redisscript.Script, keys []string, args ...any,
) *redis.Cmd {
	return retryUnstarted(ctx, c, func() *redis.Cmd { return s.Run(ctx, c, keys, args...) })
}

// retryUnstarted repeats a request that a node of a cluster refused to begin, because its keys are being moved to
// another node. If there was no connection, it repeats the request once, because the cluster may have replaced a dead
// node.
func retryUnstarted(ctx context.Context, c redis.UniversalClient, ask func() *redis.Cmd) *redis.Cmd {
	cluster, isCluster := c.(*redis.ClusterClient)
	pause := movingPause
	for try, began := 0, time.Now(); ; try++ {
		reply := ask()
		switch err := reply.Err(); {
		case !isCluster, time.Since(began) > movingTime:
			return reply
		case try == 0 && unsent(err):
			pause = 10 * movingPause // the client reads the new layout in the background
		case !moving(err):
			return reply
		}
		cluster.ReloadState(ctx)
		if driver.Sleep(ctx, pause) != nil {
			return reply
		}
		pause = min(2*pause, 10*movingPause)
	}
}

// moving reports whether a node did nothing because it lacks some of the keys.
func moving(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") ||
		redis.HasErrorPrefix(err, "TRYAGAIN")
}

// unsent reports whether the request could not be sent, because there was no connection.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
