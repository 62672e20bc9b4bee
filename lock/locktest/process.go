package locktest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errGone answers every request to a contender that has ended.
var errGone = errors.New("the contender's process has ended")

// A process is a contender, seen from the suite.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  bytes.Buffer // what is not for us, such as why it failed
	owned sync.WaitGroup
	exit  chan struct{}
	err   error // how it ended; read it after exit

	mu     sync.Mutex // guards in, too
	serial int
	calls  map[int]chan reply // what is awaited
	lost   map[int]chan reply // the end of leases
	killed bool
}

// spawn starts a contender: this test binary, with the one test that calls Contend.
func spawn() (*process, error) {
	p := &process{exit: make(chan struct{}), calls: make(map[int]chan reply), lost: make(map[int]chan reply)}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestContender$", "-test.timeout=20m")
	// The race detector would wait for a second before it lets a process end.
	p.cmd.Env = append(os.Environ(), contenderEnv+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	p.cmd.Stderr = &p.said
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a contender: %w", err)
	}
	p.owned.Go(func() { p.listen(out) })
	return p, nil
}

// listen hands replies to who waits for them until the process ends.
func (p *process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	var other strings.Builder
	for lines.Scan() {
		line, ours := strings.CutPrefix(lines.Text(), mark)
		var r reply
		if !ours || json.Unmarshal([]byte(line), &r) != nil {
			fmt.Fprintln(&other, lines.Text())
			continue
		}
		p.mu.Lock()
		to := p.calls
		if r.Lost {
			to = p.lost
		}
		if waiting, found := to[r.ID]; found {
			waiting <- r // has room for the one there is
			delete(to, r.ID)
		}
		p.mu.Unlock()
	}
	if err := p.cmd.Wait(); err != nil {
		p.err = fmt.Errorf("a contender ended with %w: %s%s", err, other.String(), p.said.String())
	}
	close(p.exit)
}

// An asked is a request that was sent.
type asked struct {
	id   int
	come <-chan reply // the reply
	lost <-chan reply // of an acquire: the end of the lease
}

func (p *process) ask(r request) (asked, error) {
	come, lost := make(chan reply, 1), make(chan reply, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	r.ID = p.serial
	line, err := json.Marshal(r)
	if err != nil {
		return asked{}, err
	}
	p.calls[r.ID], p.lost[r.ID] = come, lost
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return asked{}, errGone
	}
	return asked{r.ID, come, lost}, nil
}

// call asks and waits for the reply.
func (p *process) call(ctx context.Context, r request) (int, reply, error) {
	a, err := p.ask(r)
	if err != nil {
		return 0, reply{}, err
	}
	answer, err := p.await(ctx, a.come)
	if err == nil {
		err = answer.Err.error()
	}
	return a.id, answer, err
}

func (p *process) await(ctx context.Context, come <-chan reply) (reply, error) {
	select {
	case r := <-come:
		return r, nil
	case <-p.exit:
		select {
		case r := <-come: // its last words
			return r, nil
		default:
			return reply{}, errGone
		}
	case <-ctx.Done():
		return reply{}, fmt.Errorf("a contender did not answer: %w", context.Cause(ctx))
	}
}

// kill ends the process without a word.
func (p *process) kill() error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	err := p.cmd.Process.Kill()
	p.owned.Wait()
	return err
}

// pause stops the process in mid-step, and resume lets it go on.
func (p *process) pause() error  { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// usable is whether the process can serve another sentence.
func (p *process) usable() bool {
	select {
	case <-p.exit:
		return false
	default:
		return true
	}
}

// quit asks the process to end in good order, which includes that no goroutine is left in it, if its TestMain looks for them.
func (p *process) quit() error {
	p.mu.Lock()
	killed := p.killed
	p.in.Close()
	p.mu.Unlock()
	if killed {
		return nil
	}
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	p.owned.Wait()
	return p.err
}
