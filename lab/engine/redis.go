package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisurl"
)

// dialBound is how long a server may take to accept a connection.
const dialBound = 10 * time.Second

// Keys are the keys of a test on Redis. Names of the service's keys cannot be changed, so no other instance of it may
// use the same database. Keys of other programs stay as they are: all others of the test contain its name.
type keys struct {
	run    string
	addrs  string
	client redis.UniversalClient
}

// ownKeys is the pattern of the keys that only the service has.
const ownKeys = "stock:*"

// openKeys connects to Redis, and returns an error if an instance of the service uses it.
func openKeys(ctx context.Context, url, run string) (*keys, error) {
	o, err := redisurl.Parse(url)
	if err != nil {
		return nil, failure("redis.url", "why", err)
	}
	o.Protocol, o.DialTimeout = 2, dialBound
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each node has the host of its address
	}
	k := &keys{run: run, addrs: strings.Join(o.Addrs, ","), client: redis.NewUniversalClient(&o)}
	found := ""
	err = k.each(ctx, ownKeys, func(_ *redis.Client, page []string) error {
		found = page[0]
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return nil, errors.Join(failure("redis.in-use", "addrs", k.addrs, "key", found), k.client.Close())
	case err != nil:
		return nil, errors.Join(failure("redis.not-reached", "addrs", k.addrs, "why", err), k.client.Close())
	}
	return k, nil
}

var errFound = errors.New("found")

// each calls do with the keys of every master that match pattern, page by page.
func (k *keys) each(ctx context.Context, pattern string, do func(*redis.Client, []string) error) error {
	scan := func(ctx context.Context, node *redis.Client) error {
		for cursor := uint64(0); ; {
			page, next, err := node.Scan(ctx, cursor, pattern, 1000).Result()
			if err == nil && len(page) > 0 {
				err = do(node, page)
			}
			if err != nil || next == 0 {
				return err
			}
			cursor = next
		}
	}
	switch client := k.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, scan)
	case *redis.Client:
		return scan(ctx, client)
	}
	return fmt.Errorf("%T is no client to scan with", k.client)
}

// describe returns what the server reports about itself.
func (k *keys) describe(ctx context.Context) (string, error) {
	info, err := k.client.InfoMap(ctx, "server", "replication").Result()
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("Redis %s, %s", info["Server"]["redis_version"], info["Server"]["redis_mode"])
	if n := info["Replication"]["connected_slaves"]; n != "" && n != "0" {
		text += ", replicas: " + n
	}
	return text, nil
}

// remove deletes the keys of the test, and the fences of the keys on which instances have tried their rights. Nobody
// uses those again, so it does no harm if some are of another service. remove may be called more than once.
func (k *keys) remove(ctx context.Context) error {
	for _, pattern := range []string{ownKeys, "*" + k.run + "*", "*{check of *"} {
		err := k.each(ctx, pattern, func(node *redis.Client, page []string) error {
			_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range page {
					p.Unlink(ctx, key) // one at a time: they are in several slots of a Cluster
				}
				return nil
			})
			return err
		})
		if err != nil {
			return failure("redis.left", "addrs", k.addrs, "patterns", ownKeys+", *"+k.run+"*", "why", err)
		}
	}
	return k.client.Close()
}
