package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A locking is a "stock lock" process.
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

// startLocking starts "stock lock" with args. Its name for others is name.
func startLocking(t *testing.T, name string, args ...string) *locking {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	l := &locking{Cmd: exec.Command(path, append([]string{"lock", "--instance", name}, args...)...), out: &output{}, errs: &output{}, exited: make(chan struct{})}
	l.Stdout, l.Stderr = l.out, l.errs
	l.WaitDelay = 10 * time.Second // what the command left behind may keep the pipe
	if l.stdin, err = l.StdinPipe(); err != nil {
		t.Fatal(err)
	}
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
	eventually(t, 20*time.Second, "the command says "+text, func() (bool, string) {
		return strings.Contains(l.out.String(), text), l.out.String() + l.errs.String()
	})
}

// ends waits for the end and checks the status.
func (l *locking) ends(t *testing.T, status int) {
	t.Helper()
	select {
	case <-l.exited:
	case <-time.After(30 * time.Second):
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

func redisLocks(t *testing.T, strategies ...string) (list []kindOfLock) {
	addr := servers.Redis(t).Addr
	for _, s := range strategies {
		list = append(list, kindOfLock{s, []string{"--redis-addrs", addr}})
	}
	return list
}

func zkLock(t *testing.T) kindOfLock {
	return kindOfLock{"zk-sequential", []string{"--zookeeper-hosts", servers.ZooKeeper(t), "--zookeeper-session-timeout", "3s"}}
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
	eventually(t, 20*time.Second, "ls shows "+strings.Join(names, ", "), func() (bool, string) {
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

// zombie is whether a process has ended, and nobody has asked how.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func programPath(t *testing.T) string {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
