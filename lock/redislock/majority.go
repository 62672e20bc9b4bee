package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// distinct fails if two of the masters are one.
func distinct(addrs []string, ids []identity) error {
	seen := make(map[string]string)
	for i, id := range ids {
		if id.runID == "" {
			continue // not heard of yet
		}
		if first, twice := seen[id.runID]; twice {
			return &lock.DownError{Server: "redlock", Reason: fmt.Sprintf(
				"%s and %s are the same server (run_id %.8s): its end would be the end of both; list %d independent masters",
				first, addrs[i], id.runID, len(ids))}
		}
		seen[id.runID] = addrs[i]
	}
	return nil
}

// CheckMasters is for a health check: whether enough of clients are distinct masters that answer and have been up for
// longer than quarantine (see [RedlockOptions]; 0 or less: however long) to grant a lock. The error is a [lock.DownError]. A node
// that hangs takes as long as ctx lets it.
func CheckMasters(ctx context.Context, clients []redis.UniversalClient, quarantine time.Duration) error {
	addrs, ids, answers := make([]string, len(clients)), make([]identity, len(clients)), make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		addrs[i] = addrOf(c, i)
		all.Go(func() {
			if ids[i], answers[i] = identify(ctx, c); answers[i] == nil {
				answers[i] = ids[i].doubt(quarantine)
			}
		})
	}
	all.Wait()
	if err := distinct(addrs, ids); err != nil {
		return err
	}
	return minority(addrs, answers)
}

// minority is nil if a majority of the answers count (are nil), and otherwise says which do not, and why.
func minority(addrs []string, answers []error) error {
	var missing []string
	for i, err := range answers {
		if err != nil {
			missing = append(missing, addrs[i]+" "+why(err))
		}
	}
	if good := len(answers) - len(missing); good < quorum(len(answers)) {
		return &lock.DownError{Server: "redlock", Reason: fmt.Sprintf(
			"%d of %d nodes count, %d must: %s", good, len(answers), quorum(len(answers)), strings.Join(missing, "; "))}
	}
	return nil
}

func quorum(nodes int) int { return nodes/2 + 1 }

// why is err in words that are safe to show and can stand behind an address.
func why(err error) string {
	var (
		doubt   *doubtError
		answer  redis.Error
		network net.Error
		op      *net.OpError
	)
	switch {
	case errors.As(err, &doubt):
		return doubt.reason
	case errors.Is(err, lock.ErrExpired), errors.Is(err, lock.ErrTaken):
		return "has not our key any more"
	case errors.As(err, &answer):
		return "says " + answer.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "did not answer in time"
	case errors.As(err, &op):
		return "is not reached: " + op.Err.Error()
	default:
		return "gave no answer: " + err.Error()
	}
}
