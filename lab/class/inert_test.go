package class

import (
	"bytes"
	"encoding/json"
	"testing"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/loadtest"
)

// exported calls show with the file that a page is exported to, for each string that its record can have, with a script
// in it. What is refused makes no page.
func exported(t *testing.T, show func(field, page string)) {
	t.Helper()
	shown := 0
	page := func(kind, field string, record []byte) {
		s, err := ReadAny(bytes.NewReader(record), "en")
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := s.WriteHTML(&file); err == nil && browsertest.Injected(file.String()) {
			shown++
			show(kind+field, file.String())
		}
	}
	atLeast := func(n int, kind string) {
		if shown < n {
			t.Errorf("%d pages of %s show what was injected, want %d", shown, kind, n)
		}
		shown = 0
	}
	for _, field := range browsertest.Fields(RunEvent{}) {
		var tape bytes.Buffer
		for _, name := range []string{class, "app-2", "app-1"} {
			for _, e := range recorded()[name] {
				if injected := e; injects(&injected, field) {
					e = injected
				}
				if err := json.NewEncoder(&tape).Encode(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		page("tape", field, tape.Bytes())
	}
	atLeast(8, "runs of a class")
	for _, field := range browsertest.Fields(loadtest.History{}) {
		h, _ := loaded(t, "none")
		h.Records, h.Orders = h.Records[:5], h.Orders[:2]
		browsertest.Inject(h, field)
		var file bytes.Buffer
		if err := loadtest.WriteHistory(&file, h); err != nil {
			t.Fatal(err)
		}
		page("load", field, file.Bytes())
	}
	atLeast(2, "loads")
}

// injects puts a script into an event that has what the field is of: a plan does not come with every event.
func injects(e *RunEvent, field string) bool {
	if len(field) > 5 && field[:5] == ".Plan" && e.Plan == nil {
		return false
	}
	if e.Plan != nil {
		plan := *e.Plan // other tests have it, too
		e.Plan = &plan
	}
	browsertest.Inject(e, field)
	return true
}

// Whatever stands in a record is text in the file that is exported.
func TestARecordIsText(t *testing.T) {
	t.Parallel()
	exported(t, func(field, page string) { browsertest.Inert(t, field, page) })
}

// Nothing of it runs in a browser, not even without the policy of the page: not of what its scripts draw, either. With
// the policy nothing else runs that somebody has added, and its own scripts do.
func TestARecordRunsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	tab := browser.Open(t)
	const ready = `document.body.dataset.ready`
	pages := make(map[string]string)
	exported(t, func(field, page string) {
		kind := field[:3]
		if pages[kind] == "" {
			pages[kind] = page
		}
		browsertest.NothingRan(t, tab, field, page, ready)
	})
	tab = browser.Open(t)
	for _, page := range pages {
		browsertest.PolicyHolds(t, tab, page, ready)
	}
}
