package stack_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

// After a power cut a server has what it synced, and starts from that. What it wrote before it was first ready is there
// with every setting.
func TestServersLosePower(t *testing.T) {
	t.Parallel()
	stacktest.NeedsPowerCuts(t)
	for _, c := range []struct {
		kind     stack.Kind
		setting  string
		put      func(ctx context.Context, s *stack.Server) error
		get      func(ctx context.Context, s *stack.Server) (found bool, err error)
		survives bool
	}{
		{stack.Redis, "--appendfsync=always", redisPut, redisGet, true},
		{stack.Redis, "--appendfsync=no", redisPut, redisGet, false},
		{stack.MySQL, "--innodb-flush-log-at-trx-commit=1", mysqlPut, mysqlGet, true},
		{stack.ZooKeeper, "forceSync=yes", zkPut, zkGet, true},
		{stack.ZooKeeper, "forceSync=no", zkPut, zkGet, false},
	} {
		t.Run(c.setting, func(t *testing.T) {
			t.Parallel()
			more := strings.Split(c.setting, "=")
			if c.kind != stack.Redis {
				more = []string{c.setting}
			}
			s := start(t, stack.Options{
				Want: []stack.Kind{c.kind}, AOF: true, PowerCuts: true, More: map[stack.Kind][]string{c.kind: more},
			})
			server := need(t, s, string(c.kind))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			before := server.Disk.Syncs()
			if err := c.put(ctx, server); err != nil {
				t.Fatal(err)
			}
			if err := server.Pause(); err != nil {
				t.Fatal(err)
			}
			if !c.survives && server.Disk.Syncs() != before {
				t.Skip("the server has synced by itself")
			}
			if err := server.PowerCut(); err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			if found, err := c.get(ctx, server); err != nil || found != c.survives {
				t.Errorf("after the cut: found %v, %v; want %v", found, err, c.survives)
			}
			// The disk is there after the second start, too, and Stop unmounts it.
			if err := server.PowerCut(); err != nil {
				t.Fatal(err)
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			mounts, err := os.ReadFile("/proc/self/mounts")
			if err != nil || strings.Contains(string(mounts), s.Dir) {
				t.Errorf("after Stop: something is mounted below %s, %v", s.Dir, err)
			}
		})
	}
}

// A server without a disk of its own refuses, and runs on.
func TestPowerCutNeedsADisk(t *testing.T) {
	t.Parallel()
	server := stacktest.Redis(t)
	if err := server.PowerCut(); err == nil || server.Pid() == 0 {
		t.Errorf("PowerCut: %v, pid %d", err, server.Pid())
	}
}
