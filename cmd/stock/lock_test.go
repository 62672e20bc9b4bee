package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// The command finds its lock in its environment. While one process holds the lock, another is told so at once, or after
// its wait; or it waits until it gets the lock, with a larger fence.
func TestLockNotObtained(t *testing.T) {
	t.Parallel()
	for _, k := range []kindOfLock{redisLock(t, "redis-watchdog"), zkLock(t)} {
		t.Run(k.strategy, func(t *testing.T) {
			t.Parallel()
			const show = `echo "$LOCK_STRATEGY $LOCK_KEY $LOCK_FENCE."; `
			holder := startLocking(t, "machine-1", k.args("busy", sh(show+"cat")...)...)
			fmt.Fprintln(holder.stdin, "up")
			holder.says(t, "up") // standard input and output are the command's

			once := startLocking(t, "m", k.args("busy", "--no-wait", "--", "echo", "in")...)
			once.ends(t, 75)
			if said := once.errs.String(); !strings.Contains(said, "machine-1/pid-"+strconv.Itoa(holder.Process.Pid)) ||
				once.out.String() != "" {
				t.Errorf("it says %q, and runs %q; want it to name the holder and not to run", said, once.out)
			}
			quiet := startLocking(t, "m", k.args("busy", "--wait", "0s", "-q", "--", "echo", "in")...)
			quiet.ends(t, 75)
			if said := quiet.out.String() + quiet.errs.String(); said != "" {
				t.Errorf("--quiet says %q", said)
			}
			bounded := startLocking(t, "m", k.args("busy", "--wait", "1s", "--", "echo", "in")...)
			bounded.ends(t, 75)
			if said := bounded.errs.String(); !strings.Contains(said, "not free within 1s") {
				t.Errorf("it says %q", said)
			}
			endless := startLocking(t, "m", k.args("busy", sh(show)...)...)
			startLocking(t, "m", k.args("other", "--no-wait", "--", "echo", "in")...).ends(t, 0)
			listed(t, k, "busy", "machine-1", "m")
			if said := endless.out.String(); said != "" {
				t.Errorf("came in while the lock was held: %s", said)
			}
			holder.stdin.Close()
			holder.ends(t, 0)
			endless.ends(t, 0)
			var fences [2]uint64
			for i, l := range []*locking{holder, endless} {
				if _, err := fmt.Sscanf(l.out.String(), k.strategy+" busy %d.", &fences[i]); err != nil {
					t.Errorf("its environment is %q: %v", l.out, err)
				}
			}
			if fences[1] <= fences[0] {
				t.Errorf("fence %d after %d", fences[1], fences[0])
			}
		})
	}
}

func TestLockPassesTheStatusOn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	k := redisLock(t, "redis-watchdog")
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
		{"no server", []string{"--redis-url", "redis://127.0.0.1:1", "--", "true"}, 69},
		{"server not configured", []string{"--redis-url", "", "--", "true"}, 69},
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
	t.Run("itself", func(t *testing.T) {
		t.Parallel()
		guard := func(key string, command ...string) []string {
			return k.args(key, append([]string{"--"}, command...)...)
		}
		stock := []string{program.Path(t), "lock", "run"}
		inner := append(slices.Clone(stock), guard("outer", "true")...)
		middle := append(slices.Clone(stock), guard("middle", inner...)...)
		startLocking(t, "m", guard("outer", middle...)...).ends(t, 64)
	})
	t.Run("no lock between machines", func(t *testing.T) {
		t.Parallel()
		l := startLocking(t, "m", "local-mutex", "k", "--", "true")
		l.ends(t, 64)
		if said := l.errs.String(); !strings.Contains(said, "redis-watchdog") {
			t.Errorf("it says %q, want which there are", said)
		}
	})
}

// Signals reach the command. A signal makes a waiter leave the queue.
func TestLockPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{{syscall.SIGINT, "INT"}, {syscall.SIGTERM, "TERM"}, {syscall.SIGHUP, "HUP"}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			k := redisLock(t, "redis-watchdog")
			key := "signal " + s.name
			holder := startLocking(
				t,
				"holder",
				k.args(key, sh(`trap 'echo told; exit 3' `+s.name+`; echo up; while :; do sleep 0.02; done`)...)...)
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

// The lock is kept for the requested time, though the command has ended: a late worker does not run the task again.
func TestLockAtLeast(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	k := redisLock(t, "redis-watchdog")
	first := startLocking(t, "m", k.args("late", "--no-wait", "--at-least", "1m", "--", "echo", "done")...)
	first.says(t, "done")
	startLocking(t, "m", k.args("late", "--no-wait", "--", "echo", "again")...).ends(t, 75)
	if err := first.Process.Signal(syscall.SIGTERM); err != nil { // nobody wants to wait a minute
		t.Fatal(err)
	}
	first.ends(t, 0)
	startLocking(t, "m", k.args("late", "--no-wait", "--", "echo", "again")...).ends(t, 0)
}

// If stock is killed, so is the command, and the lock becomes free.
func TestLockFreeAfterAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	k := redisLock(t, "redis-watchdog")
	k.server = append(k.server, shortLeases()...)
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
	servertest.Eventually(t, time.Minute, "the command is killed, too", func() (bool, string) {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid), fmt.Sprint("pid ", pid)
	})
	next.ends(t, 0)
}

// ownServer is a lock on a server of its own, with short leases.
func ownServer(t *testing.T) (kindOfLock, *server.Server) {
	s := servertest.Redis(t)
	return kindOfLock{"redis-watchdog", append([]string{"--redis-url", "redis://" + s.Addr}, shortLeases()...)}, s
}

func shortLeases() []string {
	return []string{"--lock-watchdog-lease", "3s", "--lock-setnx-lease", "3s"}
}

// open opens the lock in this process.
func (k kindOfLock) open(t *testing.T) lock.Locker {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	settings := app.AddLockFlags(flags)
	if err := flags.Parse(k.server); err != nil {
		t.Fatal(err)
	}
	cfg, err := app.Load(settings)
	if err != nil {
		t.Fatal(err)
	}
	s, err := app.FindLock(k.strategy)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := app.OpenLocks(cfg, slog.New(slog.DiscardHandler), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	l, err := locks.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func evict(t *testing.T, k kindOfLock, key string) {
	t.Helper()
	if _, err := lock.Evict(t.Context(), k.open(t), key); err != nil {
		t.Fatal(err)
	}
}

// However the lock is lost, the command gets SIGTERM, and its status does not count. TestLockLostWhileItsOutputIsStuck
// shows what becomes of commands that ignore the signal.
func TestLockLost(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	for _, row := range []struct {
		name, strategy string
		lose           func(t *testing.T, k kindOfLock, key string, s *server.Server)
	}{
		{"evicted", "redis-watchdog", func(t *testing.T, k kindOfLock, key string, _ *server.Server) {
			evict(t, k, key)
		}},
		{"server hangs", "redis-watchdog", func(t *testing.T, _ kindOfLock, _ string, s *server.Server) {
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Resume() })
		}},
		{"lease is over", "redis-setnx", func(*testing.T, kindOfLock, string, *server.Server) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k, server := ownServer(t)
			k.strategy = row.strategy
			script := `trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.02; done`
			l := startLocking(t, "m", k.args(row.name, sh(script)...)...)
			l.says(t, "up")
			row.lose(t, k, row.name, server)
			l.ends(t, 76)
			l.says(t, "told")
		})
	}
}

// The lock is not renewed, and was lost before the command ended: its success does not count.
func TestLockLostIsToldLate(t *testing.T) {
	t.Parallel()
	k := redisLock(t, "redis-setnx")
	l := startLocking(t, "m", k.args("late loss", "--", "cat")...)
	listed(t, k, "late loss", "m")
	evict(t, k, "late loss")
	l.stdin.Close()
	l.ends(t, 76)
}

// A release that does not reach the server is reported, and is not a failure of the command.
func TestLockThatCannotBeGivenBack(t *testing.T) {
	t.Parallel()
	k, server := ownServer(t)
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

// segmentsOf picks the locks of segments from all keys of the server: all of them, those of a SKU, or one.
func TestSegmentsOf(t *testing.T) {
	t.Parallel()
	keys := []string{"stock#3", "nightly-report", "stock", "other#1", "stock#1", "stocks#1"}
	for _, row := range []struct{ skus, want []string }{
		{nil, []string{"other#1", "stock#1", "stock#3", "stocks#1"}},
		{[]string{"stock"}, []string{"stock#1", "stock#3"}},
		{[]string{"stock#3", "other"}, []string{"other#1", "stock#3"}},
		{[]string{"nightly-report"}, []string{}},
	} {
		if got := segmentsOf(slices.Clone(keys), row.skus); !slices.Equal(got, row.want) {
			t.Errorf("of %q: %q, want %q", row.skus, got, row.want)
		}
	}
}

// What an instance answers about its locks is printed: the holders, the segments, and after an eviction the stores. How
// long a lock is held is what the instance says: its clock may be hours away from this computer's.
func TestLocksOfAnInstance(t *testing.T) {
	t.Parallel()
	held := fmt.Sprintf(`{"who":"app-1/r","since":%q,"since_ms":90061.0,"fence":7}`,
		time.Now().Add(-2*time.Hour).Format(time.RFC3339Nano))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch request := r.Method + " " + r.URL.Path; request {
		case "GET /v1/locks/segmented/book":
			_, _ = fmt.Fprintf(w, `{"segments":[{"key":"book#3","holder":%s}]}`, held)
		case "DELETE /v1/locks/segmented/book#3":
			_, _ = fmt.Fprintf(w, `{"fence":8,"evicted":%s,"stores":{"redis":"raised"}}`, held)
		default:
			t.Errorf("asked to %s", request)
		}
	}))
	t.Cleanup(server.Close)
	for args, want := range map[string][]string{
		"ls segmented book":      {"book#3", "app-1/r", "1m30s", "7"},
		"evict segmented book#3": {"evicted app-1/r", "1m30s", "fence 7", "store redis: raised"},
	} {
		args := append([]string{"lock"}, strings.Fields(args)...)
		out, _, err := run(t.Context(), append(args, "--url", server.URL)...)
		for _, text := range want {
			if err != nil || !strings.Contains(out, text) {
				t.Errorf("%s: %v, %q; want %q", args, err, out, text)
			}
		}
	}
}

// A locking is a "stock lock run" process.
type locking struct {
	*exec.Cmd
	stdin  io.WriteCloser
	out    *output
	errs   *output
	exited chan struct{}
}

// An output can be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startLocking starts "stock lock run" with args. Its name for others is name.
func startLocking(t *testing.T, name string, args ...string) *locking {
	t.Helper()
	args = append([]string{"lock", "run", "--instance", name}, args...)
	return startLockingOf(t, exec.Command(program.Path(t), args...))
}

func startLockingOf(t *testing.T, cmd *exec.Cmd) *locking {
	t.Helper()
	var err error
	l := &locking{Cmd: cmd, out: &output{}, errs: &output{}, exited: make(chan struct{})}
	l.Stdout, l.Stderr = l.out, l.errs
	l.WaitDelay = 10 * time.Second // what the command left behind may keep the pipe
	if l.stdin, err = l.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return l.begin(t)
}

// begin starts the command, and ends it with the test.
func (l *locking) begin(t *testing.T) *locking {
	t.Helper()
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = l.Wait(); close(l.exited) }()
	t.Cleanup(func() {
		_ = l.Process.Kill()
		<-l.exited
	})
	return l
}

// says waits until the command has printed text.
func (l *locking) says(t *testing.T, text string) {
	t.Helper()
	servertest.Eventually(t, 20*time.Second, "the command says "+text, func() (bool, string) {
		return strings.Contains(l.out.String(), text), l.out.String() + l.errs.String()
	})
}

// ends waits for the end and checks the exit status.
func (l *locking) ends(t *testing.T, status int) {
	t.Helper()
	select {
	case <-l.exited:
	case <-time.After(time.Minute):
		t.Fatalf("%v does not end: %s%s", l.Args, l.out, l.errs)
	}
	if got := l.ProcessState.ExitCode(); got != status {
		t.Errorf("status %d, want %d: %s%s", got, status, l.out, l.errs)
	}
}

// A kind of lock as the tests have it: name, and the flags that lead to its server.
type kindOfLock struct {
	strategy string
	server   []string
}

func redisLock(t *testing.T, strategy string) kindOfLock {
	return kindOfLock{strategy, []string{"--redis-url", "redis://" + servers.Redis(t).Addr}}
}

func zkLock(t *testing.T) kindOfLock {
	return kindOfLock{
		"zk-sequential",
		[]string{"--zookeeper-hosts", servers.ZooKeeper(t), "--zookeeper-session-timeout", "30s"},
	}
}

// args is the command line for key, with more flags and the command after "--".
func (k kindOfLock) args(key string, more ...string) []string {
	return slices.Concat([]string{k.strategy, key}, k.server, more)
}

func sh(script string, args ...string) []string {
	return append([]string{"--", "sh", "-c", script, "sh"}, args...)
}

// listed waits until "stock lock ls" shows these instances for key, in this order.
func listed(t *testing.T, k kindOfLock, key string, names ...string) {
	t.Helper()
	servertest.Eventually(t, 20*time.Second, "ls shows "+strings.Join(names, ", "), func() (bool, string) {
		out, errs, err := run(t.Context(), append([]string{"lock", "ls", k.strategy, key}, k.server...)...)
		if err != nil {
			return false, err.Error()
		}
		var seen []string
		for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
			if _, rest, found := strings.Cut(line, "/pid-"); i > 0 && found && rest != "" {
				before := strings.Fields(line[:strings.Index(line, "/pid-")])
				seen = append(seen, before[len(before)-1])
			}
		}
		return slices.Equal(seen, names), out + errs
	})
}

// zombie reports whether a process has ended, and its parent has not waited for it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
