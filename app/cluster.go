package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/internal/words"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/rediserr"
	"example.com/stock/repo"
	"example.com/stock/service/strategy"
)

// tries is the number of slots that a check tries. It misses a master that has few slots.
const tries = 16

// clusterCheck returns a check that tries a write that changes nothing, all over the cluster. A PING would not be
// enough, because it succeeds while the cluster refuses keys. While a part of the cluster takes writes, it is up with a
// warning: SKUs in the other slots cannot be sold.
func clusterCheck(probe *redis.ClusterClient) func(context.Context) error {
	var keys []string
	for i := range tries {
		keys = append(keys, fmt.Sprintf("stock:probe:{%d}", i)) // keys without a meaning, all over the slots
	}
	return func(ctx context.Context) error {
		// A node that hangs must leave time to report the others.
		limit := health.Timeout / 2
		if deadline, ok := ctx.Deadline(); ok {
			limit = time.Until(deadline) / 2
		}
		ctx, cancel := context.WithTimeout(ctx, max(limit, time.Millisecond))
		defer cancel()
		if err := writable(ctx, probe, keys); err != nil {
			return err
		}
		return evicts(policyOf(ctx, probe))
	}
}

// writable returns an error unless all keys can be written. If some can, the error is an ImpairedError.
func writable(ctx context.Context, probe *redis.ClusterClient, keys []string) error {
	var written []*redis.BoolCmd
	_, _ = probe.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has the error of its own node
		for _, key := range keys {
			written = append(written, p.SetXX(ctx, key, "", 0))
		}
		return nil
	})
	var refused, silent []error
	for _, one := range written {
		err := one.Err()
		m, known := rediserr.Of(err)
		switch {
		case err == nil:
		case known && m.Outcome == rediserr.Refused:
			refused = append(refused, &driver.DownError{
				Server: strategy.Redis, Reason: m.Reason, Values: rediserr.Values(err),
				Full: m.Full, Denied: m.Denied(),
			})
		case isSlow(err):
			silent = append([]error{err}, silent...) // one that is merely slow is not yet an outage, so it goes first
		default:
			silent = append(silent, err)
		}
	}
	some := len(refused)+len(silent) < len(written)
	switch {
	case some && len(refused) > 0:
		return &health.ImpairedError{
			Reason: fmt.Sprintf("%s no writes: %v", part(refused, "take"), words.Of(refused[0], handler.Said)),
		}
	case some && len(silent) > 0:
		return &health.ImpairedError{
			Reason: part(silent, "give") + " no answer: SKUs there cannot be sold (CLUSTER KEYSLOT stock:{sku} tells" +
				" the slot of one)",
		}
	case len(refused) > 0:
		return refused[0]
	}
	return errors.Join(silent...)
}

func part(bad []error, verb string) string {
	return fmt.Sprintf("about %d/%d of the slots %s", len(bad), tries, verb)
}

// policyOf returns a policy of eviction of a master that has one, or "" if none has, or does not say.
func policyOf(ctx context.Context, probe *redis.ClusterClient) (policy string) {
	var mu sync.Mutex
	_ = probe.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		memory := node.Info(ctx, "memory").Val() // "" if the user may not ask
		mu.Lock()
		defer mu.Unlock()
		policy = cmp.Or(policy, repo.EvictionPolicy(memory))
		return nil
	})
	return policy
}

func isSlow(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}
