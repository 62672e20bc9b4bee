package service

import "testing"

// BenchmarkTell is what a step costs a sale: when nobody listens, as always outside lab mode, and into the ring.
//
//	go test ./service -run '^$' -bench Tell
func BenchmarkTell(b *testing.B) {
	for _, row := range []struct {
		name  string
		watch Watcher
	}{{"off", nil}, {"ring", NewSteps(4096)}} {
		b.Run(row.name, func(b *testing.B) {
			s := &Sale{watch: row.watch}
			b.ReportAllocs()
			for b.Loop() {
				s.tell(ReadIt)
			}
		})
	}
}

// Nobody who sells pays for steps that nobody wants, and the ring allocates nothing for those that are kept.
func TestToTellAllocatesNothing(t *testing.T) {
	for name, s := range map[string]*Sale{"off": {}, "ring": {watch: NewSteps(64)}} {
		if n := testing.AllocsPerRun(100, func() { s.tell(ReadIt) }); n > 0 {
			t.Errorf("%s: %v allocations for a step", name, n)
		}
	}
}
