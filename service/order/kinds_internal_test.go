package order

import "testing"

// What a movement adds keeps the law, received = available + reserved + sold, whatever its kind. One whose kind is not
// known, and one that stands for others, adds nothing.
func TestKindsKeepTheLaw(t *testing.T) {
	for kind, want := range map[Kind][4]int64{
		Receive: {3, 3, 0, 0}, Adjust: {3, 3, 0, 0}, Sell: {0, -3, 0, 3}, Reserve: {0, -3, 3, 0},
		Confirm: {0, 0, -3, 3}, Cancel: {0, 3, -3, 0}, Expire: {0, 3, -3, 0}, Return: {0, 3, 0, -3},
		Carried: {}, "gift": {}, "": {},
	} {
		received, available, reserved, sold := kind.deltas(3)
		if got := [4]int64{received, available, reserved, sold}; got != want {
			t.Errorf("%q adds %v, want %v", kind, got, want)
		}
		if received != available+reserved+sold {
			t.Errorf("%q breaks the law", kind)
		}
	}
}
