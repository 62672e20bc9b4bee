package report_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/lab"
)

// sent is a small run of the lab, in which much is drawn.
func sent() lab.Report {
	r := whole()
	r.Cells = slices.DeleteFunc(r.Cells, func(c lab.Cell) bool {
		return c.Scenario != all()[1].Name && c.Scenario != all()[0].Name
	})
	r.Cells = append(r.Cells[:1:1], r.Cells[len(r.Cells)-1])
	return r
}

// Whatever stands in the file of a run is text on its page: each string of it, with a script in it. A file that is
// refused makes no page.
func TestAFileIsText(t *testing.T) {
	t.Parallel()
	shown := 0
	for _, field := range browsertest.Fields(lab.Report{}) {
		r := sent()
		browsertest.Inject(&r, field)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var read lab.Report
		if err := json.Unmarshal(text, &read); err != nil {
			continue
		}
		var page bytes.Buffer
		if err := matrix(read).WriteHTML(&page, "en"); err != nil {
			continue
		}
		if browsertest.Injected(page.String()) {
			shown++
			browsertest.Inert(t, field, page.String())
		}
	}
	if shown < 8 {
		t.Errorf("%d pages show what was injected", shown)
	}
}
