package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.com/stock/lock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// ownServer is a lock on a server of the test's own, with short leases.
func ownServer(t *testing.T, strategy string) (kindOfLock, *stack.Server) {
	if strategy == "zk-sequential" {
		s := stacktest.Server(t, stack.ZooKeeper)
		return kindOfLock{strategy, []string{"--zookeeper-hosts", s.URL, "--zookeeper-session-timeout", "3s"}}, s
	}
	s := stacktest.Redis(t)
	return kindOfLock{strategy, []string{"--redis-addrs", s.Addr, "--lock-watchdog-lease", "3s", "--lock-setnx-lease", "3s"}}, s
}

// open opens the lock in this process.
func (k kindOfLock) open(t *testing.T) lock.Locker {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	settings := addServerFlags(flags)
	if err := flags.Parse(k.server); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := loadConfig(settings)
	if err != nil {
		t.Fatal(err)
	}
	s, err := findLock(k.strategy)
	if err != nil {
		t.Fatal(err)
	}
	a, err := openServers(cfg, toolLogger(io.Discard, cfg), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.close() })
	l, err := a.openLock(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// However the lock is lost, the command is told, and one that does not listen is killed with all that it has started.
func TestLockLost(t *testing.T) {
	evict := func(t *testing.T, k kindOfLock, _ *stack.Server) {
		if _, err := lock.Evict(t.Context(), k.open(t), "lost"); err != nil {
			t.Fatal(err)
		}
	}
	hang := func(t *testing.T, _ kindOfLock, s *stack.Server) {
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Resume() })
	}
	nothing := func(*testing.T, kindOfLock, *stack.Server) {}
	for _, row := range []struct {
		name, strategy string
		more           []string
		lose           func(*testing.T, kindOfLock, *stack.Server)
	}{
		{"evicted", "redis-watchdog", nil, evict},
		{"evicted", "zk-sequential", nil, evict},
		{"server hangs", "redis-watchdog", nil, hang},
		{"server hangs", "zk-sequential", nil, hang},
		{"lease is over", "redis-setnx", nil, nothing},
		{"held too long", "redis-watchdog", []string{"--max-hold", "3s"}, nothing},
	} {
		t.Run(row.name+"/"+row.strategy, func(t *testing.T) {
			t.Parallel()
			for _, command := range []struct{ name, script, says, grace string }{
				{"obedient", `trap 'echo told; exit 0' TERM; echo up $$ end; while :; do sleep 0.02; done`, "told", "30s"},
				{"with a deaf child", `trap 'exit 0' TERM; (trap '' TERM; exec sleep 600) & echo up $! end; wait; wait`, "up", "300ms"},
				{"deaf", `trap '' TERM; sleep 600 & echo up $! end; while :; do sleep 0.02; done`, "up", "300ms"},
			} {
				t.Run(command.name, func(t *testing.T) {
					k, server := ownServer(t, row.strategy)
					l := startLocking(t, "m", k.args("lost", append(append(row.more, "--kill-after", command.grace), sh(command.script)...)...)...)
					l.says(t, "end")
					var pid int
					if _, err := fmt.Sscanf(l.out.String(), "up %d", &pid); err != nil {
						t.Fatal(err)
					}
					row.lose(t, k, server)
					l.ends(t, 76)
					l.says(t, command.says)
					if said := l.errs.String(); !strings.Contains(said, "SIGTERM to the command") {
						t.Errorf("it says %q", said)
					}
					eventually(t, 20*time.Second, "nothing of it is left", func() (bool, string) {
						return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid), fmt.Sprint("pid ", pid)
					})
				})
			}
		})
	}
}

// A lock that is not renewed, and was lost before the command had ended: that it ended well does not count.
func TestLockLostIsToldLate(t *testing.T) {
	t.Parallel()
	k := redisLocks(t, "redis-setnx")[0]
	l := startLocking(t, "m", k.args("late loss", "--", "cat")...)
	listed(t, k, "late loss", "m")
	if _, err := lock.Evict(t.Context(), k.open(t), "late loss"); err != nil {
		t.Fatal(err)
	}
	l.stdin.Close()
	l.ends(t, 76)
}

// A release that does not reach the server is said, and is not the command's failure.
func TestLockThatCannotBeGivenBack(t *testing.T) {
	t.Parallel()
	k, server := ownServer(t, "redis-watchdog")
	l := startLocking(t, "m", k.args("stranded", "--lock-watchdog-lease", "1m", "--", "cat")...)
	listed(t, k, "stranded", "m")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	l.stdin.Close()
	l.ends(t, 0)
	if said := l.errs.String(); !strings.Contains(said, "could not be given back") {
		t.Errorf("it says %q", said)
	}
}
