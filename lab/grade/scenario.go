package grade

import (
	"example.com/stock/internal/words"
	"example.com/stock/lab"
)

// A Scenario is one failure, and how to force it on a lock.
type Scenario struct {
	Name      string
	Read      string // the lesson about it, from the root of the repository
	ofProcess bool   // it needs a process for each contender, behind proxies
	run       func(*bed) verdict
}

const lessons = "docs/lessons/"

// Scenarios returns all scenarios, in the order in which to understand them.
func Scenarios() []Scenario {
	return []Scenario{
		{"thirty-at-once", lessons + "02-race-and-mutex.md", false, thirtyAtOnce},
		{"holder-killed", lessons + "03-setnx-and-its-traps.md", true, holderKilled},
		{"crash-between-commands", lessons + "03-setnx-and-its-traps.md", true, crashBetweenCommands},
		{"late-release", lessons + "03-setnx-and-its-traps.md", true, lateRelease},
		{"release-in-steps", lessons + "03-setnx-and-its-traps.md", true, releaseInSteps},
		{"work-outlasts-lease", lessons + "04-lease-and-watchdog.md", false, workOutlastsLease},
		{"holder-frozen", lessons + "05-fencing.md", true, holderFrozen},
		{"server-restarted", lessons + "06-fail-over-and-redlock.md", true, serverRestarted},
		{"lost-reply", lessons + "07-zookeeper.md", true, lostReply},
		{"two-keys", lessons + "10-waiting-and-fairness.md", false, twoKeys},
		{"hundred-waiters", lessons + "10-waiting-and-fairness.md", false, hundredWaiters},
	}
}

// Title returns what is tested, in a few words.
func (s Scenario) Title() words.Text { return say("scenarios." + s.Name + ".title") }

// Forced returns what is forced, and what must be seen.
func (s Scenario) Forced() words.Text { return say("scenarios." + s.Name + ".forced") }

// Find returns the scenarios of those names, or all for no name. The error for an unknown name lists all names.
func Find(names ...string) ([]Scenario, error) {
	return lab.Find(Scenarios(), func(s Scenario) string { return s.Name }, names...)
}
