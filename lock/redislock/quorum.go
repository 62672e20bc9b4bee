package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

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

// distinct fails if two of the masters are the same server. Clients see the places of nodes in redlock.addrs, and the
// log their addresses.
func distinct(addrs []string, ids []identity) error {
	seen := make(map[string]int)
	for i, id := range ids {
		if id.runID == "" {
			continue // not known yet
		}
		if first, twice := seen[id.runID]; twice {
			same := driver.NewDown("redlock", "same-master", "one", nth(first), "two", nth(i), "n", len(ids))
			return fmt.Errorf("%w: %s and %s have run_id %.8s", same, addrs[first], addrs[i], id.runID)
		}
		seen[id.runID] = i
	}
	return nil
}

// refused returns the error of a try without a majority, given the answers of the nodes. If another caller has the key,
// it names the holder if a majority of the nodes that answered report the same one.
func (r *Redlock) refused(key string, answers []error) error {
	counts := make([]error, len(answers)) // why the answer does not count; nil: it counts
	votes, answered := make(map[string]int), 0
	for i, err := range answers {
		if held, is := errors.AsType[*lock.HeldError](err); is {
			votes[held.Holder]++
		} else {
			counts[i] = err
		}
		if counts[i] == nil {
			answered++
		}
	}
	if err := checkQuorum(r.addrs, counts); err != nil {
		return err
	}
	for _, err := range answers {
		if held, is := errors.AsType[*lock.HeldError](err); is && votes[held.Holder] >= quorum(answered) {
			return held
		}
	}
	return &lock.HeldError{Key: key}
}

// standing returns nil if a majority has our key by errs, the answers of the nodes to a request about it. The error is
// final, ErrExpired or ErrTaken, if no majority can have it, and ErrDown if too few nodes answered.
func (r *Redlock) standing(errs []error) error {
	ours, gone, taken := tally(errs)
	switch {
	case ours >= r.quorum:
		return nil
	case len(errs)-gone-taken >= r.quorum:
		return checkQuorum(r.addrs, errs)
	case taken > 0:
		return fmt.Errorf("%w: %d of %d nodes still have our key", lock.ErrTaken, ours, len(errs))
	default:
		return fmt.Errorf("%w: %d of %d nodes still have our key", lock.ErrExpired, ours, len(errs))
	}
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

// checkQuorum returns nil if a majority of errs is nil. Otherwise its error has the replies that do not count, with the
// reasons: by the places of the nodes for clients, and by their addresses for the log.
func checkQuorum(addrs []string, errs []error) error {
	var shown, logged []string
	for i, err := range errs {
		if err != nil {
			reason := reasonOf(err)
			shown = append(shown, nth(i)+" "+reason)
			logged = append(logged, fmt.Sprintf("%s %s (%v)", addrs[i], reason, err))
		}
	}
	good, must := len(errs)-len(shown), quorum(len(errs))
	if good >= must {
		return nil
	}
	down := driver.NewDown("redlock", "quorum", "good", good, "all", len(errs), "must", must,
		"which", strings.Join(shown, "; "))
	down.Denied = slices.ContainsFunc(errs, func(err error) bool { return deniedOf(err) != nil })
	return fmt.Errorf("%w: %s", down, strings.Join(logged, "; "))
}

func quorum(nodes int) int { return nodes/2 + 1 }

// nth returns the name of a node where its address must not be shown: its place in redlock.addrs.
func nth(i int) string { return fmt.Sprint("node ", i+1) }

// reasonOf returns a reason that can follow a node's name and is safe to show.
func reasonOf(err error) string {
	var (
		ineligible *ineligibleError
		answer     redis.Error
		network    net.Error
		op         *net.OpError
	)
	switch {
	case errors.As(err, &ineligible):
		return ineligible.reason
	case errors.Is(err, lock.ErrExpired), errors.Is(err, lock.ErrTaken):
		return "has not our key any more"
	case errors.As(err, &answer):
		code, _, _ := strings.Cut(answer.Error(), " ") // the rest may contain other addresses, for example in MOVED
		return "says " + code
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "did not answer in time"
	case errors.As(err, &op):
		return "is not reached"
	default:
		return "gave no answer"
	}
}
