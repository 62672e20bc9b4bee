package server_test

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/stock/lock/locktest/server"
)

// processGone waits until a process is gone, or only waits for its parent.
func processGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); syscall.Kill(n, 0) == nil; time.Sleep(time.Millisecond) {
		if status, _ := os.ReadFile("/proc/" + pid + "/stat"); strings.Contains(string(status), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s is still there", pid)
		}
	}
}

// A process speaks through pipes. Its end takes its whole group along, and closes the pipes, although a process that
// left the group still has them. Such strays are found by their mark, or without it by their
// session.
func TestProcess(t *testing.T) {
	t.Parallel()
	mark := fmt.Sprintf("STOCK_MARK=%d", time.Now().UnixNano())
	p, err := server.StartProcess([]string{"sh", "-c", `
		sleep 1000 & echo $!
		setsid sh -c 'echo $$; exec sleep 1000' &
		env -i setsid sh -c 'echo $$; sleep 1000 & echo $!; exec sleep 1000' &
		read -r line && echo "got $line" && echo trouble >&2
		read -r line`}, append(os.Environ(), mark))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(p.In, "a line")
	var pids []string
	lines := bufio.NewScanner(p.Out)
	answered := false
	for len(pids) < 4 || !answered {
		if !lines.Scan() {
			t.Fatalf("%v, %v", pids, lines.Err())
		}
		if answered = answered || lines.Text() == "got a line"; lines.Text() != "got a line" {
			pids = append(pids, lines.Text())
		}
	}
	if line, err := bufio.NewReader(p.Err).ReadString('\n'); line != "trouble\n" {
		t.Errorf("on its standard error: %q, %v", line, err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Out.Read(make([]byte, 1)); err == nil {
		t.Error("its output can still be read")
	}
	if n := server.KillStrays(mark); n != 3 {
		t.Errorf("%d strays, want 3", n)
	}
	if n := server.KillStrays(mark + "0"); n != 0 {
		t.Errorf("%d strays of another mark", n)
	}
	for _, pid := range pids {
		processGone(t, pid)
	}
	if got := p.Outcome(); got != "signal: killed" {
		t.Errorf("it ended by %s", got)
	}
}

// A paused process answers nothing until it is resumed.
func TestProcessPaused(t *testing.T) {
	t.Parallel()
	p, err := server.StartProcess([]string{"cat"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(p.In, "a line")
	_ = p.Out.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := p.Out.Read(make([]byte, 9)); err == nil {
		t.Errorf("a paused process wrote %d bytes", n)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	_ = p.Out.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := p.Out.Read(make([]byte, 9)); n != 7 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A program that is not there is an error, and leaves no pipe open.
func TestProcessMissing(t *testing.T) {
	t.Parallel()
	if _, err := server.StartProcess([]string{"no-such-program-here"}, nil); err == nil {
		t.Error("no error")
	}
}
