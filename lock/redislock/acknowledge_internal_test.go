package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// A follower answers WAIT; every script is answered "OK".
type follower struct {
	n   int64
	err error
}

func (follower) DialHook(next redis.DialHook) redis.DialHook { return next }

func (follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f follower) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, list []redis.Cmder) error {
		list[0].(interface{ SetVal(any) }).SetVal("OK")
		if f.err != nil {
			list[1].SetErr(f.err)
			return f.err
		}
		list[1].(*redis.Cmd).SetVal(f.n)
		return nil
	}
}

// As many replicas as were asked for are enough, and more are. One fewer is not, nor is an answer that is none.
func TestHowManyAcknowledge(t *testing.T) {
	broken := errors.New("the reply was lost")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, row := range []struct {
		name  string
		ctx   context.Context
		by    follower
		says  string // of a fault; empty: there is none
		fault error
	}{
		{"one fewer", t.Context(), follower{n: 1}, "too-few-acknowledged (n=1, asked=2", lock.ErrDown},
		{"as many", t.Context(), follower{n: 2}, "", nil},
		{"more", t.Context(), follower{n: 3}, "", nil},
		{"no answer", t.Context(), follower{err: broken}, "wait for the replicas of k", lock.ErrDown},
		{"no room", t.Context(), follower{err: redis.ErrPoolTimeout}, "wait for the replicas", lock.ErrOverloaded},
		{"the end of the wait", ended, follower{err: broken}, "context canceled", context.Canceled},
	} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		client.AddHook(row.by)
		script := func(p redis.Pipeliner) *redis.Cmd { return p.Do(row.ctx, "EVALSHA") }
		reply, err := replicas{number: 2}.wait(row.ctx, client, "k", script)
		if reply.Val() != "OK" {
			t.Errorf("%s: the script's reply is %v", row.name, reply.Val())
		}
		if !errors.Is(err, row.fault) || row.fault != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %v: %q", row.name, err, row.fault, row.says)
		}
		_ = client.Close()
	}
}

// Without a master for the key there is a reply all the same: why there is none.
func TestNoMasterAcknowledges(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1})
	defer cluster.Close()
	script := func(redis.Pipeliner) *redis.Cmd { t.Error("a script was sent"); return nil }
	reply, short := replicas{number: 1}.wait(t.Context(), cluster, "k", script)
	if reply == nil || reply.Err() == nil || short != nil {
		t.Errorf("%v, %v", reply, short)
	}
}

// A waiting is a follower that remembers for how many ms it was asked to wait.
type waiting struct {
	follower
	ms any
}

func (w *waiting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	hook := w.follower.ProcessPipelineHook(next)
	return func(ctx context.Context, list []redis.Cmder) error {
		w.ms = list[1].Args()[2]
		return hook(ctx, list)
	}
}

// Replicas have a sixth of the lease, and half a second at most: the lease must not end while they are waited for.
func TestHowLongReplicasAreWaitedFor(t *testing.T) {
	for lease, want := range map[time.Duration]int64{600 * time.Millisecond: 100, time.Minute: 500} {
		w := &waiting{follower: follower{n: 1}}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		client.AddHook(w)
		call := call{redisscript.New("return 1"), []string{"k"}, nil}
		s := &server{client: client, lease: lease}
		if _, err := (replicas{number: 1}).run(t.Context(), s, call); err != nil || w.ms != want {
			t.Errorf("a lease of %v: WAIT for %v ms, %v, want %d", lease, w.ms, err, want)
		}
		_ = client.Close()
	}
}

// What a release could not delete is looked for as long as it may be there: a key that was set, until its lease ends; a
// request that was never answered may be executed much later.
func TestHowLongAReleaseIsRepeated(t *testing.T) {
	var clients []redis.UniversalClient
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"} {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
		defer c.Close()
		clients = append(clients, c)
	}
	r, err := NewRedlock(clients, RedlockOptions{Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, n := range r.nodes {
		n.silent.Store(true)
		n.cleaning = true // by nobody
	}
	a := r.attempt("k", lock.Options{})
	a.outcomes = []outcome{set, unknown, notSet}
	began := time.Now()
	a.release(t.Context())
	for i, want := range []struct{ orphans, answers int }{{1, 1}, {1, 2}, {0, 0}} {
		if got := len(r.nodes[i].orphans); got != want.orphans {
			t.Fatalf("node %d: %d orphans, want %d", i, got, want.orphans)
		}
		if want.orphans == 0 {
			continue
		}
		long := !r.nodes[i].orphans[0].until.Before(began.Add(unknownLife))
		if o := r.nodes[i].orphans[0]; o.answers != want.answers || long != (a.outcomes[i] == unknown) {
			t.Errorf("node %d: %d answers end it, an hour: %v", i, o.answers, long)
		}
	}
	if k := r.keep(); k.TTL != time.Minute || k.Every != 20*time.Second {
		t.Errorf("a lease of a minute is renewed every %v of %v", k.Every, k.TTL)
	}
}
