package repair

import (
	"strings"
	"testing"
)

// FuzzDecide checks for any numbers: each option obeys the law, its movement does, too, and makes the movements add up
// to the counters; customers keep what the records give them; and books that were mended balance.
func FuzzDecide(f *testing.F) {
	// n are the counters, the sums of the movements, the units in reservations and in orders.
	seed := func(damaged bool, n ...int64) {
		f.Add(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], damaged)
	}
	seed(false, 100, 90, 3, 7, 100, 90, 3, 7, 3, 7)
	seed(true, 100, 90, -3, 7, 100, 90, 3, 7, 3, 7)
	seed(false, 100, 90, 3, 7, 100, 90, 3, 7, 5, 9)
	seed(true, 100, 90, 3, 7, 100, 90, 3, 8, 3, 7)
	seed(false, 10, 0, 3, 7, 10, 0, 3, 7, 5, 7)
	seed(false, 10, 0, 3, 7, 10, 0, 3, 7, 3, 5)
	seed(true, 10, -3, 3, 10, 10, -3, 3, 10, 3, 7)
	seed(true, 10, 3, 3, -81, 10, -3, 3, 10, 3, 7)
	f.Fuzz(func(t *testing.T, r, a, v, s, mr, ma, mv, ms, held, ordered int64, damaged bool) {
		b := Books{
			SKU: "book", Counters: Amounts{r, a, v, s}, Movements: Amounts{mr, ma, mv, ms}, Number: 9, Last: 9,
			Held: max(0, held), Ordered: new(int64), Damage: []string{},
		}
		if *b.Ordered = max(0, ordered); !b.bounded() {
			return
		}
		if damaged {
			b.Damage = append(b.Damage, "gap")
		}
		m := decide(b)
		if b.Movements.adds() && b.Movements.Received >= 0 && len(m.Options) == 0 {
			t.Errorf("nothing mends %+v", b)
		}
		for _, o := range m.Options {
			mended := b
			mended.Counters, mended.Damage = o.Counters, nil
			mended.Movements = b.Movements.less(Amounts{}.less(o.Adjust))
			if !o.Counters.holds() || !o.Adjust.adds() || mended.Movements != o.Counters ||
				o.Counters.Reserved != b.Held || o.Counters.Sold != *b.Ordered || !mended.balances() {
				t.Errorf("%+v\n%+v", b, o)
			}
		}
		choice := "" // of the numbers alone
		if len(m.Options) == 1 && !strings.Contains(m.Options[0].Believe, "-") {
			choice = m.Options[0].Believe
		}
		if m.Choice != choice {
			t.Errorf("choice %q of %+v", m.Choice, m.Options)
		}
	})
}
