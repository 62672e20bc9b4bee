package grade

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/lock/locktest/server"
)

// A locker is a lock under test, as one contender uses it. It serves one request at a time.
type locker interface {
	// ask returns the line of the reply. Without one by within it returns errSilent.
	ask(ctx context.Context, r request, within time.Duration) (line string, err error)
	// said returns a request as the lock gets it.
	said(r request) string
	close() error
}

var errSilent = errors.New("the lock did not answer")

// An endedError reports that the process of the lock has ended.
type endedError struct{ outcome, stderr string }

func (e *endedError) Error() string { return e.Said().EN }

func (e *endedError) Said() words.Text {
	if e.stderr == "" {
		return say("process.ended", "how", e.outcome)
	}
	return say("process.ended-saying", "how", e.outcome, "stderr", quote(e.stderr))
}

// A process is a lock that reads requests on its standard input and writes replies to its standard output.
type process struct {
	run     server.Run
	in, out *os.File // our ends; their deadlines can be set
	replies *bufio.Reader
	errs    *os.File
	stderr  tail
	drained chan struct{} // closed at the end of the standard error
}

// startProcess starts argv with the environment env. argv[0] is looked for on PATH. See killStrays for what the program
// leaves outside its group.
func startProcess(argv, env []string) (l *process, err error) {
	var pipes []*os.File
	defer func() {
		for _, file := range pipes {
			if err != nil {
				file.Close()
			}
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
			pipes = append(pipes, r, w)
		}
		return r, w
	}
	theirIn, in := pipe()
	out, theirOut := pipe()
	errs, theirErrs := pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// The program gets files. With other readers and writers, package exec would need a goroutine for each.
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, theirIn, theirOut, theirErrs
	if err = adopt(); err != nil {
		return nil, err
	}
	run, err := server.StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	for _, file := range []*os.File{theirIn, theirOut, theirErrs} {
		file.Close()
	}
	l = &process{
		run: run, in: in, out: out, errs: errs, replies: bufio.NewReaderSize(out, maxLine+2),
		drained: make(chan struct{}),
	}
	go func() {
		defer close(l.drained)
		_, _ = io.Copy(&l.stderr, errs) // until close, or until nobody has the pipe
	}()
	return l, nil
}

func (l *process) said(r request) string { return r.line() }

// ask writes one line and reads one. What the process prints is read only here, up to maxLine bytes: a process that
// prints more fills its pipe and stops.
func (l *process) ask(ctx context.Context, r request, within time.Duration) (string, error) {
	request := r.line()
	deadline := time.Now().Add(within)
	_ = l.in.SetWriteDeadline(deadline)
	_ = l.out.SetReadDeadline(deadline)
	// Registered after the deadlines are set, so that the end of ctx is not overwritten.
	stop := context.AfterFunc(ctx, func() {
		_ = l.in.SetWriteDeadline(time.Unix(1, 0))
		_ = l.out.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	if _, err := io.WriteString(l.in, request+"\n"); err != nil {
		return "", l.failed(ctx, err)
	}
	line, err := l.replies.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", &protocolError{request, string(line), r.expected(), say("protocol.too-long", "most", maxLine)}
	case err != nil && len(line) > 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		return "", &protocolError{request, string(line), r.expected(), say("protocol.no-newline")}
	case err != nil:
		return "", l.failed(ctx, err)
	}
	text := strings.TrimSuffix(string(line), "\n")
	if n := l.replies.Buffered(); n > 0 {
		more, _ := l.replies.Peek(n)
		return "", &protocolError{request, text + "\n" + string(more), r.expected(), say("protocol.two-lines")}
	}
	return text, nil
}

// endBound is how long a process whose pipe is closed may take to end.
const endBound = 5 * time.Second

func (l *process) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilent
	}
	timer := time.NewTimer(endBound)
	defer timer.Stop()
	select {
	case <-l.run.Exited():
	case <-timer.C:
		return &endedError{fmt.Sprintf("closed its pipe: %v", err), l.stderr.String()}
	}
	select {
	case <-l.drained:
	case <-timer.C: // a process that left the group still has the pipe
	}
	return &endedError{l.run.Outcome(), l.stderr.String()}
}

// freeze suspends the process and all of its group, and thaw resumes them.
func (l *process) freeze() error { return l.run.Signal(syscall.SIGSTOP) }
func (l *process) thaw() error   { return l.run.Signal(syscall.SIGCONT) }

// kill ends the process and all of its group at once, and returns when it is gone.
func (l *process) kill() error {
	if err := l.run.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, server.ErrNotRunning) {
		return err
	}
	<-l.run.Exited()
	return nil
}

// close kills the process and closes its pipes, even those that a stray descendant still has open.
func (l *process) close() error {
	err := errors.Join(l.kill(), l.in.Close(), l.out.Close(), l.errs.Close())
	<-l.drained
	return err
}

// A tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 400

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-tailBytes):]...)
	t.text = append(t.text[:0], t.text[max(0, len(t.text)-tailBytes):]...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
