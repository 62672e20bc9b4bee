package loadtest

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A call is what was asked of the counter, or of the store at the end.
type call struct {
	sku      int // number of the ledger
	quantity int64
	initial  int64 // units in stock before the run
	worker   int
}

// A seen is what came of a call.
type seen struct {
	outcome         Outcome // lookedAt: the final stock
	told            bool    // read, remaining and version are of the whole stock
	read, remaining int64
	version         uint64
	counted         bool // version counts the writes
	who             string
}

// lookedAt is the pseudo-outcome of the look at the final stock.
const lookedAt Outcome = "final stock"

// units is the state of the counter.
type units struct {
	left    int64
	version uint64 // that the next sale reads; 0: not known
}

// counterModel is the counter that every strategy should be. Versions are compared from the first sale on. Busy is
// left out: it says nothing about the stock, and would multiply the orders to look through.
func counterModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			for _, op := range ops {
				n := op.Input.(call).sku
				for len(parts) <= n {
					parts = append(parts, nil)
				}
				parts[n] = append(parts[n], op)
			}
			return slices.DeleteFunc(parts, func(p []porcupine.Operation) bool { return len(p) == 0 })
		},
		Init: func() any { return (*units)(nil) },
		Step: func(state, input, output any) (bool, any) {
			in, out := input.(call), output.(seen)
			now := units{left: in.initial}
			if s := state.(*units); s != nil {
				now = *s
			}
			ok := now.step(in, out)
			return ok, &now
		},
		Equal: func(a, b any) bool {
			x, y := a.(*units), b.(*units)
			return x == y || x != nil && y != nil && *x == *y
		},
		DescribeOperation: func(input, output any) string { return describe(input.(call), output.(seen)) },
		DescribeState: func(state any) string {
			if s := state.(*units); s != nil {
				return fmt.Sprintf("%d left", s.left)
			}
			return "as set"
		},
	}
}

func (u *units) step(in call, out seen) bool {
	switch out.outcome {
	case Accepted:
		if u.left < in.quantity || out.told && (out.read != u.left || out.remaining != out.read-in.quantity || u.version > 0 && out.counted && out.version != u.version) {
			return false
		}
		u.left -= in.quantity
		if out.told && out.counted {
			u.version = out.version + 1
		}
	case Unknown: // it may have sold. If it did not, its place is at the end, where nobody sees what it did.
		if u.left >= in.quantity {
			u.left -= in.quantity
			if u.version > 0 {
				u.version++
			}
		}
	case SoldOut:
		return u.left < in.quantity
	case lookedAt:
		return u.left == out.remaining
	}
	return true
}

func describe(in call, out seen) string {
	switch {
	case out.outcome == lookedAt:
		return fmt.Sprintf("final stock: %d", out.remaining)
	case out.outcome == Accepted && out.told:
		return fmt.Sprintf("%s: sell %d: read %d (version %d), wrote %d", out.who, in.quantity, out.read, out.version, out.remaining)
	}
	return fmt.Sprintf("%s: sell %d: %s", out.who, in.quantity, out.outcome)
}
