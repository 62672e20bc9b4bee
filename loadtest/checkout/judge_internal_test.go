package checkout

import "testing"

// A verdict counts all failures of a check, and keeps the first three as examples.
func TestExamplesAreFew(t *testing.T) {
	j := &judge{v: &Verdict{Checks: []Check{{Name: CheckSettled}}}}
	for range 5 {
		j.note(CheckSettled, "open", "op", "order", "key", "k", "why", "w")
	}
	if c := j.v.Check(CheckSettled); c.Failed != 5 || len(c.Examples) != 3 {
		t.Errorf("%d failures with %d examples, want 5 with 3", c.Failed, len(c.Examples))
	}
}
