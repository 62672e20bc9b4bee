package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

// A history whose first or last line somebody has changed is refused, or shown: nothing in it stops the program. What
// is refused in the plan is named.
func TestDoctoredHistories(t *testing.T) {
	t.Parallel()
	h := history(t, "none")
	h.Records, h.Orders = h.Records[:5], h.Orders[:min(5, len(h.Orders))]
	var load, sale bytes.Buffer
	if err := loadtest.WriteHistory(&load, h); err != nil {
		t.Fatal(err)
	}
	if err := checkout.WriteHistory(&sale, visited()); err != nil {
		t.Fatal(err)
	}
	shown := doctor(t, load.String(), func(text string) error {
		h, err := loadtest.ReadHistory(strings.NewReader(text))
		if err != nil {
			return err
		}
		r := h.Result()
		_ = report.WriteReport(io.Discard, r, report.Style{Lang: "en"})
		_ = report.WriteHTML(io.Discard, report.Page{Groups: []report.Group{{Runs: []*loadtest.Result{r}}}})
		r.Plan.Names()
		return nil
	}) + doctor(t, sale.String(), func(text string) error {
		r, err := checkout.ReadHistory(strings.NewReader(text))
		if err != nil {
			return err
		}
		_ = report.WriteCheckout(io.Discard, r, report.Style{Lang: "en"})
		r.Plan.Names()
		return nil
	})
	if shown < 100 {
		t.Errorf("only %d histories were shown: is what this test makes refused for another reason?", shown)
	}
}

// doctor calls read with each text in which one value of the first or the last line is another, and returns how many
// were not refused.
func doctor(t *testing.T, text string, read func(string) error) (shown int) {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSpace(text)+"\n", "\n")
	last := len(lines) - 2 // after the last newline is nothing
	for _, at := range []int{0, last} {
		var root any
		if err := json.Unmarshal([]byte(lines[at]), &root); err != nil {
			t.Fatal(err)
		}
		var visit func(path string, v any, set func(any))
		visit = func(path string, v any, set func(any)) {
			for _, other := range []any{
				nil, "", "x", -1, 0, 1 << 62, []any{}, map[string]any{}, "-9h", "9h", strings.Repeat("y", 5000),
			} {
				set(other)
				changed := slices.Clone(lines)
				line, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				changed[at] = string(line) + "\n"
				field := path[strings.LastIndexByte(path, '.')+1:]
				err = tryRead(changed, read)
				switch {
				case err == nil:
					shown++
				case strings.HasPrefix(err.Error(), "panic"):
					t.Errorf("%s = %.40v: %v", path, other, err)
				case strings.HasPrefix(path, ".plan.") &&
					!strings.Contains(strings.ReplaceAll(err.Error(), "-", "_"), field):
					t.Errorf("%s = %.40v: the error does not name it: %v", path, other, err)
				}
			}
			set(v)
			switch v := v.(type) {
			case map[string]any:
				for _, key := range slices.Sorted(maps.Keys(v)) {
					visit(path+"."+key, v[key], func(other any) { v[key] = other })
				}
			case []any:
				if len(v) > 0 {
					visit(path+".0", v[0], func(other any) { v[0] = other })
				}
			}
		}
		visit("", root, func(other any) { root = other })
	}
	return shown
}

func tryRead(lines []string, read func(string) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return read(strings.Join(lines, ""))
}
