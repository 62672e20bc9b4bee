package service

import "testing"

// One more than there is room for, and all are forgotten but that one. To put a known one again forgets none.
func TestAMemoryIsBounded(t *testing.T) {
	m := newMemory[int, string](2)
	for _, row := range []struct {
		put   int
		known []int
	}{{1, []int{1}}, {2, []int{1, 2}}, {1, []int{1, 2}}, {3, []int{3}}} {
		m.put(row.put, "seen")
		for _, key := range row.known {
			if thing, known := m.get(key); !known || thing != "seen" {
				t.Errorf("%d put: %d is %q, known %t", row.put, key, thing, known)
			}
		}
		if len(m.things) != len(row.known) {
			t.Errorf("%d put: %d are known, want %v", row.put, len(m.things), row.known)
		}
	}
	if m.remove(3); len(m.things) != 0 {
		t.Errorf("%d are known after the last was removed", len(m.things))
	}
}
