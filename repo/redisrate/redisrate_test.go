package redisrate_test

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/repo"
	"example.com/stock/repo/redisrate"
	"example.com/stock/repo/repotest"
	"example.com/stock/service/ratelimit"
)

func TestMain(m *testing.M) { repotest.Main(m) }

const patience = time.Minute

// up is a health check's result.
type up struct{ err error }

func (u up) Err() error          { return u.err }
func (u up) Up() context.Context { return context.Background() }

// All instances together admit a burst, and each customer has one of his own.
func TestOneRateForAllInstances(t *testing.T) {
	t.Parallel()
	addr := repotest.Servers.Redis(t).Addr
	policy := ratelimit.Policy{Name: "n", Every: time.Hour, Burst: 10}
	var instances []*redisrate.Limiter
	for range 4 {
		instances = append(instances, redisrate.New(repo.NewRedis(repotest.DialRedis(t, addr)), up{}, patience))
	}
	for _, customer := range []string{t.Name() + "/a", t.Name() + "/b"} {
		var admitted atomic.Int64
		var clients sync.WaitGroup
		for i := range 40 {
			clients.Go(func() {
				if d := instances[i%4].Take(t.Context(), customer, policy)[0]; d.OK {
					admitted.Add(1)
				}
			})
		}
		clients.Wait()
		if n := admitted.Load(); n != 10 {
			t.Errorf("%d of 40 requests of %s were admitted, want 10", n, customer)
		}
		d := instances[0].Take(t.Context(), customer, policy)[0]
		if d.OK || d.Left != 0 || d.Retry <= 58*time.Minute || d.Retry > time.Hour || d.Full > 10*time.Hour {
			t.Errorf("the next one: %+v", d)
		}
	}
	left := instances[0].Take(t.Context(), t.Name()+"/c", policy)[0]
	if want := (ratelimit.Decision{OK: true, Left: 9, Full: time.Hour}); left != want {
		t.Errorf("the first of a customer: %+v, want %+v", left, want)
	}
}

// The key of a customer expires when a whole burst is left.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	client := repotest.DialRedis(t, repotest.Servers.Redis(t).Addr)
	policy := ratelimit.Policy{Name: "n", Every: time.Hour, Burst: 10}
	l := redisrate.New(repo.NewRedis(client), up{}, patience)
	l.Take(t.Context(), t.Name(), policy)
	l.Take(t.Context(), t.Name(), policy)
	if ttl := client.PTTL(t.Context(), keyOf(t.Name())).Val(); ttl <= time.Hour || ttl > 2*time.Hour {
		t.Errorf("the key expires in %v, want some two hours", ttl)
	}
}

// Without Redis, an instance decides by itself, and does not refuse everything.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	server := stacktest.Redis(t)
	policy := ratelimit.Policy{Name: "n", Every: time.Hour, Burst: 3}
	l := redisrate.New(repo.NewRedis(repotest.DialRedis(t, server.Addr)), up{}, 100*time.Millisecond)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if d := l.Take(t.Context(), "a", policy)[0]; d.OK != (i < 3) {
			t.Errorf("request %d: %+v", i, d)
		}
	}
}

// A Redis that is known to be down is not asked.
func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	client := repotest.DialRedis(t, repotest.Servers.Redis(t).Addr)
	policy := ratelimit.Policy{Name: "n", Every: time.Hour, Burst: 3}
	l := redisrate.New(repo.NewRedis(client), up{errors.New("down")}, patience)
	for i := range 5 {
		if d := l.Take(t.Context(), t.Name(), policy)[0]; d.OK != (i < 3) {
			t.Errorf("request %d: %+v", i, d)
		}
	}
	if n := client.Exists(t.Context(), keyOf(t.Name())).Val(); n != 0 {
		t.Error("Redis was asked")
	}
}

func keyOf(customer string) string {
	return "rate:{" + base64.RawURLEncoding.EncodeToString([]byte(customer)) + "}:n"
}

// A request that one policy refuses counts for none.
func TestAllPoliciesAdmit(t *testing.T) {
	t.Parallel()
	l := redisrate.New(repo.NewRedis(repotest.DialRedis(t, repotest.Servers.Redis(t).Addr)), up{}, patience)
	rate := ratelimit.Policy{Name: "customer", Every: time.Hour, Burst: 3}
	keys := ratelimit.Policy{Name: "keys", Every: 24 * time.Hour, Burst: 1}
	for i := range 4 {
		got := l.Take(t.Context(), t.Name(), rate, keys)
		if !got[0].OK || got[0].Left != 2 || got[1].OK != (i == 0) || got[1].Left != 0 {
			t.Errorf("request %d: %+v", i, got)
		}
	}
	if got := l.Take(t.Context(), t.Name(), rate); !got[0].OK || got[0].Left != 1 {
		t.Errorf("a request without a key: %+v", got)
	}
}
