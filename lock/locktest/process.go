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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/stock/lock"
)

// errGone is the reply to every request after the contender has ended.
var errGone = errors.New("the contender's process has ended")

// A process is the suite's side of a contender.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	other bytes.Buffer // output that is not for the suite, such as why it failed
	owned sync.WaitGroup
	exit  chan struct{}
	err   error // how it ended; read it after exit

	mu     sync.Mutex // guards in, too
	serial int
	calls  map[int]chan reply // replies that are awaited
	lost   map[int]chan reply // the end of leases
	killed bool
}

// spawn starts a contender: this test binary, with the one test that calls Contend.
func spawn() (*process, error) {
	p := &process{exit: make(chan struct{}), calls: make(map[int]chan reply), lost: make(map[int]chan reply)}
	// No example is run, so that servertest.Shared starts no server for one.
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestContender$", "-test.skip=^Example", "-test.timeout=20m")
	// The race detector would wait for a second before it lets a process end.
	p.cmd.Env = append(os.Environ(), contenderEnv+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	p.cmd.Stderr = &p.other
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

// listen passes each reply to the call that awaits it, until the process ends.
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
			waiting <- r // has room for it
			delete(to, r.ID)
		}
		p.mu.Unlock()
	}
	if err := p.cmd.Wait(); err != nil {
		p.err = fmt.Errorf("a contender ended with %w: %s%s", err, other.String(), p.other.String())
	}
	close(p.exit)
}

// send sends a request. The channels get its reply and, if it acquires a lease, the end of that.
func (p *process) send(r request) (replies, lost <-chan reply, err error) {
	answer, end := make(chan reply, 1), make(chan reply, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	r.ID = p.serial
	line, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	p.calls[r.ID], p.lost[r.ID] = answer, end
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return nil, nil, errGone
	}
	return answer, end, nil
}

func (p *process) call(ctx context.Context, r request) (reply, error) {
	replies, _, err := p.send(r)
	if err != nil {
		return reply{}, err
	}
	return p.await(ctx, replies)
}

func (p *process) await(ctx context.Context, replies <-chan reply) (reply, error) {
	select {
	case r := <-replies:
		return r, r.Err.error()
	case <-p.exit:
		select {
		case r := <-replies: // it came before the end
			return r, r.Err.error()
		default:
			return reply{}, errGone
		}
	case <-ctx.Done():
		return reply{}, fmt.Errorf("a contender did not answer: %w", context.Cause(ctx))
	}
}

// kill ends the process without notice.
func (p *process) kill() error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	err := p.cmd.Process.Kill()
	p.owned.Wait()
	return err
}

// freeze stops the process at any point of its work, and thaw continues it.
func (p *process) freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.cmd.Process.Signal(syscall.SIGCONT) }

// usable reports whether the process can serve another clause.
func (p *process) usable() bool {
	select {
	case <-p.exit:
		return false
	default:
		return true
	}
}

// quit makes the process end normally. If its TestMain checks for leaked goroutines, that check then runs.
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

// A remote is a Locker in another process. It implements lock.Locker, so that a clause can use either.
type remote struct {
	*process
	locker int
}

// open opens the Locker of the plain-th of h.Plain; 0: that of h.Open.
func (p *process) open(
	ctx context.Context, h Harness, addrs []string, lease time.Duration, plain int,
) (*remote, error) {
	answer, err := p.call(ctx, request{Do: "open", Name: h.Name, Addrs: addrs, Term: lease, Plain: plain})
	if err != nil {
		return nil, fmt.Errorf("open %s in a process of its own: %w", h.Name, err)
	}
	return &remote{p, answer.ID}, nil
}

// close closes the Locker. The zero one stands for all of the process.
func (r *remote) close(ctx context.Context) error {
	_, err := r.call(ctx, request{Do: "close", Locker: r.locker})
	return err
}

type remoteLease struct {
	*process
	id    int
	Key   string
	Fence lock.Fence
	From  time.Duration // after the answer to Acquire, by its process
	lost  <-chan reply
}

// begin begins to acquire and returns at once. wait returns the lease.
func (r *remote) begin(a attempt) (wait func(context.Context) (*remoteLease, error), err error) {
	replies, lost, err := r.send(request{Do: "acquire", Locker: r.locker, attempt: a})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*remoteLease, error) {
		answer, err := r.await(ctx, replies)
		if err != nil {
			return nil, err
		}
		return &remoteLease{r.process, answer.ID, a.Key, answer.Fence, answer.From, lost}, nil
	}, nil
}

func (r *remote) acquire(ctx context.Context, a attempt) (*remoteLease, error) {
	wait, err := r.begin(a)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// release gives the lease back. to is a time before the request.
func (l *remoteLease) release(ctx context.Context) (to time.Duration, err error) {
	answer, err := l.call(ctx, request{Do: "release", Lease: l.id})
	return answer.To, err
}

// Acquire implements lock.Locker. It waits until the deadline of ctx; only a ctx that has been cancelled before ends it
// earlier. The error is the contender's. If a server does not answer in time, Acquire tries again, as a client would.
// Clauses that stop a server use acquire instead.
func (r *remote) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	for began := time.Now(); ; {
		lease, err := r.once(ctx, key, o)
		busy := errors.Is(err, lock.ErrDown) && !errors.Is(err, lock.ErrHeld)
		if !busy || ctx.Err() != nil || time.Since(began) > timeout {
			return lease, err
		}
	}
}

func (r *remote) once(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	wait := timeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	if ctx.Err() != nil {
		wait = -1 // the contender's context has ended, too
	}
	await, err := r.begin(attempt{Key: key, Wait: wait, Try: o.TryOnce})
	if err != nil {
		return nil, err
	}
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), max(wait, 0)+2*timeout)
	defer stop()
	far, err := await(bound)
	if err != nil {
		return nil, err
	}
	lease, lost := lock.NewLease(key, far.Fence, func(ctx context.Context) error {
		// The contender limits the time of the release itself, but on a busy computer its reply may take long.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		_, err := far.release(ctx)
		return err
	})
	far.owned.Go(func() {
		select {
		case end := <-far.lost:
			if why := end.Err.error(); !errors.Is(why, lock.ErrReleased) {
				lost(why)
			}
		case <-far.exit:
			lost(errGone)
		}
	})
	return lease, nil
}

// InspectAll implements driver.Inspector, but returns only the number of the waiters.
func (r *remote) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	states := make([]lock.State, len(keys))
	for i, key := range keys {
		answer, err := r.call(ctx, request{Do: "waiters", Locker: r.locker, attempt: attempt{Key: key}})
		if err != nil {
			return nil, err
		}
		states[i].Waiters = make([]lock.Contender, answer.N)
	}
	return states, nil
}

// A request is sent to a contender as one line of JSON.
type request struct {
	ID     int
	Do     string        // open, close, acquire, release, storm, waiters, count
	Addrs  []string      `json:",omitempty"` // open: of the servers, or of proxies before them
	Locker int           `json:",omitempty"` // ID of the request that opened it
	Lease  int           `json:",omitempty"` // ID of the request that acquired it
	Term   time.Duration `json:",omitempty"` // open: the lease
	Name   string        `json:",omitempty"` // open: of the harness
	Plain  int           `json:",omitempty"` // open: the number of the client, see Harness.Plain; 0: that of Open
	Storm  storm         `json:",omitzero"`
	attempt
}

// An attempt is one try to get a lease.
type attempt struct {
	Key    string        `json:",omitempty"`
	Wait   time.Duration `json:",omitempty"`
	Try    bool          `json:",omitempty"`
	Insist bool          `json:",omitempty"` // try again after every error, until the wait ends
}

// A reply is sent by a contender as one line of JSON.
type reply struct {
	ID    int           // of the request; with Lost: of the one that acquired the lease
	Lost  bool          `json:",omitempty"` // not a reply: a lease has ended
	Err   *failure      `json:",omitempty"`
	Fence lock.Fence    `json:",omitempty"`
	From  time.Duration `json:",omitempty"` // acquire: after the answer
	To    time.Duration `json:",omitempty"` // release: before the request; Lost: when it was known
	N     int           `json:",omitempty"`
	Holds []Hold        `json:",omitempty"`
}

// A failure is an error of the contender.
type failure struct {
	Text    string
	Matches []int // indexes of the sentinels that it matches
}

// sentinels returns the errors of the contract. Their order is the protocol.
func sentinels() []error {
	return []error{
		lock.ErrHeld, lock.ErrLost, lock.ErrExpired, lock.ErrTaken, lock.ErrReleased, lock.ErrDown,
		context.DeadlineExceeded, context.Canceled, errors.ErrUnsupported, lock.ErrOutcomeUnknown,
		lock.ErrInvalid, lock.ErrClosed,
	}
}

func fail(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, sentinel := range sentinels() {
		if errors.Is(err, sentinel) {
			f.Matches = append(f.Matches, i)
		}
	}
	return f
}

func (f *failure) Error() string { return f.Text }

func (f *failure) Is(target error) bool {
	all := sentinels()
	return slices.ContainsFunc(f.Matches, func(i int) bool { return i < len(all) && all[i] == target })
}

// error returns f, or nil for a nil f: a nil *failure in an error is not nil.
func (f *failure) error() error {
	if f == nil {
		return nil
	}
	return f
}
