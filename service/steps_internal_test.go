package service

import "testing"

// Nobody who sells pays for steps that nobody wants, and the ring allocates nothing for those that are kept.
func TestToTellAllocatesNothing(t *testing.T) {
	for name, s := range map[string]*Sale{"off": {}, "ring": {watch: NewSteps(64)}} {
		if n := testing.AllocsPerRun(100, func() { s.tell(ReadIt) }); n > 0 {
			t.Errorf("%s: %v allocations for a step", name, n)
		}
	}
}
