package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Processes that lock the same key come in one after the other, each with a larger fence than the one before.
func TestLockExcludes(t *testing.T) {
	for _, k := range append(redisLocks(t, "redis-setnx", "redis-watchdog"), zkLock(t)) {
		t.Run(k.strategy, func(t *testing.T) {
			t.Parallel()
			history := filepath.Join(t.TempDir(), "history")
			var all []*locking
			for i := range 5 {
				// The sleep is what the others would fall into.
				all = append(all, startLocking(t, fmt.Sprint("m", i), k.args("excl", sh(`echo "in $$ $LOCK_FENCE $LOCK_STRATEGY $LOCK_KEY" >>"$1"; sleep 0.1; echo "out $$" >>"$1"`, history)...)...))
			}
			for _, l := range all {
				l.ends(t, 0)
			}
			text, err := os.ReadFile(history)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if len(lines) != 10 {
				t.Fatalf("history:\n%s", text)
			}
			var before uint64
			for i := 0; i < len(lines); i += 2 {
				var pid, out int
				var fence uint64
				var strategy, key string
				if _, err := fmt.Sscanf(lines[i]+" "+lines[i+1], "in %d %d %s %s out %d", &pid, &fence, &strategy, &key, &out); err != nil || pid != out {
					t.Fatalf("not one after the other (%v):\n%s", err, text)
				}
				if fence <= before || strategy != k.strategy || key != "excl" {
					t.Errorf("fence %d after %d, strategy %s, key %s", fence, before, strategy, key)
				}
				before = fence
			}
		})
	}
}

// While one holds, another is told so at once, or after its wait; or it waits until its turn comes.
func TestLockNotObtained(t *testing.T) {
	for _, k := range append(redisLocks(t, "redis-setnx", "redis-watchdog"), zkLock(t)) {
		t.Run(k.strategy, func(t *testing.T) {
			t.Parallel()
			holder := startLocking(t, "machine-1", k.args("busy", "--", "cat")...)
			fmt.Fprintln(holder.stdin, "up")
			holder.says(t, "up") // standard input and output are the command's

			once := startLocking(t, "m", k.args("busy", "--no-wait", "--", "echo", "in")...)
			once.ends(t, 75)
			if said := once.errs.String(); !strings.Contains(said, "machine-1/pid-"+strconv.Itoa(holder.Process.Pid)) || once.out.String() != "" {
				t.Errorf("it says %q, and runs %q; want it to name the holder and not to run", said, once.out)
			}
			quiet := startLocking(t, "m", k.args("busy", "--wait", "0s", "-q", "--", "echo", "in")...)
			quiet.ends(t, 75)
			if said := quiet.out.String() + quiet.errs.String(); said != "" {
				t.Errorf("--quiet says %q", said)
			}
			bounded := startLocking(t, "m", k.args("busy", "--wait", "2s", "--", "echo", "in")...)
			bounded.ends(t, 75)
			if said := bounded.errs.String(); !strings.Contains(said, "not free within 2s") {
				t.Errorf("it says %q", said)
			}
			endless := startLocking(t, "m", k.args("busy", "--", "echo", "in")...)
			other := startLocking(t, "m", k.args("other", "--no-wait", "--", "echo", "in")...)
			other.ends(t, 0)
			select {
			case <-endless.exited:
				t.Errorf("came in while the lock was held: %s", endless.out)
			default:
			}
			holder.stdin.Close()
			holder.ends(t, 0)
			endless.ends(t, 0)
		})
	}
}

func TestLockPassesTheStatusOn(t *testing.T) {
	k := redisLocks(t, "redis-watchdog")[0]
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		args   []string
		status int
	}{
		{"success", []string{"--", "true"}, 0},
		{"its own status", sh("exit 7"), 7},
		{"killed", sh("kill -9 $$"), 128 + 9},
		{"not executable", []string{"--", plain}, 126},
		{"not found", []string{"--", "no-such-command"}, 127},
		{"no --", []string{"true"}, 64},
		{"no command", []string{"--"}, 64},
		{"an unknown flag", []string{"--waitt", "1s", "--", "true"}, 64},
		{"two ways to wait", []string{"--wait", "1s", "--no-wait", "--", "true"}, 64},
		{"a negative time", []string{"--wait", "-1s", "--", "true"}, 64},
		{"a wrong setting", []string{"--lock-watchdog-lease", "1ms", "--", "true"}, 64},
		{"no server", []string{"--redis-addrs", "127.0.0.1:1", "--", "true"}, 69},
		{"server not configured", []string{"--redis-addrs", "", "--", "true"}, 69},
		{"itself", []string{"--no-wait", "--", "env", "LOCK_STRATEGY=redis-watchdog", "LOCK_KEY=nested", programPath(t), "lock", "redis-watchdog", "nested", "--", "true"}, 64},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k := k
			if strings.Contains(row.name, "server") {
				k.server = nil
			}
			startLocking(t, "m", k.args("status "+row.name, row.args...)...).ends(t, row.status)
		})
	}
	for _, strategy := range []string{"none", "local-mutex", "atomic", "segmented", "redis-sentx"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			l := startLocking(t, "m", strategy, "k", "--", "true")
			l.ends(t, 64)
			if said := l.errs.String(); !strings.Contains(said, "redis-watchdog") || !strings.Contains(said, "zk-sequential") {
				t.Errorf("it says %q, want which there are", said)
			}
		})
	}
}

// Signals are the command's; one that waits for the lock leaves the queue.
func TestLockPassesSignalsOn(t *testing.T) {
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{{syscall.SIGINT, "INT"}, {syscall.SIGTERM, "TERM"}, {syscall.SIGHUP, "HUP"}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			k := redisLocks(t, "redis-watchdog")[0]
			key := "signal " + s.name
			holder := startLocking(t, "holder", k.args(key, sh(`trap 'echo told; exit 3' `+s.name+`; echo up; while :; do sleep 0.02; done`)...)...)
			holder.says(t, "up")
			waiter := startLocking(t, "waiter", k.args(key, "--", "echo", "in")...)
			listed(t, k, key, "holder", "waiter")
			if err := waiter.Process.Signal(s.signal); err != nil {
				t.Fatal(err)
			}
			waiter.ends(t, 128+int(s.signal))
			listed(t, k, key, "holder")
			if err := holder.Process.Signal(s.signal); err != nil {
				t.Fatal(err)
			}
			holder.ends(t, 3)
			holder.says(t, "told")
			listed(t, k, key)
		})
	}
}

// The lock is kept for as long as was asked for, though the command is done: a late worker does not run the task again.
func TestLockAtLeast(t *testing.T) {
	t.Parallel()
	k := redisLocks(t, "redis-watchdog")[0]
	first := startLocking(t, "m", k.args("late", "--no-wait", "--at-least", "1m", "--", "echo", "done")...)
	first.says(t, "done")
	startLocking(t, "m", k.args("late", "--no-wait", "--", "echo", "again")...).ends(t, 75)
	if err := first.Process.Signal(syscall.SIGTERM); err != nil { // nobody wants to wait a minute
		t.Fatal(err)
	}
	first.ends(t, 0)
	startLocking(t, "m", k.args("late", "--no-wait", "--", "echo", "again")...).ends(t, 0)
}

// When stock is killed so is the command, and the lock is free within the time that is promised.
func TestLockFreeAfterAKill(t *testing.T) {
	for _, k := range []kindOfLock{
		{"redis-watchdog", append(redisLocks(t, "")[0].server, "--lock-watchdog-lease", "3s")},
		zkLock(t),
	} {
		t.Run(k.strategy, func(t *testing.T) {
			t.Parallel()
			holder := startLocking(t, "holder", k.args("killed", sh(`echo up $$ end; exec sleep 600`)...)...)
			holder.says(t, "end")
			var pid int
			if _, err := fmt.Sscanf(holder.out.String(), "up %d", &pid); err != nil {
				t.Fatal(err)
			}
			next := startLocking(t, "next", k.args("killed", "--", "true")...)
			listed(t, k, "killed", "holder", "next")
			if err := holder.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			eventually(t, 5*time.Second+slack, "the command is killed, too", func() (bool, string) {
				return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid), fmt.Sprint("pid ", pid)
			})
			next.ends(t, 0)
			// A lease of 3 s; a session of 3 s, which ends at the server's tick after that.
			if took := time.Since(killed); took > 5*time.Second+slack {
				t.Errorf("the next one came in after %v", took)
			}
		})
	}
}
