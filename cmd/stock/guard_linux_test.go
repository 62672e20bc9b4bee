package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/stock/lock/locktest/servertest"
)

const patience = time.Minute

// deafFamily is a command with two children, one of them in a session of its own. All of them ignore SIGTERM and write
// their numbers into the file $1.
const deafFamily = `trap '' TERM
sh -c 'echo $$ >>"$1"; while :; do sleep 1; done' sh "$1" &
setsid sh -c 'echo $$ >>"$1"; while :; do sleep 1; done' sh "$1" &
echo $$ >>"$1"; while :; do sleep 1; done`

// family waits until n processes have written their numbers into a file.
func family(t *testing.T, file string, n int) (pids []int) {
	t.Helper()
	servertest.Eventually(t, patience, "the processes run", func() (bool, string) {
		text, _ := os.ReadFile(file)
		pids = nil
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return len(pids) == n, string(text)
	})
	t.Cleanup(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // if the test has failed
		}
	})
	return pids
}

// Whatever becomes of the guard's output, it ends the command and all that the command has started, and then itself.
func TestLockLostWhileItsOutputIsStuck(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		output func(t *testing.T) *os.File
	}{
		{"closed pipe", func(t *testing.T) *os.File {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { write.Close() })
			read.Close()
			return write
		}},
		{"stopped terminal", func(t *testing.T) *os.File {
			person, program := terminal(t, 24, 80)
			if _, err := person.Write([]byte{'S' & 0x1f}); err != nil { // Ctrl-S
				t.Fatal(err)
			}
			return program
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k := redisLock(t, "redis-watchdog")
			k.server = append(k.server, shortLeases()...)
			key, file := "stuck "+row.name, filepath.Join(t.TempDir(), "pids")
			out := row.output(t)
			cmd := exec.Command(program.Path(t), append([]string{"lock", "run"},
				k.args(key, append([]string{"--kill-after", "300ms"}, sh(deafFamily, file)...)...)...)...)
			cmd.Stdout, cmd.Stderr = out, out
			l := startGuard(t, cmd)
			pids := family(t, file, 3)
			evict(t, k, key)
			l.ends(t, 76)
			for _, pid := range pids {
				if !gone(pid) {
					t.Errorf("process %d of %v outlives the guard, which has lost the lock", pid, pids)
				}
			}
		})
	}
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) }

// startGuard starts a command as startLocking does, with the files that it has.
func startGuard(t *testing.T, cmd *exec.Cmd) *locking {
	t.Helper()
	l := &locking{Cmd: cmd, out: &output{}, errs: &output{}, exited: make(chan struct{})}
	return l.begin(t)
}

// A shellOnTerminal is an interactive shell on a pseudo-terminal.
type shellOnTerminal struct {
	person *os.File
	screen *output
}

// onTerminal starts an interactive shell with job control.
func onTerminal(t *testing.T) *shellOnTerminal {
	t.Helper()
	person, program := terminal(t, 24, 200)
	cmd := exec.Command("sh", "-i")
	cmd.Env = append(os.Environ(), "PS1=ready> ", "ENV=", "STOCK_INSTANCE=m")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s := &shellOnTerminal{person, &output{}}
	l := startGuard(t, cmd)
	program.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s.screen, person) // EIO when all have closed the terminal
	}()
	t.Cleanup(func() { // before that of startGuard
		_ = syscall.Kill(-l.Process.Pid, syscall.SIGHUP)
		_ = l.Process.Kill()
		<-l.exited
		person.Close()
		<-read
	})
	s.shows(t, "ready> ")
	return s
}

// types writes as a person at the keyboard does.
func (s *shellOnTerminal) types(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(s.person, text); err != nil {
		t.Fatal(err)
	}
}

func (s *shellOnTerminal) shows(t *testing.T, text string) {
	t.Helper()
	servertest.Eventually(t, patience, "the terminal shows "+text, func() (bool, string) {
		return strings.Contains(s.screen.String(), text), s.screen.String()
	})
}

// command is the command line of a guard. Its words have no single quotes but in a last script.
func (s *shellOnTerminal) command(t *testing.T, args ...string) string {
	t.Helper()
	var line strings.Builder
	for _, arg := range append([]string{program.Path(t), "lock", "run"}, args...) {
		line.WriteString("'" + strings.ReplaceAll(arg, "'", `'\''`) + "' ")
	}
	return line.String()
}

// stopped reports whether a process is stopped.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") T ")
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// Ctrl-Z stops the command with the guard, also if its standard input is elsewhere, and fg continues both. If the lease
// is over by then, the command is ended before it does anything.
func TestLockOnATerminalIsStopped(t *testing.T) {
	t.Parallel()
	const ticking = `trap 'echo told >>"$2"; exit 0' TERM; : >"$2"; echo $$ >>"$1"; echo $PPID >>"$1"
while [ ! -e "$1.end" ]; do echo tick >>"$2"; sleep 0.05; done`
	for _, input := range []string{"", " </dev/null"} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("input %q, lease over: %v", input, over), func(t *testing.T) {
				t.Parallel()
				k, lease := redisLock(t, "redis-watchdog"), "1h"
				if over {
					lease = "3s"
				}
				key, dir := t.Name(), t.TempDir()
				pidFile, ticks := filepath.Join(dir, "pids"), filepath.Join(dir, "ticks")
				s := onTerminal(t)
				s.types(t, s.command(t, k.args(key,
					append([]string{"--lock-watchdog-lease", lease}, sh(ticking, pidFile, ticks)...)...)...)+input+"\n")
				pids := family(t, pidFile, 2)
				command, guard := pids[0], pids[1]
				s.types(t, ctrlZ)
				servertest.Eventually(t, patience, "both are stopped", func() (bool, string) {
					return stopped(command) && stopped(guard), s.screen.String()
				})
				if over {
					listed(t, k, key)
				}
				before := read(t, ticks)
				s.types(t, "fg; echo status=$?\n")
				if over {
					s.shows(t, "status=76")
					if after := read(t, ticks); after != before+"told\n" {
						t.Errorf("after the lease was over the command did %q", strings.TrimPrefix(after, before))
					}
					return
				}
				servertest.Eventually(t, patience, "the command goes on", func() (bool, string) {
					return len(read(t, ticks)) > len(before), s.screen.String()
				})
				if err := os.WriteFile(pidFile+".end", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				s.shows(t, "status=0")
			})
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A command reads from the terminal and is interrupted there, wherever its standard input and output are. The shell has
// the terminal again after it.
func TestLockOnATerminalIsAsked(t *testing.T) {
	t.Parallel()
	for i, redirected := range []string{"", " </dev/null", " | cat", " </dev/null 2>/dev/null | cat"} {
		t.Run("with"+redirected, func(t *testing.T) {
			t.Parallel()
			k := redisLock(t, "redis-watchdog")
			key := fmt.Sprint("asked ", i)
			line := func(s *shellOnTerminal) string {
				return s.command(t, k.args(key, sh(`echo "asks"? >/dev/tty; read x </dev/tty; echo got-$x`)...)...)
			}
			s := onTerminal(t)
			s.types(t, line(s)+redirected+"; echo back=$((40+2))\n")
			s.shows(t, "asks?")
			s.types(t, "hello\n")
			s.shows(t, "got-hello")
			s.shows(t, "back=42")
			listed(t, k, key)

			s = onTerminal(t)
			s.types(t, line(s)+redirected+"; echo back=$((40+2))\n")
			s.shows(t, "asks?")
			s.types(t, ctrlC)
			listed(t, k, key)
			s.types(t, "\necho again=$((40+3))\n")
			s.shows(t, "again=43")
		})
	}
}

// A command that takes another user's identity cannot be ended by an ordinary user: the guard says so at the start, and
// keeps the lock until the command has ended.
func TestLockOfACommandOfAnotherUser(t *testing.T) {
	t.Parallel()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and setpriv")
	}
	dir := t.TempDir()
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tool := func(name, from string, mode os.FileMode) string {
		to := filepath.Join(dir, name)
		content, err := os.ReadFile(from)
		if err == nil {
			err = errors.Join(os.WriteFile(to, content, 0o700), os.Chmod(to, mode))
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	become := tool("become", setpriv, 0o755|os.ModeSetuid)
	guard := tool("stock", program.Path(t), 0o755)
	k := redisLock(t, "redis-watchdog")
	k.server = append(k.server, shortLeases()...)
	start := func(key string) *locking {
		args := append([]string{"--reuid=65534", "--clear-groups", guard, "lock", "run", "--instance", "m"},
			k.args(key, "--kill-after", "100ms", "--", become, "--reuid=0", "sh", "-c", "echo up; cat")...)
		l := startLockingOf(t, exec.Command(setpriv, args...))
		l.says(t, "up")
		if said := l.errs.String(); !strings.Contains(said, "cannot be ended") {
			t.Errorf("at the start it says %q", said)
		}
		return l
	}

	asked := start("asked to end")
	if err := asked.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	asked.complains(t, "operation not permitted")
	listed(t, k, "asked to end", "m")
	asked.stdin.Close()
	asked.ends(t, 0)
	listed(t, k, "asked to end")

	lost := start("lost")
	evict(t, k, "lost")
	lost.complains(t, "operation not permitted")
	select {
	case <-lost.exited:
		t.Errorf("the guard has ended before its command: %s", lost.errs)
	default:
	}
	lost.stdin.Close()
	lost.ends(t, 76)
}

// complains waits until the guard has printed text.
func (l *locking) complains(t *testing.T, text string) {
	t.Helper()
	servertest.Eventually(t, patience, "the guard says "+text, func() (bool, string) {
		return strings.Contains(l.errs.String(), text), l.out.String() + l.errs.String()
	})
}

// terminal returns both ends of a pseudo-terminal: the one that a person has, and the one that a program gets.
func terminal(t *testing.T, rows, columns uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { person.Close() })
	conn, err := person.SyscallConn() // Fd would make Close wait for a Read
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if controlled := conn.Control(func(fd uintptr) {
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		err = errors.Join(err, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0),
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	}); errors.Join(controlled, err) != nil {
		t.Fatal(controlled, err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}
