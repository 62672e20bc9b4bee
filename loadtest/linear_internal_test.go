package loadtest

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A search that takes too long ends in "unknown", never in a pass: here sales of 1, 2, 4 ... units that may have happened or not, in any order,
// would all have to be tried to see that no choice of them leaves what was left.
func TestSearchThatTakesTooLongIsNoPass(t *testing.T) {
	const initial = 1 << 30
	var ops []porcupine.Operation
	add := func(in call, out seen, from, to int64) {
		in.initial = initial
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: in, Output: out, Call: from, Return: to})
	}
	for i := range 25 {
		add(call{quantity: 1 << (i + 1)}, seen{outcome: Unknown}, 0, 100)
	}
	add(call{}, seen{outcome: lookedAt, remaining: initial - 1}, 1, 2)
	if got := search(ops, 100*time.Millisecond); got.Result != GaveUp || got.Why == "" {
		t.Errorf("%+v", got)
	}
}
