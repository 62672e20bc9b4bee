package diagram_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/lab/diagram"
)

// The arrow keys step: the n-th press to the right shows the n-th sentence and its arrow, and nothing that comes later;
// the left key goes back. It is so in both languages and on a phone, in the dark, without motion.
func TestStepsInABrowser(t *testing.T) {
	ctx := browsertest.Open(t)
	cell := recorded(t)[0]
	d := diagram.Of(cell)
	for _, row := range []struct {
		lang, other string
		width       int64
		scheme      string
	}{{"en", "zh", 1280, "light"}, {"zh", "en", 390, "dark"}} {
		page := fmt.Sprintf(`<!doctype html><meta charset="utf-8">
			<style>body{margin:8px} [lang=%s]{display:none} %s</style>%s
			<script type="module">%s
			window.all = [...document.querySelectorAll("figure.steps")].map(f => steps(f));</script>`,
			row.other, diagram.Style, d.Figure(row.lang), diagram.Script)
		path := filepath.Join(t.TempDir(), "page.html")
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: row.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(
			ctx, chromedp.EmulateViewport(row.width, 900), chromedp.Navigate("file://"+path),
			chromedp.WaitReady(chromedp.CSS("figure.live")), chromedp.Focus(chromedp.CSS("figure.steps")),
		); err != nil {
			t.Fatal(err)
		}
		look := func(n int) {
			t.Helper()
			const seen = `(() => { const visible = e => getComputedStyle(e).visibility === "visible";
				const arrows = [...document.querySelectorAll("figure svg > g[data-step]:not(.bar):not(.band)")];
				const now = arrows.filter(g => g.classList.contains("now"));
				return { said: document.querySelector(".steps-say").innerText.trim(),
					shown: arrows.filter(visible).length, now: now.length ? Number(now[0].dataset.step) : 0,
					wide: document.documentElement.scrollWidth } })()`
			got, err := chromedp.Run(ctx, chromedp.Evaluate[struct {
				Said             string
				Shown, Now, Wide int
			}](seen))
			if err != nil {
				t.Fatal(err)
			}
			said, shown := "", len(d.Steps)
			if n > 0 {
				said, shown = d.Steps[n-1].Says.In(row.lang), n
				if d.Steps[n-1].Harm {
					said = got.Said // with its mark
				}
			} else {
				said = got.Said
			}
			if got.Said != said || got.Shown != shown || got.Now != n {
				t.Errorf("%s: at step %d: %+v, want %q and %d arrows", row.lang, n, got, said, shown)
			}
			if int64(got.Wide) > row.width {
				t.Errorf("%s: %d pixels wide on a screen of %d", row.lang, got.Wide, row.width)
			}
		}
		press := func(key string) {
			t.Helper()
			if err := chromedp.Do(ctx, chromedp.KeyEvent(key)); err != nil {
				t.Fatal(err)
			}
		}
		look(0)
		for n := 1; n <= 5; n++ {
			press(kb.ArrowRight)
			look(n)
		}
		press(kb.ArrowLeft)
		look(4)
		press(kb.End)
		look(len(d.Steps))
		press(kb.ArrowRight) // there is no more
		look(len(d.Steps))
		press(kb.Home)
		look(0)
	}
}
