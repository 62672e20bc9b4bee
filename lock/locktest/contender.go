package locktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
)

// contenderEnv is an environment variable that is not empty in a contender.
const contenderEnv = "LOCKTEST_CONTENDER"

// mark begins every line of output for the suite, because a test binary also writes other lines.
const mark = "="

// Contend makes this process a contender if the suite has started it as one; otherwise it skips the test. A package
// that calls [Conform] needs exactly this test:
//
//	func TestContender(t *testing.T) { locktest.Contend(t, harnesses()...) }
func Contend(t *testing.T, harnesses ...Harness) {
	if os.Getenv(contenderEnv) == "" {
		t.Skip("the suite runs it, in processes of its own")
	}
	byName := make(map[string]Harness)
	for _, b := range harnesses {
		byName[b.Name] = b
	}
	if err := contend(os.Stdin, os.Stdout, byName); err != nil {
		t.Fatal(err)
	}
}

// A contender serves the suite's requests in this process.
type contender struct {
	harnesses map[string]Harness
	calls     sync.WaitGroup // requests that are being served
	watches   sync.WaitGroup // of leases

	mu      sync.Mutex // guards to, too
	to      io.Writer
	lockers map[int]*opened
	leases  map[int]*lock.Lease
}

type opened struct {
	lock.Locker
	close func() error
}

// contend serves requests until in ends. Then it ends everything that it has started.
func contend(in io.Reader, out io.Writer, harnesses map[string]Harness) error {
	life, end := context.WithCancel(context.Background())
	c := &contender{
		harnesses: harnesses, to: out,
		lockers: map[int]*opened{}, leases: map[int]*lock.Lease{},
	}
	defer c.end()
	defer end()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("request %q: %w", lines.Text(), err)
		}
		c.calls.Go(func() {
			answer := c.serve(life, r)
			answer.ID = r.ID
			c.say(answer)
		})
	}
	return lines.Err()
}

// end waits for the requests under way, and releases everything.
func (c *contender) end() {
	c.calls.Wait()
	for _, lease := range c.leases {
		_ = lease.Release()
	}
	c.watches.Wait()
	_ = c.close(0)
}

func (c *contender) say(r reply) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.to.Write([]byte(mark + string(line) + "\n"))
}

func (c *contender) serve(ctx context.Context, r request) reply {
	c.mu.Lock()
	l, lease := c.lockers[r.Locker], c.leases[r.Lease]
	c.mu.Unlock()
	switch r.Do {
	case "open":
		return c.open(r)
	case "close":
		return reply{Err: fail(c.close(r.Locker))}
	case "acquire":
		return c.acquire(ctx, l, r)
	case "release":
		to := now()
		return reply{Err: fail(lease.Release()), To: to}
	case "storm":
		holds, err := r.Storm.run(ctx, l)
		return reply{Holds: holds, Err: fail(err)}
	case "waiters":
		state, err := lock.Inspect(ctx, l.Locker, r.Key)
		return reply{N: len(state.Waiters), Err: fail(err)}
	case "count":
		return reply{N: runtime.NumGoroutine()}
	default:
		return reply{Err: fail(fmt.Errorf("unknown request %q", r.Do))}
	}
}

func (c *contender) open(r request) reply {
	b, known := c.harnesses[r.Name]
	if !known {
		return reply{Err: fail(fmt.Errorf("no harness %q", r.Name))}
	}
	open := b.Open
	if r.Plain > 0 {
		open = b.Plain[r.Plain-1]
	}
	l, closer, err := open(r.Addrs, r.Term)
	if err != nil {
		return reply{Err: fail(err)}
	}
	c.mu.Lock()
	c.lockers[r.ID] = &opened{l, closer}
	c.mu.Unlock()
	return reply{}
}

// close closes a Locker; 0: all of them.
func (c *contender) close(id int) (failed error) {
	c.mu.Lock()
	var list []*opened
	for at, l := range c.lockers {
		if id == 0 || id == at {
			list = append(list, l)
			delete(c.lockers, at)
		}
	}
	c.mu.Unlock()
	for _, l := range list {
		failed = errors.Join(failed, l.close())
	}
	return failed
}

func (c *contender) acquire(ctx context.Context, l lock.Locker, r request) reply {
	ctx, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	o := lock.Options{TryOnce: r.Try}
	lease, err := l.Acquire(ctx, r.Key, o)
	for err != nil && r.Insist && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // a stopped server fails at once
		lease, err = l.Acquire(ctx, r.Key, o)
	}
	if err != nil {
		return reply{Err: fail(err)}
	}
	from := now()
	c.mu.Lock()
	c.leases[r.ID] = lease
	c.mu.Unlock()
	c.watches.Go(func() {
		<-lease.Done()
		at := now()
		c.say(reply{ID: r.ID, Lost: true, To: at, Err: fail(lease.Err())})
	})
	return reply{Fence: lease.Fence(), From: from}
}
