// Package locktest is the conformance suite of the lock contract: a table of clauses that every lock has to keep. To
// run it on a driver, describe the driver and its servers in a [Harness], and write two tests:
//
//	var harness = locktest.Harness{
//		Name: "my-lock", Promise: promise, Lease: 2 * time.Second, Renews: true,
//		Start: startServers, Open: openLocker, Wire: wire.Redis(),
//	}
//
//	func TestConform(t *testing.T)   { locktest.Conform(t, harness) }
//	func TestContender(t *testing.T) { locktest.Contend(t, harness) }
//
// Conform checks each clause that applies to the Promise. Its contenders are separate processes, which run
// TestContender of the same binary, and which the suite kills, freezes and cuts off. With -short a run takes half a
// minute. A lock that excludes only callers in its own process needs no servers, and no TestContender.
//
// A clause returns an error instead of failing a test, so that tests can check that the clause rejects locks which are
// broken on purpose: those of broken_test.go. [Clauses] is the table. The checks are in basic.go, order.go, lease.go,
// faults.go, cuts.go, and in files named after their clause. suite.go runs a check on a Scene; process.go and
// contender.go are the two ends of the pipe to a contender.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest/wire"
)

// A Clause is one clause of the contract.
type Clause struct {
	Name    string
	Applies func(Harness) bool
	Check   func(context.Context, *Scene) error
	Apart   bool   // it kills servers or changes their settings, and needs its own
	Rule    string // what must be true; the failure message and the documentation
}

// shared returns a clause that other clauses may be checked beside, on the same servers.
func shared(name string, applies func(Harness) bool, check func(context.Context, *Scene) error, rule string) Clause {
	return Clause{name, applies, check, false, rule}
}

// apart returns a clause that needs servers of its own.
func apart(name string, applies func(Harness) bool, check func(context.Context, *Scene) error, rule string) Clause {
	return Clause{name, applies, check, true, rule}
}

// Clauses returns the suite.
func Clauses() []Clause {
	return []Clause{
		shared("Exclusion", exclusive, exclusion,
			"Two leases of one key are never held at the same time, whichever processes contend for it."),
		shared("Keys", exclusive, keys,
			"A lease of one key does not keep anybody from another, as long as the process has a connection left "+
				"for it."),
		shared("TryOnce", exclusive, tryOnce,
			"Who tries once is told at once that the key is held, and gets it when it is free."),
		shared("BoundedWait", exclusive, boundedWait,
			"A wait ends with its context, with ErrHeld and the context's cause."),
		shared("CancelledWait", exclusive, cancelledWait,
			"Who stops waiting leaves nothing behind: the next one does not wait for him."),
		shared("DeadContext", exclusive, deadContext,
			"A context that has ended gets no lease and its own cause, whether the caller would wait or not, and "+
				"leaves nothing behind."),
		shared("Invalid", exclusive, invalid,
			"An empty key and one that is too long are refused with ErrInvalid, and nobody is asked."),
		shared("Panic", exclusive, panics,
			"Work that panics after a write of unknown outcome frees no key, other work that panics does."),
		shared("Handover", blocking, handover,
			"Who waits gets the key when it is released."),
		shared("Release", exclusive, release,
			"Release is idempotent: the second one does not free the next holder's key."),
		shared("Done", always, done,
			"Done closes on release, and Err then says ErrReleased."),
		shared("Closed", cluster, closed,
			"Who waits for a key when his lock is closed, or asks afterwards, is told ErrClosed."),
		shared("Denied", deprivable, denied,
			"Who lacks a right at the server gets the key and gives it back, or takes it away, or is told that he "+
				"lacks one. He waits for no lease to run out, and leaves nothing behind."),
		shared("Fences", fenced, fences,
			"Of two holders the later one has the larger fence, whoever they are."),
		shared("FIFO", fair, fifo,
			"Who came first is served first, across processes."),
		shared("Unknown", exclusive, unknown,
			"Work of unknown outcome frees no key: the next one has it when the lease has run out."),
		shared("Reentry", reentrant, reentry,
			"Work that holds a key may ask for it again under its own context, and under no other."),
		shared("Renewal", renewed, renewal,
			"A holder that works on keeps the key for longer than its lease, also behind a proxy that answers "+
				"pings itself. It is told when that proxy has lost its session at the server and another has the key."),
		shared("Expiry", expires, expiry,
			"A lease that is not renewed, or whose holder the network cuts off without a word, ends by itself. Its "+
				"holder knows before another has the key."),
		apart("Standstill", plain, standstill,
			"With a client as its library makes it, too, and while no server answers: a holder knows of its loss "+
				"before another has the key, and a release and a bounded acquisition return."),
		shared("Crash", cluster, crash,
			"The key of a holder that is killed goes to who waits within the lease, with a larger fence, although "+
				"a waiter before him is killed, too."),
		shared("CrashPoints", cluster, crashPoints,
			"So does that of a process that is killed between any two requests of an acquisition."),
		shared("Frozen", cluster, frozen,
			"A holder that is frozen past its lease is followed, learns of its loss when it wakes, and has the "+
				"smaller fence."),
		shared("FrozenWaiter", freed, frozenWaiter,
			"A waiter that is frozen for longer than anything that was granted to it, while others come and go, "+
				"does not hold the key beside another when it wakes, and has the larger fence when its turn has come."),
		shared("Owner", cluster, owner,
			"Who lost the key cannot give it away: its release says so, and the next holder keeps it."),
		shared("Evicted", generational, evicted,
			"If only the answer to the release shows that the key was lost, the caller and the observer are told "+
				"all the same."),
		shared("Taken", generational, taken,
			"The fence of an eviction lies between those of the holders before it and after it. A holder that renews "+
				"learns of it from its next renewal."),
		shared("Inspect", cluster, inspect,
			"Who asks is told who holds each key, since when and for how long, and which keys are held; or that the "+
				"server is down. Keys that differ in anything are different locks."),
		apart("StatementLimit", limited, statementLimit,
			"A waiter waits on although the server ends every statement that takes longer than a moment."),
		shared("Cuts", cluster, cuts,
			"Whatever request of an acquisition, a renewal or a release is lost, or its reply, or every connection "+
				"at its first request: no two hold the key, the error is precise, nothing is left, "+
				"and the lock serves again."),
		shared("Late", cluster, late,
			"Whatever request of an acquisition or a release reaches the server after its caller has given up, or its "+
				"reply the caller: it is taken back, and the key becomes free long before the lease has run out."),
		shared("Refusals", refusing, refusals,
			"A server that refuses a request for a reason that no client knows is down. The request was not "+
				"executed, so it is not repeated for long, and nothing is left."),
		shared("Traces", cluster, traces,
			"Two thousand acquisitions, some of them given up, leave no goroutine, and on the server nothing that "+
				"holds a key or waits for it. What is meant to stay, such as the last fence, is counted by the keys "+
				"and not by the acquisitions."),
		apart("Restart", cluster, restart,
			"A server that is killed under a holder and a waiter and comes back lets no two hold the key, and "+
				"serves again."),
	}
}

func always(Harness) bool         { return true }
func deprivable(h Harness) bool   { return h.Deprive != nil }
func exclusive(h Harness) bool    { return h.Promise.Exclusive }
func blocking(h Harness) bool     { return h.Promise.Exclusive && h.Promise.Blocking }
func fenced(h Harness) bool       { return h.Promise.Exclusive && h.Promise.Fenced }
func fair(h Harness) bool         { return h.Promise.Fair }
func reentrant(h Harness) bool    { return h.Promise.Exclusive && h.Promise.Reentrant }
func renewed(h Harness) bool      { return cluster(h) && h.Renews }
func expires(h Harness) bool      { return cluster(h) && (!h.Renews || h.Promise.SignalsLoss) }
func plain(h Harness) bool        { return cluster(h) && len(h.Plain) > 0 }
func limited(h Harness) bool      { return cluster(h) && blocking(h) && h.Limit != nil }
func generational(h Harness) bool { return cluster(h) && h.Promise.Fenced }
func refusing(h Harness) bool     { return cluster(h) && h.Refuse != nil }

// cluster reports whether the lock excludes other processes and has servers for it.
func cluster(h Harness) bool {
	return h.Promise.Exclusive && h.Promise.Scope == driver.Cluster && h.Start != nil
}

// freed reports whether a process that stands still in the middle of an acquisition, like one that has crashed there,
// keeps the key from others for a limited time only.
func freed(h Harness) bool { return cluster(h) && h.Promise.FreedAfterCrash != driver.Forever }

// A Harness connects one strategy and its servers to the suite.
type Harness struct {
	Name    string         // of the strategy, as in the catalogue
	Promise driver.Promise // as in the catalogue

	// Open makes a Locker on the servers at addrs, with its own clients, as another process would have, and a
	// function that closes both. The servers keep the key for lease after the last message from its holder. The suite
	// calls Open here and in contenders; Open must start nothing.
	Open Opener
	// Plain are like Open, but their clients have settings that know nothing of leases: the defaults of the library, or
	// no time limits at all.
	Plain []Opener
	// Lease is used by clauses that wait for its end. It should be short, but not so short that a busy computer loses
	// it, for example 2 s.
	Lease  time.Duration
	Renews bool          // a holder that continues to work keeps the key beyond Lease
	Wire   wire.Protocol // finds the ends of requests
	// Refuse returns the server's reply to a request that it refuses with an error code that does not exist. nil:
	// unknown.
	Refuse func(request []byte) (reply []byte)

	// Start starts servers. A killed server must restart with its data. nil: the strategy needs no server, and the
	// clauses about processes do not apply.
	Start   func(testing.TB) []Server
	Failing int      // how many of them may be killed at a time; 0: all
	Servers []Server // already started, for the clauses that do not kill servers; nil: Conform starts them

	// Left lists the entries that remain on the servers for a key without holder and waiters, except those that are
	// meant to stay. nil: unknown.
	Left func(ctx context.Context, addrs []string, key string) ([]string, error)
	// Kept counts the entries that are meant to stay on the servers for keys that begin with key. Keeps describes these
	// entries and how long they stay. nil: nothing is meant to stay, which Left checks.
	Kept  func(ctx context.Context, addrs []string, key string) (int, error)
	Keeps string

	// Limit makes the servers end every statement that takes longer than StatementLimit. nil: they cannot.
	Limit func(ctx context.Context, addrs []string) error

	// Deprive opens a Locker as Open does, for a user of the servers who lacks one of Rights. nil: there are no rights.
	Deprive func(ctx context.Context, addrs []string, right string) (lock.Locker, func() error, error)
	Rights  []string

	// Breaks has the clauses that the strategy is known to violate although its Promise does not say so, each with the
	// reason. These clauses are still checked, and the test fails if they hold.
	Breaks map[string]string
}

// An Opener makes a Locker, and a function that closes it. See Harness.Open.
type Opener = func(addrs []string, lease time.Duration) (lock.Locker, func() error, error)

// A Server is a server that a clause may kill, or stop and continue.
type Server struct {
	Addr          string
	Kill          func() error
	Restart       func(context.Context) error
	Pause, Resume func() error
}

func addrs(servers []Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr
	}
	return list
}

// clausesAtOnce is how many clauses are checked at the same time, because most of them wait for a lease to run out.
const clausesAtOnce = 16

// Conform checks each harness against every clause that applies to its promise. It runs several clauses at a time on
// the same servers, with contenders in other processes. The package needs a test for these processes: see [Contend].
func Conform(t *testing.T, harnesses ...Harness) {
	t.Helper()
	s := newSuite(clausesAtOnce)
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	for _, h := range harnesses {
		if h.Start != nil && h.Servers == nil {
			h.Servers = h.Start(t)
		}
		var restarting []Clause
		for _, clause := range Clauses() {
			if clause.Apart && clause.Applies(h) {
				restarting = append(restarting, clause)
				continue
			}
			t.Run(h.Name+"/"+clause.Name, func(t *testing.T) {
				if !clause.Applies(h) {
					s.record(h, clause, notPromised, "")
					t.Skip("not promised")
				}
				_, breaks := h.Breaks[clause.Name]
				done := s.begin(h, clause, breaks)
				t.Parallel()
				s.report(t, h, clause, <-done)
			})
		}
		t.Run(h.Name+"/apart", func(t *testing.T) { // one after the other, on servers of their own
			if len(restarting) == 0 {
				t.Skip("not promised")
			}
			t.Parallel()
			own := h
			own.Servers = h.Start(t)
			for _, clause := range restarting {
				t.Run(clause.Name, func(t *testing.T) { s.report(t, h, clause, <-s.begin(own, clause, false)) })
			}
		})
	}
}

// report fails the test unless the clause held, or was broken as is known.
func (s *suite) report(t *testing.T, h Harness, clause Clause, got result) {
	t.Helper()
	t.Logf("%v %s", got.took.Round(time.Millisecond), got.seen)
	why, breaks := h.Breaks[clause.Name]
	switch {
	case breaks && got.err == nil:
		t.Errorf("%s: is true, although it should not be: %s", clause.Rule, why)
	case breaks:
		t.Logf("known to be broken: %s: %v", why, got.err)
		s.record(h, clause, knownBroken, why)
	case got.err != nil:
		t.Errorf("%s: %v", clause.Rule, got.err)
		s.record(h, clause, wrong, got.err.Error())
	default:
		s.record(h, clause, passed, "")
	}
}

// FreshKey returns a key that no other call returns, in this process or another.
func FreshKey() string {
	return fmt.Sprintf("key-%d-%d-%d", time.Now().UnixNano(), os.Getpid(), serial.Add(1))
}

var serial atomic.Int64

// timeout limits the wait for an event that must happen, even on a busy computer.
const timeout = time.Minute

// once tries once.
func once(ctx context.Context, l lock.Locker, key string) (*lock.Lease, error) {
	return l.Acquire(ctx, key, lock.Options{TryOnce: true})
}

// insist acquires key, and retries if the lock is busy or the server is too busy to answer.
func insist(ctx context.Context, l lock.Locker, key string, o lock.Options) (*lock.Lease, error) {
	for began := time.Now(); ; {
		lease, err := l.Acquire(ctx, key, o)
		switch {
		case err == nil || ctx.Err() != nil:
			return lease, err
		case errors.Is(err, lock.ErrHeld):
		case errors.Is(err, lock.ErrDown) && time.Since(began) < timeout:
			time.Sleep(10 * time.Millisecond) // a server that is gone says so at once
		default:
			return nil, err
		}
	}
}

// isFree releases what is held, and fails if a new Locker then cannot acquire the key at once.
func isFree(ctx context.Context, s *Scene, held ...*lock.Lease) error {
	for _, lease := range held {
		if err := lease.Release(); err != nil {
			return err
		}
	}
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return fmt.Errorf("something was left behind: %w", err)
	}
	return lease.Release()
}

// isLost reports whether err means that the holder had lost the key, whether it noticed by itself or from the server.
func isLost(err error) bool {
	return errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrTaken)
}
