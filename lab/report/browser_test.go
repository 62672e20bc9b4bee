package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
)

var browser browsertest.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(browser.Around(m)) }

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// What the matrix leads to opens, the language can be changed, nothing is wider than a phone, and dark follows the
// reader's choice. No strategy of the matrix is cut off on a screen of 1280 pixels, and a phone shows verdicts before
// it is moved.
func TestPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	ctx := browser.Open(t)
	last := all()[1]
	path := filepath.Join(t.TempDir(), "lab.html")
	r := whole()
	r.Cells = r.Cells[:30] // all of it takes a browser minutes on a busy computer
	for i := range r.Cells {
		if r.Cells[i].Scenario != last.Name {
			r.Cells[i].Events = nil
		}
	}
	if err := os.WriteFile(path, []byte(page(t, r, "en")), 0o644); err != nil {
		t.Fatal(err)
	}
	dark := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, dark); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(
		ctx, chromedp.EmulateViewport(390, 900), chromedp.Navigate("file://"+path),
		chromedp.WaitReady(chromedp.CSS("h1")),
	); err != nil {
		t.Fatal(err)
	}
	if back := evaluate[string](t, ctx, `getComputedStyle(document.body).backgroundColor`); back != "rgb(18, 22, 27)" {
		t.Errorf("dark: the background is %s", back)
	}
	shown := fmt.Sprintf(
		`(() => { const cell = [...document.querySelectorAll("a.w")].find(a => a.hash.startsWith("#%s."));
		cell.click();
		return document.getElementById(cell.hash.slice(1)).querySelectorAll("svg .harm .arrow").length })()`,
		last.Name,
	)
	if drawn := evaluate[int](t, ctx, shown); drawn != 1 {
		t.Errorf("%d harmful writes behind the link, want the second of two", drawn)
	}
	if open := evaluate[bool](
		t, ctx, `document.querySelector(location.hash.replace(/\./g, "\\.")).closest("details").open`,
	); !open {
		t.Error("the evidence behind the link did not open")
	}
	visible := `[...document.querySelectorAll("h1 span")].` +
		`filter(s => s.getBoundingClientRect().width > 0).map(s => s.lang).join()`
	if lang := evaluate[string](t, ctx, visible); lang != "en" {
		t.Errorf("shown in %q", lang)
	}
	if lang := evaluate[string](
		t, ctx, `(() => { document.getElementById("zh").click(); return `+visible+` })()`,
	); lang != "zh" {
		t.Errorf("after the switch it is shown in %q", lang)
	}
	for _, width := range []int64{390, 1280, 1920} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)); err != nil {
			t.Fatal(err)
		}
		words := evaluate[int](t, ctx, fmt.Sprintf(`[...document.querySelectorAll("tr.first td > .w")].
			filter(w => w.getBoundingClientRect().right <= %d).length`, width))
		hidden := evaluate[int](t, ctx, `(() => { const box = document.querySelector(".scroll");
			return box.scrollWidth - box.clientWidth })()`)
		if words < 5 || width > 390 && hidden > 0 {
			t.Errorf("at %d pixels %d verdicts are in sight, and %d pixels are cut off", width, words, hidden)
		}
		wide := evaluate[int](t, ctx, `(() => { document.querySelectorAll("details").forEach(d => d.open = true);
			return document.documentElement.scrollWidth })()`)
		narrow := evaluate[int](t, ctx,
			`[...document.querySelectorAll(".steps-scroll")].filter(s => s.getBoundingClientRect().width < 240).length`)
		if int64(wide) > width || narrow > 0 {
			t.Errorf("%d pixels wide on a screen of %d, and %d pictures are too narrow to read", wide, width, narrow)
		}
	}
}

// The arrow keys step two cases side by side: the n-th press to the right shows the n-th sentence of the naive one and
// of the fixed one, their arrows, and nothing that comes later; the left key goes back.
func TestStepsInABrowser(t *testing.T) {
	ctx := browser.Open(t)
	text, err := os.ReadFile("../diagram/testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	var r lab.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.Cells = slices.DeleteFunc(r.Cells, func(c lab.Cell) bool { return c.Scenario != "transaction-is-no-lock" })
	path := filepath.Join(t.TempDir(), "lab.html")
	if err := os.WriteFile(path, []byte(page(t, r, "en")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(
		ctx, chromedp.EmulateViewport(1920, 1000), chromedp.Navigate("file://"+path),
		chromedp.WaitReady(chromedp.CSS(".pair figure.live")), chromedp.Focus(chromedp.CSS(".pair")),
	); err != nil {
		t.Fatal(err)
	}
	said := func() []string {
		t.Helper()
		return evaluate[[]string](t, ctx,
			`[...document.querySelectorAll(".pair figure .steps-say")].map(p => p.innerText.trim())`)
	}
	press := func(key string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.KeyEvent(key)); err != nil {
			t.Fatal(err)
		}
	}
	sentences := func(c lab.Cell) (list []string) {
		for _, step := range diagram.Of(c).Steps {
			list = append(list, strings.Join(strings.Fields(step.Says.EN), " "))
		}
		return list
	}
	naive, fixed := sentences(r.Cells[0]), sentences(r.Cells[1])
	for n := range 4 {
		press(kb.ArrowRight)
		if got := said(); len(got) != 2 || got[0] != naive[n] || got[1] != fixed[n] {
			t.Errorf("step %d: %q, want %q and %q", n+1, got, naive[n], fixed[n])
		}
	}
	drawn := func(want int) {
		t.Helper()
		got := evaluate[int](t, ctx, `[...document.querySelectorAll(".pair figure")].map(f =>
			[...f.querySelectorAll("svg > g[data-step]:not(.bar):not(.band)")].
			filter(e => getComputedStyle(e).visibility === "visible").length)[0]`)
		if got != want {
			t.Errorf("%d arrows are drawn, want %d", got, want)
		}
	}
	drawn(4)
	press(kb.ArrowLeft)
	if got := said(); got[0] != naive[2] || got[1] != fixed[2] {
		t.Errorf("back at step 3: %q", got)
	}
	drawn(3)
	press(kb.End)
	press(kb.ArrowRight) // there is no more
	if got := said(); got[0] != naive[len(naive)-1] {
		t.Errorf("at the end: %q", got)
	}
	press(kb.Home)
	drawn(len(naive)) // all, as before the first step
	for _, width := range []int64{390, 1280, 1920} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)); err != nil {
			t.Fatal(err)
		}
		if wide := evaluate[int](t, ctx, `document.documentElement.scrollWidth`); int64(wide) > width {
			t.Errorf("%d pixels wide on a screen of %d", wide, width)
		}
	}
}
