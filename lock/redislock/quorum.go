package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock/internal/request"
)

func quorum(nodes int) int { return nodes/2 + 1 }

// round calls ask for all nodes at once, and returns their answers when each has answered or NodeTimeout has passed.
func (r *Redlock) round(ctx context.Context, ask func(ctx context.Context, i int, n *node) error) []error {
	ctx, cancel := context.WithTimeout(ctx, r.o.NodeTimeout)
	defer cancel()
	return atOnce(r.nodes, func(i int, n *node) error { return ask(ctx, i, n) })
}

// atOnce calls ask for all of list at the same time, and returns what each call returned.
func atOnce[T any](list []T, ask func(i int, one T) error) []error {
	answers := make([]error, len(list))
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() { answers[i] = ask(i, one) })
	}
	all.Wait()
	return answers
}

// A count is the number of nodes that have our key, that have no key, and that have another caller's key.
type count struct{ ours, gone, taken int }

func tally(answers []error) (c count) {
	for _, err := range answers {
		switch {
		case err == nil:
			c.ours++
		case errors.Is(err, lock.ErrExpired):
			c.gone++
		case errors.Is(err, lock.ErrTaken):
			c.taken++
		}
	}
	return c
}

// refused returns the error of a try without a majority, given the answers of the nodes. If another caller has the key,
// it names the holder if a majority of the nodes that answered report the same one.
func (r *Redlock) refused(key string, answers []error) error {
	failures := slices.Clone(answers) // without the answers that count
	votes, answered := make(map[string][]*lock.HeldError), 0
	for i, err := range answers {
		held, is := errors.AsType[*lock.HeldError](err)
		if is {
			votes[held.Holder] = append(votes[held.Holder], held)
			failures[i] = nil
		}
		if failures[i] == nil {
			answered++
		}
	}
	if err := checkQuorum(r.addrs, failures); err != nil {
		return err
	}
	for _, same := range votes {
		if len(same) >= quorum(answered) {
			return same[0]
		}
	}
	return &lock.HeldError{Key: key}
}

// standing returns nil if a majority has our key by answers, those of the nodes to a request about it. The error is
// final, ErrExpired or ErrTaken, if no majority can have it, and ErrDown if too few nodes answered.
func (r *Redlock) standing(answers []error) error {
	c := tally(answers)
	why := lock.ErrExpired
	if c.taken > 0 {
		why = lock.ErrTaken
	}
	switch {
	case c.ours >= r.quorum:
		return nil
	case len(answers)-c.gone-c.taken >= r.quorum:
		return checkQuorum(r.addrs, answers)
	default:
		return fmt.Errorf("%w: %d of %d nodes still have our key", why, c.ours, len(answers))
	}
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
	down.Denied = slices.ContainsFunc(errs, func(err error) bool { return request.Denied(err) != nil })
	return fmt.Errorf("%w: %s", down, strings.Join(logged, "; "))
}

// nth returns the name of a node where its address must not be shown: its place in redlock.urls.
func nth(i int) string { return fmt.Sprint("node ", i+1) }

// reasonOf returns a reason that can follow a node's name and is safe to show.
func reasonOf(err error) string {
	var (
		ineligible *ineligibleError
		answer     redis.Error
		network    net.Error
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
	case errors.As(err, new(*net.OpError)):
		return "is not reached"
	default:
		return "gave no answer"
	}
}
