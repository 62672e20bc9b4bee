package grade

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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
	*server.Process
	replies *bufio.Reader
	stderr  tail
	drained chan struct{} // closed at the end of the standard error
}

func startProcess(argv, env []string) (*process, error) {
	p, err := server.StartProcess(argv, env)
	if err != nil {
		return nil, err
	}
	l := &process{Process: p, replies: bufio.NewReaderSize(p.Out, maxLine+2), drained: make(chan struct{})}
	go func() {
		defer close(l.drained)
		_, _ = io.Copy(&l.stderr, p.Err) // until close, or until nobody has the pipe
	}()
	return l, nil
}

func (l *process) said(r request) string { return r.line() }

// ask writes one line and reads one. What the process prints is read only here, up to maxLine bytes: a process that
// prints more fills its pipe and stops.
func (l *process) ask(ctx context.Context, r request, within time.Duration) (string, error) {
	request := r.line()
	deadline := time.Now().Add(within)
	_ = l.In.SetWriteDeadline(deadline)
	_ = l.Out.SetReadDeadline(deadline)
	// Registered after the deadlines are set, so that the end of ctx is not overwritten.
	stop := context.AfterFunc(ctx, func() {
		_ = l.In.SetWriteDeadline(time.Unix(1, 0))
		_ = l.Out.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	if _, err := io.WriteString(l.In, request+"\n"); err != nil {
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
	case <-l.Exited():
	case <-timer.C:
		return &endedError{fmt.Sprintf("closed its pipe: %v", err), l.stderr.String()}
	}
	select {
	case <-l.drained:
	case <-timer.C: // a process that left the group still has the pipe
	}
	return &endedError{l.Outcome(), l.stderr.String()}
}

func (l *process) close() error {
	err := l.Process.Close()
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
