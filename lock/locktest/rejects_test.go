package locktest

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

const trialLease = time.Second

// A brokenTrial is a lock of several processes with one thing wrong, and the clauses that must notice.
type brokenTrial struct {
	name    string
	flaws   flaws
	open    func(addr string) lock.Locker // nil: a trial
	rejects []string
}

func brokenTrials() []brokenTrial {
	inProcess := func(string) lock.Locker { return &local.Mutex{} }
	return []brokenTrial{
		{"excludes only its own process", flaws{}, inProcess, []string{"Exclusion"}},
		{"the key stays for ever", flaws{noExpiry: true}, nil, []string{"Crash", "Frozen", "Expiry", "Unknown"}},
		{"returns when its client does", flaws{patient: true}, nil, []string{"Standstill"}},
		{"its renewals are pings", flaws{pings: true}, nil, []string{"Renewal", "Taken"}},
		{"gives up before its wait is over", flaws{impatient: true}, nil, []string{"StatementLimit"}},
		{"counts its lease from the reply", flaws{countsLate: true}, nil, []string{"Expiry"}},
		{"believes a reply whose lease is over", flaws{believes: true}, nil, []string{"Expiry"}},
		{"never tells of the loss", flaws{noLoss: true}, nil, []string{"Expiry", "Frozen", "Restart", "Standstill"}},
		{"deletes the key whoever has it", flaws{blindDelete: true}, nil, []string{"Owner"}},
		{"one fence for all", flaws{sameFence: true}, nil, []string{"Exclusion", "Frozen", "Crash"}},
		{"a queue that nobody leaves", flaws{tickets: true}, nil, []string{"Crash"}},
		{"believes whatever it was told", flaws{mail: true}, nil, []string{"FrozenWaiter"}},
		{"what failed is not taken back", flaws{noCleanup: true}, nil, []string{"Cuts", "CrashPoints", "Late"}},
		{"errors as the client has them", flaws{rawErrors: true}, nil, []string{"Cuts", "Refusals", "Denied"}},
		{"its waiters do not hear that it is closed", flaws{deaf: true}, nil, []string{"Closed"}},
		{"tells no fence", flaws{fenceless: true}, nil, []string{"Inspect"}},
		{"its release hides the loss", flaws{silent: true}, nil, []string{"Evicted"}},
		{"every acquisition leaves a key", flaws{litter: true}, nil, []string{"Traces"}},
		{"every acquisition leaves a goroutine", flaws{ghosts: true}, nil, []string{"Traces"}},
	}
}

// harness is the trial on Redis as the suite takes it. It claims whatever a clause asks for.
func (b brokenTrial) harness(aof bool) Harness {
	open := func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
		if b.open != nil {
			return b.open(addrs[0]), func() error { return nil }, nil
		}
		l := newTrial(addrs[0], "", lease, b.flaws)
		return l, l.Close, nil
	}
	deprive := func(ctx context.Context, addrs []string, right string) (lock.Locker, func() error, error) {
		user := "without-" + right
		root := redis.NewClient(&redis.Options{Addr: addrs[0]})
		err := root.Do(ctx, "ACL", "SETUSER", user, "on", ">"+user, "~*", "&*", "+@all", "-"+right).Err()
		if err := errors.Join(err, root.Close()); err != nil {
			return nil, nil, err
		}
		l := newTrial(addrs[0], user, trialLease, b.flaws)
		return l, l.Close, nil
	}
	return Harness{
		Name:   b.name,
		Lease:  trialLease,
		Renews: true,
		Wire:   wire.Redis(),
		Refuse: func([]byte) []byte { return []byte("-ODD no\r\n") },
		Left:   trialLeft,
		Limit:  func(context.Context, []string) error { return nil }, // Redis limits no statement
		Promise: driver.Promise{
			Exclusive:   true,
			Scope:       driver.Cluster,
			Fenced:      true,
			Blocking:    true,
			Reentrant:   true,
			SignalsLoss: true,
		},
		Open:    open,
		Plain:   []Opener{open},
		Deprive: deprive,
		Rights:  []string{"eval"},
		Start:   func(t testing.TB) []Server { return startRedis(t, aof) },
	}
}

func startRedis(t testing.TB, aof bool) []Server {
	s := servertest.Start(t, server.Options{AOF: aof, Want: []server.Kind{server.Redis}})
	server := s.Server("redis")
	if server.StandIn != "" {
		servertest.Redis(t) // which skips, or fails where it must not
	}
	return []Server{{server.Addr, server.Kill, server.Restart, server.Pause, server.Resume}}
}

// right is a trial without a flaw.
func right() Harness { return brokenTrial{name: "right"}.harness(true) }

func TestContender(t *testing.T) {
	harnesses := []Harness{right()}
	for _, b := range brokenTrials() {
		harnesses = append(harnesses, b.harness(false))
	}
	Contend(t, harnesses...)
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
	clauses := byName()
	for _, b := range brokenLocks(t.Context()) {
		for _, name := range b.rejects {
			t.Run(b.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				scene := newScene(Harness{}, nil)
				scene.inside = b.open
				if err := clauses[name].Check(ctx, scene); err == nil {
					t.Errorf("passed %q", clauses[name].Rule)
				}
			})
		}
	}
}

// In several processes, on a server that forgets its locks when it is killed.
func TestTheSuiteRejectsBrokenProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	s := newSuite(clausesAtOnce)
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	clauses, shared := byName(), startRedis(t, false)
	for _, b := range brokenTrials() {
		for _, name := range b.rejects {
			t.Run(b.name+"/"+name, func(t *testing.T) {
				harness := b.harness(false)
				harness.Servers = shared
				if clauses[name].Apart {
					harness.Servers = harness.Start(t)
				}
				come := s.begin(harness, clauses[name], true)
				t.Parallel()
				got := <-come
				// What is broken shows only if events come in a certain order, which a busy computer may change.
				for tries := 1; got.err == nil && tries < 3; tries++ {
					got = <-s.begin(harness, clauses[name], true)
				}
				if got.err == nil {
					t.Errorf("passed %q", clauses[name].Rule)
				}
				t.Logf("%v: %v", got.took.Round(time.Millisecond), got.err)
			})
		}
	}
}

// What the broken ones are rejected for is their flaw and nothing else.
func TestTheSuitePassesARightLock(t *testing.T) {
	Conform(t, right())
}

func byName() map[string]Clause {
	clauses := make(map[string]Clause)
	for _, s := range Clauses() {
		clauses[s.Name] = s
	}
	return clauses
}

func TestMain(m *testing.M) {
	if os.Getenv(contenderEnv) != "" {
		os.Exit(m.Run()) // some of the broken locks leave goroutines on purpose
	}
	goleak.VerifyTestMain(m)
}
