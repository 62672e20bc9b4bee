// Package request has what the locks on Redis share: an attempt at a key from its first request to its release, scripts
// and their round trips, and what a reply or its absence proves.
//
// request.go has the attempt, reply.go the interpretation of errors. cleanup.go takes back a request without a reply,
// and repeats a release without one. setnx.go has what the locks share that set a key and poll, subscription.go the
// messages for those that wait, replicas.go the acknowledgement of replicas, and inspect.go the state of keys.
package request

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
)

// A Server is the Redis server of a lock, and how the lock's keys are named there.
type Server struct {
	Client  redis.UniversalClient
	Prefix  string              // of all keys in Redis
	Parts   []string            // of a lock: what follows its name in each of its keys
	Reader  *redisscript.Script // reads the state of a lock, see Read
	Lease   time.Duration
	Cleanup *Cleanup

	Replicas       int           // must acknowledge a grant; 0: none
	ReplicaTimeout time.Duration // 0: 500 ms, or a sixth of the lease if that is less
}

// Tag returns key as a hash tag, so that all keys of one lock share a slot of Redis Cluster. No two keys have the same
// tag.
func Tag(key string) string { return "{" + escape.Replace(key) + "}" }

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// OwnerOf returns the owner's name in a value.
func OwnerOf(value string) string {
	_, owner, _ := strings.Cut(value, " ")
	return owner
}

// LeaseOver reports whether a lease requested at sent has run out, so that another caller may hold the key.
func LeaseOver(sent time.Time, lease time.Duration) bool {
	return time.Since(sent) >= lock.Valid(lease)
}

// Names returns the Redis keys of a lock.
func (s *Server) Names(key string) []string {
	names, name := make([]string, len(s.Parts)), s.Prefix+":"+Tag(key)
	for i, part := range s.Parts {
		names[i] = name + part
	}
	return names
}

// A Call is a script with its keys and arguments.
type Call struct {
	Script *redisscript.Script
	Keys   []string
	Args   []any
}

// Run runs the script once; see Ask for how ctx ends it. It repeats a request only if the server cannot have begun it;
// see retryUnstarted.
func (c Call) Run(ctx context.Context, client redis.UniversalClient) *redis.Cmd {
	reply, err := Ask(ctx, client, nil, func() *redis.Cmd { return c.send(ctx, client) })
	if err != nil {
		return failed(ctx, err)
	}
	return reply
}

// send is Run, but returns when the client does.
func (c Call) send(ctx context.Context, client redis.UniversalClient) *redis.Cmd {
	return retryUnstarted(ctx, client, func() *redis.Cmd { return c.Script.Run(ctx, client, c.Keys, c.Args...) })
}

func failed(ctx context.Context, err error) *redis.Cmd {
	reply := redis.NewCmd(ctx)
	reply.SetErr(err)
	return reply
}

// An Attempt is one acquisition of a key, from its first request to its release. One script acquires and one releases,
// in one round trip each.
type Attempt struct {
	*Server
	Options          lock.Options
	Key, Value       string
	Acquire, Release Call
	Queued           bool // an earlier request may have joined a queue
	underWay         atomic.Int32
}

// Request runs the acquire script once. sent is a time before that. The error is a HeldError if another caller holds
// the key, or may hold it because the reply took longer than the lease. If the outcome is unknown, Request releases the
// key before it returns, with its own context.
func (a *Attempt) Request(ctx context.Context) (fence lock.Fence, sent time.Time, err error) {
	sent = time.Now()
	answer, short := a.Grant(ctx, &a.underWay, a.Acquire)
	reply, err := answer.Result()
	if err == nil {
		fence, err = ParseGranted(a.Key, reply)
		switch {
		case errors.Is(err, lock.ErrHeld):
			return 0, sent, err
		case err == nil && short != nil:
			Detached(ctx, a.Free)
			return 0, sent, short
		case err == nil && LeaseOver(sent, a.Lease):
			if !a.Queued { // a waiter asks again, and only then knows who has the key now
				Detached(ctx, a.Free)
			}
			return 0, sent, &lock.HeldError{Key: a.Key}
		case err == nil:
			return fence, sent, nil
		}
	}
	if !Refused(err) && (a.Queued || !poolExhausted(err)) { // if the pool was exhausted, nothing was sent
		a.Cleanup.Undo(ctx, &a.underWay, a.sendRelease)
	}
	return 0, sent, AcquireError(ctx, a.Acquire.Keys[0], err)
}

// Free releases the lock, or leaves its queue. It returns ErrExpired or ErrTaken if the lock was no longer ours. If the
// server does not answer, Free repeats the release in the background: a Redis that restarts with its data still has the
// key, and without the release no caller could acquire it until the lease ran out.
func (a *Attempt) Free(ctx context.Context) error {
	return a.Cleanup.Free(ctx, a.Lease, a.sendRelease)
}

func (a *Attempt) sendRelease(ctx context.Context) error {
	return Ownership(a.Release.Run(ctx, a.Client).Int())
}

// Detached calls free with a new context, because the caller's context may have ended.
func Detached(ctx context.Context, free func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	_ = free(ctx)
}

// ParseGranted parses the reply of an acquire script. It is either the fence, alone or in a list, or {"0", the
// holder's value, its remaining ms}, which becomes a HeldError.
func ParseGranted(key string, reply any) (lock.Fence, error) {
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
	value, _ := list[1].(string)
	ms, _ := list[2].(int64)
	return 0, Found{Value: value, TTL: time.Duration(ms) * time.Millisecond}.Held(key)
}

// Ask calls do, a request of c, and returns its result, or the cause of ctx if ctx ends first. By default a client of
// go-redis ignores ctx and waits for as long as its own settings say. Such a request needs a goroutine. It goes on
// until the client gives it up or is closed, and counts in underWay until then; nil: no caller needs the count.
//
// The goroutine is a third of the CPU time of an acquisition, so a bounded client has none. Its request ends with the
// deadline of ctx. If ctx is canceled before, the request ends with the reply or the client's own time limit.
func Ask[T any](
	ctx context.Context, c redis.UniversalClient, underWay *atomic.Int32, do func() T,
) (T, error) {
	if ctx.Done() == nil || bounded(c) {
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

// bounded reports whether each request of c ends with the deadline of its ctx, and has a time limit without one. A
// ReadTimeout that is not positive means none, or that a deadline is ignored, too.
func bounded(c redis.UniversalClient) bool {
	client, single := c.(*redis.Client)
	if !single {
		return false
	}
	o := client.Options()
	return o.ContextTimeoutEnabled && o.ReadTimeout > 0 && o.WriteTimeout > 0
}

// MovingPause is the pause between two tries of a request whose keys are being moved, and movingTime limits them.
// MIGRATE moves ten keys at a time, so the keys of one lock are on different nodes only for milliseconds.
const (
	MovingPause = 50 * time.Millisecond
	movingTime  = time.Second
)

// retryUnstarted repeats, for a second, a request that no node of a cluster has begun: because its keys are being moved
// to another node, or because the node is gone and the cluster may have replaced it.
func retryUnstarted(ctx context.Context, c redis.UniversalClient, ask func() *redis.Cmd) *redis.Cmd {
	cluster, isCluster := c.(*redis.ClusterClient)
	for began := time.Now(); ; {
		reply := ask()
		if !isCluster || !unstarted(reply.Err()) || time.Since(began) > movingTime {
			return reply
		}
		cluster.ReloadState(ctx)
		if driver.Sleep(ctx, MovingPause) != nil {
			return reply
		}
	}
}
