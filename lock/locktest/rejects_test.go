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
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

const trialLease = time.Second

// opened is an Opener.
func (b broken) opened(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
	if b.open != nil {
		return b.open(), func() error { return nil }, nil
	}
	l := newTrial(addrs[0], "", lease, b.flaws)
	return l, l.Close, nil
}

// harness is the trial on Redis as the suite takes it. It claims whatever a clause asks for.
func (b broken) harness(aof bool) Harness {
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
		Open:    b.opened,
		Plain:   []Opener{b.opened},
		Deprive: deprive,
		Rights:  []string{"eval"},
		Start:   func(t testing.TB) []Server { return startRedis(t, aof) },
	}
}

func startRedis(t testing.TB, aof bool) []Server {
	s := servertest.Start(t, server.Options{AOF: aof, Want: []server.Kind{server.Redis}}).Server("redis")
	if s.StandIn != "" {
		servertest.Redis(t) // which skips, or fails where it must not
	}
	return []Server{{s.Addr, s.Kill, s.Restart, s.Pause, s.Resume}}
}

// right is a trial without a flaw.
func right() Harness { return broken{name: "right"}.harness(true) }

func TestContender(t *testing.T) {
	harnesses := []Harness{right()}
	for _, b := range brokenTrials() {
		harnesses = append(harnesses, b.harness(false))
	}
	Contend(t, harnesses...)
}

func TestEverySentenceHasABrokenLock(t *testing.T) {
	var rejected []string
	for _, b := range append(brokenLocks(t.Context()), brokenTrials()...) {
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
				scene := newScene(Harness{Open: b.opened}, nil)
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
