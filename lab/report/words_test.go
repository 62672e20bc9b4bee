package report_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/report"
)

// What is written is read again, and fits the run and the catalogue that it was made from.
func TestWordsOfAWholeRun(t *testing.T) {
	r := whole()
	if err := matrix(r).Whole(); err != nil {
		t.Fatal(err)
	}
	words := matrix(r).Words()
	if len(words) != len(r.Cells) {
		t.Fatalf("%d words of %d cells", len(words), len(r.Cells))
	}
	var b bytes.Buffer
	if err := report.WriteWords(&b, words); err != nil {
		t.Fatal(err)
	}
	kept, err := report.ReadWords(&b)
	if err != nil || !slices.Equal(kept, words) {
		t.Fatalf("%v: read %d words, wrote %d", err, len(kept), len(words))
	}
	if wrong := append(matrix(r).Stale(kept), matrix(r).Changed(kept)...); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// Whatever changes is named.
func TestWhatChangedIsNamed(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(kept *[]report.Word, r *lab.Report)
		want   string
	}{
		{"another word", func(_ *[]report.Word, r *lab.Report) {
			r.Cells[0].Observed, r.Cells[0].AsPredicted = lab.Herds, false
		}, "no-lock: none: the run says herds"},
		{"another promise", func(_ *[]report.Word, r *lab.Report) {
			r.Cells[0].Predicted.Outcome, r.Cells[0].Observed = lab.Busy, lab.Busy
		}, "no-lock: none: the run says busy"},
		{"a new case", func(kept *[]report.Word, _ *lab.Report) {
			*kept = (*kept)[1:]
		}, "no-lock: none: it has no word"},
		{"an old case", func(kept *[]report.Word, _ *lab.Report) {
			old := report.Word{Scenario: "no-more", Case: "none", Predicted: lab.Safe, Observed: lab.Safe}
			*kept = append(*kept, old)
		}, "no-more: none: the matrix that is kept has it, the catalogue has not"},
		{"no end", func(_ *[]report.Word, r *lab.Report) {
			r.Cells[0].Failed = "it broke"
		}, "no-lock: none on redis: no verdict: it broke"},
		{"a contradiction is kept", func(kept *[]report.Word, _ *lab.Report) {
			(*kept)[0].Observed = lab.Herds
		}, "a contradiction is no result"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := whole()
			kept := matrix(r).Words()
			row.change(&kept, &r)
			wrong := strings.Join(append(matrix(r).Stale(kept), matrix(r).Changed(kept)...), "\n")
			if !strings.Contains(wrong, row.want) {
				t.Errorf("%q, want %q", wrong, row.want)
			}
		})
	}
}

// Only a whole run without contradictions is kept.
func TestHolesAreNotKept(t *testing.T) {
	for name, change := range map[string]func(r *lab.Report){
		"not run": func(r *lab.Report) { r.Cells = r.Cells[1:] },
		"skipped": func(r *lab.Report) {
			r.Cells[0].Skipped, r.Cells[0].AsPredicted = "redis: it was not started", false
		},
		"wrong": func(r *lab.Report) { r.Cells[0].AsPredicted = false },
	} {
		r := whole()
		change(&r)
		if err := matrix(r).Whole(); err == nil || !strings.Contains(err.Error(), "no-lock: none: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
