package locktest

import (
	"context"
	"os"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/wire"
)

// A Harness is one strategy on its servers, as its package puts it to the suite.
type Harness struct {
	Name    string       // of the strategy, as in the catalogue
	Promise lock.Promise // as in the catalogue

	// Open makes a Locker on the servers at addrs, with clients of its own, as another process has, and what closes both. The servers
	// keep the key for lease if they hear nothing of its holder. It is called here and in contenders, and must start nothing.
	Open func(addrs []string, lease time.Duration) (lock.Locker, func() error, error)
	// Lease is that of the sentences that wait for its end: short, but not so short that a busy computer loses it, such as 2 s.
	Lease  time.Duration
	Renews bool          // a holder that works on keeps the key beyond Lease
	Wire   wire.Protocol // where requests end
	Room   int           // how many keys a process may hold, and wait for, at a time; 0: as many as a sentence wants

	// Start starts servers of which a killed one comes back with its data. Nil: it needs none, and the sentences about
	// processes do not apply.
	Start   func(testing.TB) []Server
	Failing int      // how many of them may be killed at a time; 0: all
	Servers []Server // already started, for the sentences that leave them alone

	// Left lists what is on the servers of a key that nobody holds or waits for, but what is meant to stay. Nil: cannot tell.
	Left func(ctx context.Context, addrs []string, key string) ([]string, error)
	// Kept counts what is meant to stay on the servers of keys that begin with key, and Keeps says what that is and for
	// how long. Nil: nothing, which Left sees to.
	Kept  func(ctx context.Context, addrs []string, key string) (int, error)
	Keeps string

	// Breaks are the sentences that the strategy is known to break, although its Promise has no word for that, and why. They
	// are tried nevertheless, and it is an error if they hold.
	Breaks map[string]string
}

// A Server is one that a sentence may kill.
type Server struct {
	Addr    string
	Kill    func() error
	Restart func(context.Context) error
}

func addrs(servers []Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr
	}
	return list
}

// Conform puts every bench to every sentence that applies to its promise: sentence by sentence on the same servers, several at a time, in
// processes of their own. The package needs a test for them: see [Contend].
func Conform(t *testing.T, benches ...Harness) {
	t.Helper()
	s := newSuite(sentencesAtOnce)
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	for _, b := range benches {
		for _, sentence := range Clauses() {
			t.Run(b.Name+"/"+sentence.Name, func(t *testing.T) {
				why, breaks := b.Breaks[sentence.Name]
				if !sentence.Applies(b) {
					s.record(b, sentence, notPromised, "")
					t.Skip("not promised")
				}
				var come <-chan result
				if sentence.Restarts {
					t.Parallel() // so that not all their servers run at the same time
					own := b
					own.Servers = b.Start(t)
					come = s.begin(own, sentence)
				} else if breaks {
					come = s.begin(b, sentence, hurry)
					t.Parallel()
				} else {
					come = s.begin(b, sentence)
					t.Parallel()
				}
				got := <-come
				t.Logf("%v %s", got.took.Round(time.Millisecond), got.seen)
				switch {
				case breaks && got.err == nil:
					t.Errorf("%s: is true, although it should not be: %s", sentence.Rule, why)
				case breaks:
					t.Logf("known to be broken: %s: %v", why, got.err)
					s.record(b, sentence, knownBroken, why)
				case got.err != nil:
					t.Errorf("%s: %v", sentence.Rule, got.err)
					s.record(b, sentence, wrong, got.err.Error())
				default:
					s.record(b, sentence, passed, got.seen)
				}
			})
		}
	}
}

// hurry is for what is expected to fail.
func hurry(s *Scene) { s.patience, s.storm, s.hurry = 3*time.Second, time.Second/2, true }

// sentencesAtOnce is how many sentences are tried at the same time: most of them wait for a lease to run out.
const sentencesAtOnce = 8

// outcomesEnv names a folder for what was found, for the documentation.
const outcomesEnv = "LOCKTEST_OUTCOMES"

func outcomesDir() string { return os.Getenv(outcomesEnv) }
