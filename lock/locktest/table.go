package locktest

import "example.com/stock/lock"

// Clauses is the suite.
func Clauses() []Clause {
	return []Clause{
		{Name: "Exclusion", Rule: "Two leases of one key are never held at the same time.", Applies: exclusive, Check: exclusion},
		{Name: "Keys", Rule: "A lease of one key does not keep anybody from another, as long as the process has a connection left for it.", Applies: exclusive, Check: keys},
		{Name: "TryOnce", Rule: "Who tries once is told at once that the key is held, and gets it when it is free.", Applies: exclusive, Check: tryOnce},
		{Name: "BoundedWait", Rule: "A wait ends with its context, with ErrHeld and the context's cause.", Applies: exclusive, Check: boundedWait},
		{Name: "CancelledWait", Rule: "Who stops waiting leaves nothing behind: the next one does not wait for him.", Applies: exclusive, Check: cancelledWait},
		{Name: "DeadContext", Rule: "A context that has ended gets no lease, and leaves nothing behind.", Applies: exclusive, Check: deadContext},
		{Name: "Handover", Rule: "Who waits gets the key when it is released.", Applies: blocking, Check: handover},
		{Name: "Release", Rule: "Release is idempotent: the second one does not free the next holder's key.", Applies: exclusive, Check: release},
		{Name: "Done", Rule: "Done closes on release, and Err then says ErrReleased.", Applies: always, Check: done},
		{Name: "Fences", Rule: "Of two holders the later one has the larger fence, whoever they are.", Applies: fenced, Check: fences},
		{Name: "FIFO", Rule: "Who came first is served first, across processes.", Applies: fair, Check: fifo},
		{Name: "Unknown", Rule: "Work of unknown outcome frees no key: the next one has it when the lease has run out.", Applies: exclusive, Check: unknown},
		{Name: "Reentry", Rule: "Work that holds a key may ask for it again under its own context, and under no other.", Applies: reentrant, Check: reentry},

		{Name: "Processes", Rule: "Of several processes that contend for a key never two hold it at the same time.", Applies: cluster, Check: storming},
		{Name: "Renewal", Rule: "A holder that works on keeps the key for longer than its lease.", Applies: renewed, Check: renewal},
		{Name: "Expiry", Rule: "A lease that is not renewed ends by itself, and its holder is told in time.", Applies: notRenewed, Check: expiry},
		{Name: "CutOff", Rule: "A holder that the network cuts off without a word knows of its loss before another has the key.", Applies: told, Check: cutOff},
		{Name: "Crash", Rule: "The key of a holder that is killed goes to who waits within the lease.", Applies: cluster, Check: crash},
		{Name: "CrashPoints", Rule: "So does that of a process that is killed between any two requests of an acquisition.", Applies: cluster, Check: crashPoints},
		{Name: "DeadWaiter", Rule: "A waiter that is killed keeps nobody behind it from the key.", Applies: cluster, Check: deadWaiter},
		{Name: "Paused", Rule: "A holder that is paused past its lease is followed, learns of its loss when it wakes, and has the smaller fence.", Applies: cluster, Check: paused},
		{
			Name: "PausedWaiter", Applies: cluster, Check: pausedWaiter,
			Rule: "A waiter that is paused for longer than anything that was granted to it, while others come and go, does not hold the key " +
				"beside another when it wakes, and has the larger fence when its turn has come.",
		},
		{Name: "Owner", Rule: "Who lost the key cannot give it away: its release says so, and the next holder keeps it.", Applies: cluster, Check: owner},
		{Name: "Generations", Rule: "Fences grow although the process of every holder is a new one and the one before was killed.", Applies: generational, Check: generations},
		{Name: "Cuts", Rule: "Whatever request of an acquisition, a renewal or a release is lost, or its reply: no two hold the key, the error is precise, and nothing is left.", Applies: cluster, Check: cuts},
		{
			Name: "Traces", Applies: cluster, Check: traces,
			Rule: "Ten thousand acquisitions, some of them given up, leave no goroutine, and on the server nothing that holds a key or waits for " +
				"it. What is meant to stay, such as the last fence, is counted by the keys and not by the acquisitions.",
		},
		{Name: "Restart", Rule: "A server that is killed under a holder and a waiter and comes back lets no two hold the key, and serves again.", Applies: cluster, Check: restart, Restarts: true},
	}
}

func always(Harness) bool      { return true }
func exclusive(b Harness) bool { return b.Promise.Exclusive }
func blocking(b Harness) bool  { return b.Promise.Exclusive && b.Promise.Blocking }
func fenced(b Harness) bool    { return b.Promise.Exclusive && b.Promise.Fenced }
func fair(b Harness) bool      { return b.Promise.Fair }
func reentrant(b Harness) bool { return b.Promise.Exclusive && b.Promise.Reentrant }

// cluster is whether there are processes to exclude, and servers by which.
func cluster(b Harness) bool {
	return b.Promise.Exclusive && b.Promise.Scope == lock.Cluster && b.Start != nil
}

func renewed(b Harness) bool    { return cluster(b) && b.Renews }
func notRenewed(b Harness) bool { return cluster(b) && !b.Renews }
func told(b Harness) bool       { return cluster(b) && b.Renews && b.Promise.SignalsLoss }

func generational(b Harness) bool { return cluster(b) && b.Promise.Fenced }
