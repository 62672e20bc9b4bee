package driver

import "time"

// A Scope is the set of callers that a lock excludes from each other.
type Scope string

// The scopes, narrowest first.
const (
	Nowhere Scope = "none"    // no exclusion: lost updates are to be expected
	Process Scope = "process" // among the goroutines of one process
	Cluster Scope = "cluster" // among all processes that use the same servers
)

// Forever is the FreedAfterCrash of a lock that stays taken after a crash.
const Forever = time.Duration(1<<63 - 1)

// A Promise is what a strategy promises. The conformance suite tests it, the docs print it, and the lab derives its
// expectations from it. The zero value promises nothing.
type Promise struct {
	Exclusive bool  // at most one holder at a time, within Scope, while no lease is lost
	Scope     Scope // how far lost updates are excluded, by the lock or by the write itself
	// Fenced: a holder that has lost its lease unnoticed does no harm: the store refuses its write, or the next
	// holder's if that comes second
	Fenced    bool
	Fair      bool // first come, first served, across processes
	Blocking  bool // a request of the service waits by default; otherwise it tries once, unless it asks to wait
	Reentrant bool // work that holds a key may acquire it again

	FreedAfterCrash time.Duration // longest time from a holder's crash to the next holder; 0: at once
	// SignalsLoss: if the holder's process is running, its lease reports a loss before another caller can get the key
	SignalsLoss bool
}
