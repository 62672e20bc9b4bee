package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock/internal/request"
)

// This file is the algorithm of Redlock, from acquire to release:
//
//  1. Set the key with a value of its own and a time limit, if it does not exist, on all nodes at once.
//  2. A majority is the lock, if its lease (lock.Valid) has not run out since before step 1. Otherwise delete the key
//     on each node that granted it or gave no answer, pause for a random time and go back to 1.
//  3. While the lock is held, renew it every third of the lease. It stands while a majority still has the key. Then set
//     the key again on nodes where it was missing.
//  4. To release, delete the key on every node that may have it.
//
// redlock_options.go has the type and its promises; redlock_inspect.go says who holds a key; quorum.go counts answers;
// masters.go has which nodes count.

// maxPause is the longest pause between two tries. With equal pauses, contenders could split the nodes among themselves
// again in every try, so it must be long compared to a round trip.
const maxPause = 50 * time.Millisecond

// Acquire tries until ctx ends, or once with TryOnce.
func (r *Redlock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	try := func(ctx context.Context) (*lock.Lease, error) { return r.try(ctx, key, o) }
	return r.cleanup.Poll(ctx, key, o, try, func(ctx context.Context, _ error) error {
		return driver.Sleep(ctx, rand.N(maxPause))
	})
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

// try is steps 1 and 2.
func (r *Redlock) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a := &redlockAttempt{r, key, redlockName(key), request.NewValue(o), make([]outcome, len(r.nodes))}
	sent := time.Now()
	answers := r.round(ctx, func(ctx context.Context, i int, n *node) error {
		return a.acquireAt(ctx, i, n, r.o.Lease)
	})
	took, same := time.Since(sent), r.distinct()
	granted := tally(answers).ours
	if granted >= r.quorum && !request.LeaseOver(sent, r.o.Lease) && same == nil {
		return a.hold(sent), nil
	}
	a.release(context.WithoutCancel(ctx))
	switch {
	case same != nil:
		return nil, same
	case granted >= r.quorum:
		return nil, driver.NewDown("redlock", "lease-spent", "n", granted, "all", len(r.nodes),
			"took", took.Round(time.Millisecond), "lease", r.o.Lease.String())
	}
	err := r.refused(key, answers)
	if !errors.Is(err, lock.ErrHeld) && request.WaitOver(ctx) {
		return nil, context.Cause(ctx) // the nodes may be up
	}
	return nil, err
}

// acquireAt asks one node for the key. The error is a HeldError if another caller has it there.
func (a *redlockAttempt) acquireAt(ctx context.Context, i int, n *node, lease time.Duration) error {
	if n.silent.Load() {
		return errSilent
	}
	taken, found, err := request.SetNX(ctx, nil, n.client, a.name, a.value, lease)
	switch {
	case err != nil && (request.Refused(err) || request.Unsent(err)):
		return err
	case err != nil:
		a.outcomes[i] = unknown
		return err
	case taken || found.Value == a.value: // if taken is false, an earlier request without a reply had set the key
		a.outcomes[i] = set
	}
	if err := n.eligible(ctx, a.o.Quarantine); err != nil || a.outcomes[i] == set {
		return err
	}
	return found.Held(a.key)
}

// hold returns the lease of an attempt that has a majority.
func (a *redlockAttempt) hold(sent time.Time) *lock.Lease {
	l, _ := lock.NewLease(a.key, lock.NoFence, func(ctx context.Context) error { return a.standing(a.release(ctx)) })
	l.KeepAlive(sent, lock.Renewal{TTL: a.o.Lease, Every: a.o.Lease / 3, Max: a.o.MaxHold, Renew: a.renew})
	return l
}

// renew is step 3. A node where the key is set again counts from the next renewal on. The key ends there when it ends
// on the other nodes, so that after a crash the next holder need not wait longer. The end of the lease does not
// interrupt this, because the release must know all nodes that may have the key.
func (a *redlockAttempt) renew(ctx context.Context) error {
	sent := time.Now()
	extend := request.Call{Script: renewScript, Keys: []string{a.name}, Args: []any{a.value, a.o.Lease.Milliseconds()}}
	answers := a.round(ctx, func(ctx context.Context, _ int, n *node) error {
		if err := request.Ownership(extend.Run(ctx, n.client).Int()); err != nil {
			return err
		}
		return n.eligible(ctx, a.o.Quarantine)
	})
	lease := a.o.Lease - time.Since(sent)
	if err := a.standing(answers); err != nil || tally(answers).gone == 0 || lease <= time.Millisecond {
		return err
	}
	a.round(context.WithoutCancel(ctx), func(ctx context.Context, i int, n *node) error {
		if errors.Is(answers[i], lock.ErrExpired) {
			return a.acquireAt(ctx, i, n, lease)
		}
		return nil
	})
	return nil
}

// release is step 4.
func (a *redlockAttempt) release(ctx context.Context) []error {
	deletion := request.Call{Script: request.ReleaseScript, Keys: []string{a.name}, Args: []any{a.value}}
	return a.round(ctx, func(ctx context.Context, i int, n *node) error {
		if a.outcomes[i] == notSet {
			return lock.ErrExpired
		}
		return n.free(ctx, a.cleanup, a.outcomes[i], func(ctx context.Context) error {
			return request.Ownership(deletion.Run(ctx, n.client).Int())
		})
	})
}

// free calls release. If the node does not answer, it repeats release in the background, until the key has been deleted
// or the node has given so many answers that the key will not come any more: one, or two after an acquisition without
// an answer; see request.Cleanup.Undo.
func (n *node) free(
	ctx context.Context, c *request.Cleanup, acquired outcome, release func(context.Context) error,
) error {
	answers, first := 1, release
	if acquired == unknown {
		answers = 2
	}
	if n.silent.Load() { // the caller does not wait for it
		first = func(context.Context) error { return driver.Down("release", errSilent) }
	}
	return c.Settle(ctx, answers, time.Now().Add(driver.Forever), first, func(ctx context.Context) error {
		err := release(ctx)
		n.silent.Store(!request.IsAnswer(err))
		return err
	})
}
