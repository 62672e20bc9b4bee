package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// A suite is one run of Conform: its contenders and its results.
type suite struct {
	slots chan struct{}
	tries sync.WaitGroup

	mu       sync.Mutex
	idle     []*process
	failed   []error
	outcomes []Outcome
}

func newSuite(atOnce int) *suite { return &suite{slots: make(chan struct{}, atOnce)} }

// end waits for all clauses, and for the contenders to end normally.
func (s *suite) end() error {
	s.tries.Wait()
	s.failed = append(s.failed, parallel(len(s.idle), clausesAtOnce, func(i int) error { return s.idle[i].quit() }))
	return errors.Join(append(s.failed, s.write(outcomesDir()))...)
}

type result struct {
	err  error
	seen string
	took time.Duration
}

// begin checks a clause as soon as a slot is free. hurry shortens the time limits of a clause that is expected to fail.
func (s *suite) begin(h Harness, clause Clause, hurry bool) <-chan result {
	done := make(chan result, 1)
	s.tries.Go(func() {
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		done <- check(clause, func() *Scene {
			scene := newScene(h, s)
			if hurry {
				scene.timeout, scene.storm, scene.hurry = 3*time.Second, time.Second/2, true
			}
			return scene
		})
	})
	return done
}

// clauseTimeout is how long a clause may take. Each wait in a clause has its own limit.
const clauseTimeout = 3 * time.Minute

// check checks a clause on a new scene, and repeats that while a server is too busy to answer, which proves nothing
// about the lock.
func check(clause Clause, newScene func() *Scene) result {
	ctx, cancel := context.WithTimeout(context.Background(), clauseTimeout)
	defer cancel()
	for began := time.Now(); ; {
		scene := newScene()
		err := errors.Join(clause.Check(ctx, scene), scene.end())
		took := time.Since(began)
		if !errors.Is(err, lock.ErrDown) || scene.hurry || took > retryFor {
			return result{err, scene.seen, took}
		}
	}
}

// process takes an idle contender, or starts one.
func (s *suite) process() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.idle); n > 0; n = len(s.idle) {
		p := s.idle[n-1]
		s.idle = s.idle[:n-1]
		if p.usable() {
			return p, nil
		}
		s.failed = append(s.failed, p.quit())
	}
	return spawn()
}

func (s *suite) giveBack(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, p)
}

// An Outcome is the result of one clause for one strategy.
type Outcome struct {
	Strategy string
	Clause   string
	Found    string // passed, not promised, broken (as is known), failed
	Why      string `json:",omitempty"`
	Keeps    string `json:",omitempty"` // of Traces: what stays, and for how long
}

const (
	passed      = "passed"
	notPromised = "not promised"
	knownBroken = "broken"
	wrong       = "failed"
)

// outcomesEnv names a folder for the outcomes, from which the table of promises in docs/strategies.md is made.
const outcomesEnv = "LOCKTEST_OUTCOMES"

func outcomesDir() string { return os.Getenv(outcomesEnv) }

func (s *suite) record(h Harness, clause Clause, found, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Outcome{Strategy: h.Name, Clause: clause.Name, Found: found, Why: why}
	if clause.Name == "Traces" && found == passed {
		o.Keeps = h.Keeps
	}
	s.outcomes = append(s.outcomes, o)
}

// write writes the outcomes to a file in dir, unless dir is empty. Each package has its own file, because go test
// runs several packages at once.
func (s *suite) write(dir string) error {
	if dir == "" || len(s.outcomes) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(s.outcomes, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.outcomes[0].Strategy+".json"), text, 0o644)
}

// A Scene provides one clause with a key and contenders for it. All that it opens ends with it.
type Scene struct {
	Harness
	Key string // that nobody else uses

	suite   *suite        // nil: no processes
	timeout time.Duration // how long something that must happen may take
	storm   time.Duration // a storm begins no acquisition after this
	hurry   bool          // the clause is expected to fail, so two tries are enough
	seen    string        // a remark for the log

	mu      sync.Mutex
	opened  int
	taken   []*process
	wires   []*wire.Proxy
	closers []func() error
}

// calm is the lease for clauses that do not wait for its end. It is so long that no busy computer loses it.
const calm = 30 * time.Second

func newScene(h Harness, s *suite) *Scene {
	scene := &Scene{Harness: h, Key: FreshKey(), suite: s, timeout: timeout, storm: 2 * time.Minute}
	if testing.Short() {
		scene.storm = time.Second / 2
	}
	return scene
}

// here opens a Locker in this process.
func (s *Scene) here(lease time.Duration) (lock.Locker, error) {
	l, closer, err := s.Open(addrs(s.Servers), lease)
	if err == nil {
		s.closers = append(s.closers, closer)
	}
	return l, err
}

// Locker returns another independent Locker. If there are servers, it is in one of three processes, in turn.
func (s *Scene) Locker(ctx context.Context) lock.Locker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Start == nil {
		l, err := s.here(calm)
		if err != nil {
			return failing{err}
		}
		return l
	}
	if s.opened++; len(s.taken) < 3 {
		p, err := s.suite.process()
		if err != nil {
			return failing{err}
		}
		s.taken = append(s.taken, p)
	}
	r, err := s.taken[s.opened%len(s.taken)].open(ctx, s.Harness, addrs(s.Servers), calm, 0)
	if err != nil {
		return failing{err}
	}
	return r
}

// A failing Locker replaces a Locker that could not be opened.
type failing struct{ err error }

func (f failing) Acquire(context.Context, string, lock.Options) (*lock.Lease, error) {
	return nil, f.err
}

// process returns a process that only this scene uses, with no Locker in it yet.
func (s *Scene) process() (*process, error) {
	p, err := s.suite.process()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, p)
	return p, nil
}

// processes returns n Lockers in separate processes. They connect to the servers without a proxy.
func (s *Scene) processes(ctx context.Context, n int, lease time.Duration) ([]*remote, error) {
	list := make([]*remote, n)
	for i := range list {
		p, err := s.process()
		if err != nil {
			return nil, err
		}
		if list[i], err = p.open(ctx, s.Harness, addrs(s.Servers), lease, 0); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// end closes what the scene opened. Processes that still run are returned to the suite.
func (s *Scene) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var failed []error
	for _, w := range s.wires {
		w.Silence() // what is closed now would otherwise wait for its server
	}
	for _, p := range s.taken {
		if !p.usable() {
			continue
		}
		if err := (&remote{process: p}).close(ctx); errors.Is(err, errGone) {
			failed = append(failed, fmt.Errorf("close: %w", err))
		}
	}
	for _, w := range s.wires {
		failed = append(failed, w.Close())
	}
	for _, p := range s.taken {
		s.suite.giveBack(p)
	}
	for _, closer := range s.closers {
		failed = append(failed, closer())
	}
	return errors.Join(failed...)
}

// retryFor is how long a clause about the order of events is tried again.
const retryFor = time.Minute

// retry repeats try until it succeeds, for a minute, or twice if the clause is expected to fail. It is for clauses that
// compare the moments of events in different processes: a busy computer may run a timer late, or stop a process for
// longer than a lease. It does not do so every time, while a wrong lock fails every time.
func (s *Scene) retry(ctx context.Context, try func() error) error {
	var failed error
	for began, n := time.Now(), 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil || s.hurry && n == 2 || time.Since(began) > retryFor {
			return failed
		}
	}
}
