package report_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// A browser records the requests and complaints of a page.
type browser struct {
	context.Context

	mu       sync.Mutex
	asked    []string
	complain []string
}

// open starts a real browser. If there is none, the test is skipped, or fails in CI.
func open(t *testing.T) *browser {
	t.Helper()
	ctx := browsertest.Open(t)
	b := &browser{Context: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "file:") && !strings.HasPrefix(e.Request.URL, "data:") {
				b.asked = append(b.asked, e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			b.complain = append(b.complain, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.complain = append(b.complain, fmt.Sprint(e.Type))
		case *log.EventEntryAdded:
			b.complain = append(b.complain, e.Entry.Text)
		}
	})
	if err == nil {
		_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// load writes a page about runs to disk, and opens it with the given width.
func (b *browser) load(t *testing.T, page report.Page, width int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.WriteHTML(file, page); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(
		b,
		chromedp.EmulateViewport(width, 900),
		chromedp.Navigate("file://"+path),
		chromedp.WaitReady(chromedp.CSS("h1")),
	); err != nil {
		t.Fatal(err)
	}
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	answer, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

func one(r *loadtest.Result) report.Page {
	return report.Page{Groups: []report.Group{{Runs: []*loadtest.Result{r}}}}
}

// The page of a race shows overlaps in red, that of a lock none. Neither page makes network requests or complains, and
// both fit a phone.
func TestPageInABrowser(t *testing.T) {
	b := open(t)
	for _, row := range []struct {
		name     string
		overlaps bool
	}{{"none", true}, {"redis-watchdog", false}, {"segmented", false}} {
		b.load(t, one(recorded(t, row.name)), 1280)
		red := ask[int](t, b,
			`[...document.querySelectorAll(".bars .overlap")].filter(r => r.getBoundingClientRect().width > 0).length`)
		holds := ask[int](t, b,
			`[...document.querySelectorAll(".bars .hold")].map(hold => hold.getBoundingClientRect())
				.filter(box => box.width > 0 && box.height > 0).length`)
		if holds < 50 || (red > 0) != row.overlaps {
			t.Errorf("%s: %d overlaps of %d holds are drawn, want some: %v", row.name, red, holds, row.overlaps)
		}
		stroke := ask[string](t, b,
			`getComputedStyle(document.querySelector(".bars .overlap") ?? document.querySelector(".verdict")).stroke`)
		if row.overlaps && stroke != "rgb(211, 32, 47)" {
			t.Errorf("%s: overlaps are drawn in %s", row.name, stroke)
		}
		pairs := ask[int](t, b, `document.querySelectorAll("ol.pairs li").length`)
		if (pairs > 0) != row.overlaps {
			t.Errorf("%s: %d pairs are named", row.name, pairs)
		}
		first := ask[string](t, b, `document.querySelector("h1").nextElementSibling.nextElementSibling.className`)
		if !strings.HasPrefix(first, "verdict") {
			t.Errorf("%s: after the title comes %q, not the verdict", row.name, first)
		}
		for _, width := range []int64{390, 1280} {
			if err := chromedp.Do(b, chromedp.EmulateViewport(width, 900)); err != nil {
				t.Fatal(err)
			}
			if wide := ask[int](t, b, `document.documentElement.scrollWidth`); int64(wide) > width {
				t.Errorf("%s: %d pixels wide on a screen of %d", row.name, wide, width)
			}
			shown := ask[int](t, b,
				`[...document.querySelectorAll("svg.chart")].filter(s => s.getBoundingClientRect().width > 0).length`)
			if shown != 1 {
				t.Errorf("%s: %d charts at %d pixels, want the stock once", row.name, shown, width)
			}
		}
	}
	b.quiet(t)
}

// The dark theme follows the reader's choice, text stays readable in it, and a page of many runs opens its details.
func TestDarkPageOfManyRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	b := open(t)
	var g report.Group
	for _, name := range recordings() {
		g.Runs = append(g.Runs, recorded(t, name))
	}
	dark := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	}
	if _, err := chromedp.Call(b, emulation.SetEmulatedMedia, dark); err != nil {
		t.Fatal(err)
	}
	b.load(t, report.Page{Groups: []report.Group{g}}, 390)
	if back := ask[string](t, b, `getComputedStyle(document.body).backgroundColor`); back != "rgb(18, 22, 27)" {
		t.Errorf("background %s", back)
	}
	ink := ask[string](t, b, `getComputedStyle(document.querySelector("svg.chart text")).fill`)
	if ink != "rgb(213, 220, 227)" {
		t.Errorf("text of charts %s", ink)
	}
	if rows := ask[int](t, b, `document.querySelectorAll("table tr").length`); rows < 4 {
		t.Errorf("%d rows", rows)
	}
	// What matters stands first: who, and how much was oversold and lost.
	order := ask[string](t, b, `[...document.querySelectorAll("table.runs tr:first-child th")].slice(0, 4)
		.map(th => th.textContent).join()`)
	if order != "strategy,oversold,lost updates,verdict" {
		t.Errorf("the columns begin with %s", order)
	}
	seen := ask[bool](t, b, `(() => { const row = document.querySelector("table.runs tr:nth-child(2)");
		const [who, oversold, lost, verdict] = row.children;
		return lost.getBoundingClientRect().right < 390 && verdict.getBoundingClientRect().left < 390 &&
		oversold.textContent === "50" })()`)
	if !seen {
		t.Error("a phone does not show how much was oversold and lost")
	}
	race := ask[string](t, b, `(() => { const race = document.querySelector(".race");
		return race.querySelector("h3 a").textContent + race.querySelectorAll("svg.chart").length +
			(race.compareDocumentPosition(document.querySelector("table.runs")) & 4) })()`)
	if race != "none on redis24" {
		t.Errorf("the page opens with %q, not with the race, its picture and one beside it, before the table", race)
	}
	opened := ask[int](t, b, `(() => { document.querySelectorAll("details").forEach(d => d.open = true);
		return [...document.querySelectorAll("details .bars .hold")]
			.filter(hold => hold.getBoundingClientRect().width > 0).length })()`)
	if opened < 100 {
		t.Errorf("%d holds in the details of three runs", opened)
	}
	if wide := ask[int](t, b, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("%d pixels wide on a screen of 390", wide)
	}
	b.quiet(t)
}

// quiet fails if a page made a network request or wrote to the console.
func (b *browser) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) > 0 || len(b.complain) > 0 {
		t.Errorf("asked for %q, complained %q", b.asked, b.complain)
	}
}

// A Chinese page has no English words but names, figures and units, fits a phone, and shows orders as numbers whose ids
// are behind a fold.
func TestChinesePageInABrowser(t *testing.T) {
	b := open(t)
	p := one(recorded(t, "none"))
	p.Lang = words.Chinese
	b.load(t, p, 390)
	if wide := ask[int](t, b, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("%d pixels wide on a screen of 390", wide)
	}
	english := ask[string](t, b, `(() => { document.querySelectorAll("pre, code, dd, style").forEach(e => e.remove());
		const drawn = [...document.querySelectorAll("svg text, title")].map(e => e.textContent);
		const text = document.body.innerText + drawn;
		return (text.match(/[a-z]{2,}( [a-z]{2,})+/gi) ?? []).join("|") })()`)
	if english != "" {
		t.Errorf("English on a Chinese page: %q", english)
	}
	if lang := ask[string](t, b, `document.documentElement.lang`); lang != "zh-CN" {
		t.Errorf("the page says that it is in %q", lang)
	}
	b.load(t, p, 1280)
	first := ask[string](t, b, `document.querySelector("ol.pairs li").textContent`)
	if !strings.Contains(first, "#1") || strings.Contains(first, "01a1") {
		t.Errorf("orders are shown as %s", first)
	}
	if ids := ask[int](t, b, `document.querySelectorAll(".ids li").length`); ids < 5 {
		t.Errorf("%d ids of orders behind the fold", ids)
	}
	b.quiet(t)
}
