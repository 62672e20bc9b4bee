package soak

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// A probe writes numbers to Redis as a client of the Sentinels does, once without and once with WAIT, to find which of
// the acknowledged writes a fail-over loses. Redis answers a write before a replica has it. WAIT 1 counts a write only
// when a replica has it, which makes its loss less likely: the Sentinels may promote a replica that does not have it.
// The service has WAIT for locks (lock.replicas), and none for sales.
type probe struct {
	client  *goredis.Client
	writers [2]*writer
}

// A writer adds numbers to a set.
type writer struct {
	key   string
	wait  bool
	acked map[int]time.Time // when a number was acknowledged
}

// The pauses and limits of the probe.
const (
	probePause = 5 * time.Millisecond
	probeLimit = 500 * time.Millisecond
)

func openProbe(ctx context.Context, s *server.Sentinels) (*probe, error) {
	p := &probe{client: goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: s.Name, SentinelAddrs: s.Addrs(), MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: probeLimit,
	})}
	p.writers[0] = &writer{key: "failover:plain", acked: make(map[int]time.Time)}
	p.writers[1] = &writer{key: "failover:wait", wait: true, acked: make(map[int]time.Time)}
	if err := p.client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("ask the Redis master: %w", err)
	}
	return p, nil
}

func (p *probe) close() error { return p.client.Close() }

// write writes until ctx ends.
func (p *probe) write(ctx context.Context) {
	var all sync.WaitGroup
	for _, w := range p.writers {
		all.Go(func() {
			for n := 0; loadtest.Sleep(ctx, probePause) == nil; n++ {
				if p.add(context.WithoutCancel(ctx), w, n) {
					w.acked[n] = time.Now()
				}
			}
		})
	}
	all.Wait()
}

// add reports whether the write counts as done.
func (p *probe) add(ctx context.Context, w *writer, n int) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*probeLimit)
	defer cancel()
	if !w.wait {
		return p.client.SAdd(ctx, w.key, n).Err() == nil
	}
	var replicas *goredis.Cmd
	_, err := p.client.Pipelined(ctx, func(pipe goredis.Pipeliner) error {
		pipe.SAdd(ctx, w.key, n)
		replicas = pipe.Do(ctx, "WAIT", 1, probeLimit.Milliseconds())
		return nil
	})
	return err == nil && replicas.Val() != int64(0)
}

// lost returns when each write was acknowledged that the master does not have.
func (p *probe) lost(ctx context.Context, w *writer) (list []time.Time, err error) {
	there, err := p.client.SMembersMap(ctx, w.key).Result()
	if err != nil {
		return nil, fmt.Errorf("read the numbers of %s: %w", w.key, err)
	}
	for n, at := range w.acked {
		if _, is := there[strconv.Itoa(n)]; !is {
			list = append(list, at)
		}
	}
	return list, nil
}
