package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

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

func (r *Redlock) ballot(key string, o lock.Options) *ballot {
	return &ballot{r, key, "redlock:" + tag(key), token(o), make([]trace, len(r.nodes))}
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
