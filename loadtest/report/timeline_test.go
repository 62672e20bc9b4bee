package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

func page(t testing.TB, runs ...*loadtest.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteHTML(&b, report.Page{Groups: []report.Group{{Runs: runs}}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// drawn returns the number of bars of a class in the lanes.
func drawn(page, class string) int {
	_, after, _ := strings.Cut(page, `<svg class="bars"`)
	bars, _, _ := strings.Cut(after, "</svg>")
	return strings.Count(bars, `class="`+class+`"`)
}

// Two holds are red if they share a critical section that admits one, and otherwise not.
func TestWhoIsRed(t *testing.T) {
	together := []stay{
		{worker: 1, asked: 0, from: 1, to: 5, version: 1},
		{worker: 2, asked: 0, from: 4, to: 8, version: 1},
	}
	apart := []stay{
		{worker: 1, asked: 0, from: 1, to: 4, version: 1},
		{worker: 2, asked: 0, from: 4, to: 8, version: 2},
	}
	segments := []stay{
		{worker: 1, asked: 0, from: 1, to: 5, version: 1, segment: 1},
		{worker: 2, asked: 0, from: 4, to: 8, version: 1, segment: 2},
	}
	segment := []stay{
		{worker: 1, asked: 0, from: 1, to: 5, version: 1, segment: 2},
		{worker: 2, asked: 0, from: 4, to: 8, version: 1, segment: 2},
	}
	inside := []stay{
		{
			worker:  1,
			asked:   0,
			from:    1,
			to:      9,
			version: 1,
		},
		{worker: 2, asked: 0, from: 2, to: 3, version: 1},
		{worker: 3, asked: 0, from: 4, to: 5, version: 2},
	}
	for _, row := range []struct {
		name  string
		run   *loadtest.Result
		red   int
		pairs string
	}{
		{
			"a race", ran("none", loadtest.Nowhere, false, together...), 2,
			"order o1 (app-1, worker 1) and order o2 (app-2, worker 2) were in the critical section together for " +
				"1.00 ms; both read version 1",
		},
		{"a broken lock", ran("lock", loadtest.Cluster, true, together...), 2, "for 1.00 ms"},
		{"one after the other, without a gap", ran("lock", loadtest.Cluster, true, apart...), 0, ""},
		{"a version check lets many in", ran("optimistic", loadtest.Cluster, false, together...), 0, ""},
		{"two segments", ran("segmented", loadtest.Cluster, false, segments...), 0, ""},
		{"one segment", ran("segmented", loadtest.Cluster, false, segment...), 2, "both read version 1"},
		{
			"one inside another, and a third", ran("lock", loadtest.Cluster, true, inside...), 3,
			"order o1 (app-1, worker 1) and order o3 (app-3, worker 3) were in the critical section together for " +
				"1.00 ms; they read different versions",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := page(t, row.run)
			if red := drawn(p, "overlap"); red != row.red {
				t.Errorf("%d red, want %d", red, row.red)
			}
			if holds := drawn(p, "hold"); holds != len(row.run.Records) {
				t.Errorf("%d holds, want %d", holds, len(row.run.Records))
			}
			list := strings.Contains(p, `<ol class="pairs">`)
			if list != (row.pairs != "") || !strings.Contains(p, row.pairs) {
				t.Errorf("pairs are named: %v, want %q", list, row.pairs)
			}
		})
	}
}

// Pairs of which one lost an update stand before those that met without harm, whoever met first.
func TestLossesAreNamedFirst(t *testing.T) {
	p := page(t, ran("none", loadtest.Nowhere, false,
		stay{worker: 1, asked: 0, from: 1, to: 5, version: 1},
		stay{worker: 2, asked: 0, from: 2, to: 6, version: 2},
		stay{worker: 3, asked: 0, from: 4, to: 8, version: 1}))
	_, pairs, _ := strings.Cut(p, `<ol class="pairs">`)
	first, _, _ := strings.Cut(pairs, "</li>")
	if !strings.Contains(first, "o1") || !strings.Contains(first, "o3") {
		t.Errorf("the first pair is %s, want o1 and o3, which read the same version", first)
	}
}

// Bars are at their times: waits before holds, both in percent of the run.
func TestBarsAreToScale(t *testing.T) {
	p := page(t, ran("lock", loadtest.Cluster, true,
		stay{worker: 1, asked: 0, from: 25, to: 50, version: 1},
		stay{worker: 2, asked: 50, from: 50, to: 99.5, version: 2}))
	mustHave(t, p, `class="wait" x="0.000%" y="11" width="25.000%"`, `class="hold" x="25.000%" y="9" width="25.000%"`,
		`class="hold" x="50.000%"`)
	if drawn(p, "wait") != 1 {
		t.Errorf("%d waits, want 1: the second did not wait", drawn(p, "wait"))
	}
}

// A large run makes a page that is small enough to open at once, and says what it leaves out.
func TestLargeRunIsThinnedOut(t *testing.T) {
	p := page(t, lossy(20_000))
	if len(p) > 1<<20 {
		t.Errorf("%d bytes", len(p))
	}
	if n := drawn(p, "hold"); n < 100 || n > 400 {
		t.Errorf("%d holds are drawn", n)
	}
	mustHave(t, p, "Thinned out: 400 of 20,000 holds are drawn",
		"around the first overlap.",
		"Thinned out: of 20,000 sales those that can be told apart are drawn.", "10,000")
}

// The sales of a batch are in the critical section together, which is no overlap. Two batches at once are a fault like
// any other where one at a time is promised.
func TestBatchesAreOneHold(t *testing.T) {
	inBatch := func(batch string, place int) *loadtest.Batch {
		return &loadtest.Batch{ID: batch, Place: place, Size: 2}
	}
	one := ran("merged", loadtest.Cluster, true,
		stay{worker: 1, from: 1, to: 5, version: 1, instance: "app-1", batch: inBatch("a", 1)},
		stay{worker: 2, from: 1, to: 5, version: 2, instance: "app-1", batch: inBatch("a", 2)})
	both := ran("merged", loadtest.Cluster, true,
		stay{worker: 1, from: 1, to: 5, version: 1, batch: inBatch("a", 1)},
		stay{worker: 2, from: 4, to: 8, version: 2, batch: inBatch("b", 1)})
	for _, row := range []struct {
		run  *loadtest.Result
		red  int
		says string
	}{{one, 0, "1 batch in the whole run"}, {both, 2, "2 batches in the whole run"}} {
		p := page(t, row.run)
		if red := drawn(p, "overlap"); red != row.red {
			t.Errorf("%d red, want %d", red, row.red)
		}
		mustHave(t, p, row.says, "in its batch")
	}
	if strings.Contains(page(t, lossy(10)), "made in one step") {
		t.Error("a strategy that does not merge has batches")
	}
}

// Nothing in a page refers to the network: addresses occur only in text and in namespaces.
func TestPageHoldsAllItNeeds(t *testing.T) {
	p := page(t, lossy(100))
	if outside := regexp.MustCompile(`(src|href|action|data)="[^"]*"|@import|url\([^#]`).
		FindAllString(p, -1); len(outside) != 1 ||
		outside[0] != `href="data:,"` {
		t.Errorf("%q", outside)
	}
	for _, id := range regexp.MustCompile(`url\(#([a-z0-9]+)\)`).FindAllStringSubmatch(p, -1) {
		if !strings.Contains(p, `id="`+id[1]+`"`) {
			t.Errorf("no pattern %s", id[1])
		}
	}
}

// Of several SKUs, the page draws the one that lost most, and says which.
func TestStockOfTheWorstSKU(t *testing.T) {
	r := lossy(10)
	calm := loadtest.Stock{SKU: "ink", Store: "redis", Quantity: 5, Initial: 5, Version: 1, Epoch: 1}
	r.Accounts = append([]loadtest.Account{{Store: "redis", Before: calm, After: &calm, Complete: true}}, r.Accounts...)
	mustHave(t, page(t, r), "Of 2 SKUs this is pen", `aria-label="Stock of pen over time`)
}

// A run in which nothing was accepted has a page as well.
func TestEmptyRun(t *testing.T) {
	r := ran("none", loadtest.Nowhere, false)
	mustHave(t, page(t, r), "Not decided", "There are no holds to draw")
	mustHave(t, page(t, r, r), "Not all is decided", "2 could not be decided: none on redis (2 times).")
}

// The verdict is in plain words, and comes before everything else.
func TestVerdictInPlainWords(t *testing.T) {
	p := page(t, lossy(100))
	mustHave(t, p, "Broken, as expected", "It sold 100 units, but the stock went down by 50 only: the store still "+
		"offers 50 units that are sold.")
	if strings.Index(p, "Broken, as expected") > strings.Index(p, "<h2>") {
		t.Error("the verdict is not first")
	}
	broken := ran("lock", loadtest.Cluster, true, stay{worker: 1, from: 1, to: 2, version: 1},
		stay{worker: 2, from: 1, to: 2, version: 1})
	mustHave(t, page(t, broken, lossy(10)), "A promise was broken",
		"1 lost stock although they promise not to: lock on redis.", "1 lost stock, as was to be expected")
}

// A foreign API reports no versions, and the page does not claim any.
func TestMappedRunsHaveNoVersions(t *testing.T) {
	r := lossy(100)
	const claim = "Every write makes a new version"
	mustHave(t, page(t, r), claim)
	r.Accounts[0].Before.Mapped = true
	p := page(t, r)
	mustHave(t, p, "This API tells no versions", "two orders from one quantity", `<th class="t">units gone</th>`)
	if strings.Contains(p, claim) {
		t.Errorf("it says %q", claim)
	}
}

// Runs side by side show the wake-ups of their locks, if they are known.
func TestSideBySideShowsWakeUps(t *testing.T) {
	one, two := lossy(10), lossy(10)
	p := page(t, one, two)
	if head := "<th>wake-ups per sale</th>"; strings.Contains(p, head) {
		t.Errorf("%s, though nobody told any", head)
	}
	for i := range two.Records {
		two.Records[i].Wakeups = 11
	}
	mustHave(t, page(t, one, two), "<th>wake-ups per sale</th>", "<td>–</td></tr>", "<td>11.0</td></tr>")
}
