package zklock

import "testing"

// A node that was found and deleted meanwhile is no longer an orphan, and the others stay.
func TestAnOrphanIsDroppedOnce(t *testing.T) {
	t.Parallel()
	o := orphans{added: make(chan struct{}, 1)}
	first, second := orphan{node: node{name: "a"}}, orphan{node: node{name: "b"}}
	o.add(first)
	o.add(second)
	for range 2 {
		o.drop(first)
	}
	if left := o.list(); len(left) != 1 || left[0] != second {
		t.Errorf("left: %+v", left)
	}
}
