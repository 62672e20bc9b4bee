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

// A delivery is of one line, and is named like its SKU.
func TestARecordOfADelivery(t *testing.T) {
	for name, row := range map[string]struct {
		lines []Line
		want  string
	}{
		"one line":     {[]Line{{SKU: "a", Quantity: 1}}, ""},
		"no line":      {nil, "lines"},
		"two lines":    {[]Line{{SKU: "a", Quantity: 1}, {SKU: "b", Quantity: 1}}, "lines"},
		"another SKU":  {[]Line{{SKU: "b", Quantity: 1}}, "lines"},
		"the same two": {[]Line{{SKU: "a", Quantity: 1}, {SKU: "a", Quantity: 1}}, "lines"},
	} {
		r := Record{Ask: Ask{Op: OpDeliver, Ref: "a", Lines: row.lines}, Outcome: Unknown}
		if got := r.wrong("run"); got != row.want {
			t.Errorf("%s: %q is wrong, want %q", name, got, row.want)
		}
	}
}
