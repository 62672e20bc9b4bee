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

// A quorumError is a DownError, which numbers the nodes, in words for the log, which names them: clients are not to learn addresses.
type quorumError struct {
	*lock.DownError // what errors.As finds
	detail          string
}

func (e *quorumError) Error() string { return e.Server + " is down: " + e.detail }
func (e *quorumError) Unwrap() error { return e.DownError }

// distinct fails if two of the masters are one.
func distinct(addrs []string, ids []identity) error {
	seen := make(map[string]int)
	for i, id := range ids {
		if id.runID == "" {
			continue // not heard of yet
		}
		if first, twice := seen[id.runID]; twice {
			const text = "%s and %s are the same server%s: its end would be the end of both; list %d independent masters"
			return &quorumError{
				&lock.DownError{Server: "redlock", Reason: fmt.Sprintf(text, nth(first), nth(i), "", len(ids))},
				fmt.Sprintf(text, addrs[first], addrs[i], fmt.Sprintf(" (run_id %.8s)", id.runID), len(ids)),
			}
		}
		seen[id.runID] = i
	}
	return nil
}

// CheckMasters is for a health check: whether enough of clients are distinct masters that answer and have been up for
// longer than quarantine (see [RedlockOptions]; 0 or less: however long) to grant a lock. The error is a [lock.DownError] that is safe to
// show, wrapped in one that names addresses, for the log. A node that hangs takes as long as ctx lets it.
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

func (r *Redlock) minority(answers []error) error { return minority(r.addrs, answers) }

// minority is nil if a majority of the answers count (are nil), and otherwise says which do not, and why.
func minority(addrs []string, answers []error) error {
	var shown, logged []string
	for i, err := range answers {
		if err == nil {
			continue
		}
		reason, detail := why(err)
		shown = append(shown, nth(i)+" "+reason)
		logged = append(logged, addrs[i]+" "+reason+detail)
	}
	good := len(answers) - len(shown)
	if good >= quorum(len(answers)) {
		return nil
	}
	text := fmt.Sprintf("%d of %d nodes count, %d must: ", good, len(answers), quorum(len(answers)))
	return &quorumError{
		&lock.DownError{Server: "redlock", Reason: text + strings.Join(shown, "; ")},
		text + strings.Join(logged, "; "),
	}
}

func quorum(nodes int) int { return nodes/2 + 1 }

// nth is what a node is called where its address is not to be seen: its place in redlock.addrs.
func nth(i int) string { return fmt.Sprint("node ", i+1) }

// why is err in words that can stand behind a name: a reason that is safe to show, and what the log is told beside it.
func why(err error) (reason, detail string) {
	var (
		doubt   *doubtError
		answer  redis.Error
		network net.Error
		op      *net.OpError
	)
	switch {
	case errors.As(err, &doubt):
		return doubt.reason, ""
	case errors.Is(err, lock.ErrExpired), errors.Is(err, lock.ErrTaken):
		return "has not our key any more", ""
	case errors.As(err, &answer):
		code, _, _ := strings.Cut(answer.Error(), " ") // what comes after it may name others, as that of MOVED does
		return "says " + code + fix(code), " (" + answer.Error() + ")"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "did not answer in time", ""
	case errors.As(err, &op):
		return "is not reached", " (" + op.Err.Error() + ")"
	default:
		return "gave no answer", " (" + err.Error() + ")"
	}
}

// fix is what to do about the error replies for which that is known.
func fix(code string) string {
	switch code {
	case "READONLY":
		return ": it is a replica; list independent masters"
	case "OOM":
		return ": it is out of memory; raise its maxmemory, or free some"
	case "WRONGTYPE":
		return ": it has no lock but something else under the key's name; remove or rename it"
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return ": see redis.username and redis.password"
	case "MOVED", "ASK", "CLUSTERDOWN":
		return ": it is of a Redis Cluster; list independent masters"
	}
	return ""
}
