package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

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
		list[0].(*redis.Cmd).SetVal("OK")
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
		reply, err := replicas{number: 2}.wait(row.ctx, lock.Options{}, client, "k", script)
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
	reply, short := replicas{number: 1}.wait(t.Context(), lock.Options{}, cluster, "k", script)
	if reply == nil || reply.Err() == nil || short != nil {
		t.Errorf("%v, %v", reply, short)
	}
}
