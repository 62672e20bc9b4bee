package health_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/app/health"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
)

// The same on a real server that is paused: whatever error its client returns, one slow reply is no outage, and two
// are.
func TestARedisThatStandsStill(t *testing.T) {
	server := servertest.Redis(t)
	client := redis.NewClient(
		&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1},
	)
	defer client.Close()
	b := health.New("redis", func(ctx context.Context) error { return client.Ping(ctx).Err() })
	probe := func(want error, changes bool) {
		t.Helper()
		if now, changed := b.Probe(t.Context()); !errors.Is(now, want) || changed != changes {
			t.Errorf("Probe() = %v, %t; want %v, %t", now, changed, want, changes)
		}
	}
	// A busy computer may take longer for a reply than a probe waits.
	comesUp := func() {
		t.Helper()
		for began := time.Now(); time.Since(began) < time.Minute; {
			if now, changed := b.Probe(t.Context()); now == nil {
				if !changed {
					t.Error("Probe() = nil, without a change")
				}
				return
			}
		}
		t.Error("it does not come up")
	}
	comesUp()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	probe(nil, false)
	if took := b.Latency(); took < health.Timeout-10*time.Millisecond {
		t.Errorf("a server that stands still answered after %v", took)
	}
	probe(lock.ErrDown, true)
	down(t, b, "no-answer (limit=800ms)")
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	comesUp()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	probe(lock.ErrDown, true)
	down(t, b, "unreachable")
}
