package locktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
	"example.com/stock/stack/wire"
)

const trialLease = time.Second

// A brokenTrial is a lock of several processes with one thing wrong, and the sentences that must notice.
type brokenTrial struct {
	name    string
	flaws   flaws
	open    func(addr string) lock.Locker // nil: a trial
	rejects []string
}

func brokenTrials() []brokenTrial {
	return []brokenTrial{
		{"takes the key from whoever has it", flaws{noNX: true}, nil, []string{"Processes"}},
		{"excludes only its own process", flaws{}, func(string) lock.Locker { return &local.Mutex{} }, []string{"Processes"}},
		{
			"the key stays for ever",
			flaws{noExpiry: true},
			nil,
			[]string{"Crash", "Paused", "CutOff", "Expiry", "Unknown"},
		},
		{"is not renewed", flaws{noRenewal: true}, nil, []string{"Renewal"}},
		{"tells of the loss a second late", flaws{lateLoss: true}, nil, []string{"Expiry", "CutOff"}},
		{"never tells of the loss", flaws{noLoss: true}, nil, []string{"Expiry", "Paused", "Restart"}},
		{"deletes the key whoever has it", flaws{blindDelete: true}, nil, []string{"Owner"}},
		{"one fence for all", flaws{sameFence: true}, nil, []string{"Processes", "Paused", "Generations"}},
		{"fences are counted in the process", flaws{ownFence: true}, nil, []string{"Generations"}},
		{"a queue that nobody leaves", flaws{tickets: true}, nil, []string{"DeadWaiter"}},
		{"believes whatever it was told", flaws{mail: true}, nil, []string{"PausedWaiter"}},
		{"what failed is not taken back", flaws{noCleanup: true}, nil, []string{"Cuts", "CrashPoints"}},
		{"errors as the client has them", flaws{rawErrors: true}, nil, []string{"Cuts"}},
		{"frees an abandoned key", flaws{hasty: true}, nil, []string{"Unknown"}},
		{"every acquisition leaves a key", flaws{litter: true}, nil, []string{"Traces"}},
		{"every acquisition leaves a goroutine", flaws{ghosts: true}, nil, []string{"Traces"}},
	}
}

// bench is the trial on Redis as the suite takes it. It claims whatever a sentence asks for.
func (b brokenTrial) bench(aof bool) Harness {
	return Harness{
		Name: b.name, Lease: trialLease, Renews: true, Wire: wire.Redis(), Left: trialLeft,
		Promise: lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true, Reentrant: true, SignalsLoss: true},
		Open: func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
			if b.open != nil {
				return b.open(addrs[0]), func() error { return nil }, nil
			}
			l := newTrial(addrs[0], lease, b.flaws)
			return l, l.Close, nil
		},
		Start: func(t testing.TB) []Server { return startRedis(t, aof) },
	}
}

func startRedis(t testing.TB, aof bool) []Server {
	s, err := stack.Start(t.Context(), stack.Options{AOF: aof, Want: []stack.Kind{stack.Redis}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	server := s.Server("redis")
	if server.StandIn != "" {
		stacktest.Redis(t) // which skips, or fails where it must not
	}
	return []Server{{server.Addr, server.Kill, server.Restart}}
}

// right is a trial without a flaw.
func right() Harness { return brokenTrial{name: "right"}.bench(true) }

func TestContender(t *testing.T) {
	benches := []Harness{right()}
	for _, b := range brokenTrials() {
		benches = append(benches, b.bench(false))
	}
	Contend(t, benches...)
}

func TestEverySentenceHasABrokenLock(t *testing.T) {
	var rejected []string
	for _, b := range brokenLocks(t.Context()) {
		rejected = append(rejected, b.rejects...)
	}
	for _, b := range brokenTrials() {
		rejected = append(rejected, b.rejects...)
	}
	for _, s := range Clauses() {
		if !slices.Contains(rejected, s.Name) {
			t.Errorf("no broken lock shows that %s can fail: %s", s.Name, s.Rule)
		}
	}
}

func TestTheSuiteRejectsBrokenLocks(t *testing.T) {
	sentences := byName()
	for _, b := range brokenLocks(t.Context()) {
		for _, name := range b.rejects {
			t.Run(b.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				scene := newScene(Harness{}, nil)
				scene.inside = b.open
				if err := sentences[name].Check(ctx, scene); err == nil {
					t.Errorf("passed %q", sentences[name].Rule)
				}
			})
		}
	}
}

// In several processes, on a server that forgets its locks when it is killed.
func TestTheSuiteRejectsBrokenProcesses(t *testing.T) {
	s := newSuite(sentencesAtOnce)
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	sentences, shared := byName(), startRedis(t, false)
	for _, b := range brokenTrials() {
		for _, name := range b.rejects {
			t.Run(b.name+"/"+name, func(t *testing.T) {
				bench := b.bench(false)
				bench.Renews = name != "Expiry"
				bench.Servers = shared
				if sentences[name].Restarts {
					bench.Servers = bench.Start(t)
				}
				come := s.begin(bench, sentences[name], hurry)
				t.Parallel()
				got := <-come
				if got.err == nil {
					t.Errorf("passed %q", sentences[name].Rule)
				}
				t.Logf("%v: %v", got.took.Round(time.Millisecond), got.err)
			})
		}
	}
}

func TestTheSuitePassesARightLock(t *testing.T) {
	m := &local.Mutex{} // one process, so every Locker is the same
	Run(t, lock.Promise{Exclusive: true, Blocking: true, Fair: true, Reentrant: true}, func(testing.TB) lock.Locker { return m })
}

// With processes: what the broken ones are rejected for is their flaw and nothing else.
func TestTheSuitePassesARightLockInProcesses(t *testing.T) {
	b := right()
	b.Servers = startRedis(t, true)
	Conform(t, b)
}

func byName() map[string]Clause {
	sentences := make(map[string]Clause)
	for _, s := range Clauses() {
		sentences[s.Name] = s
	}
	return sentences
}
