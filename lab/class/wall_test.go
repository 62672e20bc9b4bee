package class

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// A screen is a real browser that looks at a page of the class, and keeps what it complains of.
type screen struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	complain []string
}

func look(t *testing.T, own ...string) *screen {
	t.Helper()
	s := &screen{Context: browser.Open(t), t: t}
	err := chromedp.Listen(s, func(event any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			foreign := !strings.HasPrefix(e.Request.URL, "data:")
			for _, base := range own {
				foreign = foreign && !strings.HasPrefix(e.Request.URL, base)
			}
			if foreign {
				s.complain = append(s.complain, "asks "+e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			s.complain = append(s.complain, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			s.complain = append(s.complain, fmt.Sprint(e.Type))
		case *log.EventEntryAdded:
			s.complain = append(s.complain, e.Entry.Text)
		}
	})
	if err == nil {
		_, err = chromedp.Call(s, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(s, log.Enable, cdp.Empty{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *screen) open(address string, width, height int64) {
	s.t.Helper()
	if err := chromedp.Do(s, chromedp.EmulateViewport(width, height), chromedp.Navigate(address),
		chromedp.WaitReady(chromedp.CSS("body[data-ready]"))); err != nil {
		s.t.Fatal(err)
	}
	// The text of a part that can be seen.
	ask[any](s, `window.$v = (selector) => {
		const e = document.querySelector(selector)
		return e?.checkVisibility({visibilityProperty: true}) ? e.textContent : ""
	}
	null`)
}

func ask[T any](s *screen, expression string) T {
	s.t.Helper()
	answer, err := chromedp.Run(s, chromedp.Evaluate[T](expression))
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	return answer
}

// until waits until an expression is true. Between two pages there is nothing to ask.
func (s *screen) until(what, expression string) {
	s.t.Helper()
	// The text of the page needs a layout: it is looked at once, not with each try.
	servertest.Eventually(s.t, time.Minute, what, func() (bool, string) {
		ok, err := chromedp.Run(s, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return ok, fmt.Sprint("the page is in the log; ", err)
	})
	if s.t.Failed() {
		s.t.Log(ask[string](s, `document.body?.innerText ?? ""`))
	}
}

func (s *screen) press(keys string) {
	s.t.Helper()
	if err := chromedp.Do(s, chromedp.KeyEvent(keys)); err != nil {
		s.t.Fatal(err)
	}
}

// begin presses a key that begins a run, and waits for it: what is shown is of another one until then.
func (s *screen) begin(key string) {
	s.t.Helper()
	s.until("the wall is drawn", `document.body.dataset.n`)
	before := ask[string](s, `document.body.dataset.n`)
	s.press(key)
	s.until("a run begins", fmt.Sprintf("document.body.dataset.n !== %q", before))
}

// refused sees that the page complains of that many refusals, and of nothing else.
func (s *screen) refused(times int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.complain {
		if !strings.Contains(text, "400") {
			s.t.Error(text)
		}
	}
	if len(s.complain) != times {
		s.t.Errorf("%d complaints, want %d", len(s.complain), times)
	}
	s.complain = nil
}

func (s *screen) quiet() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.complain) > 0 {
		s.t.Errorf("the page complains: %q", s.complain)
	}
}

const (
	race   = `document.body.dataset.verdict === "race"`
	token1 = `document.querySelector('.tok[data-req$=".1"]')`
)

// shown are the four large figures: the stock as written, sold, oversold, lost.
const shown = `[...document.querySelectorAll(".figure b")].map(b => b.textContent).join(" ")`

// figures is true if that is what they are.
func figures(want string) string { return fmt.Sprintf("%s === %q", shown, want) }

// One key, and the race is on the wall: in figures, in a sentence and in red, as the store says, and in the file of the
// run.
func TestTheRaceIsSeen(t *testing.T) {
	c := lesson(t)
	before := len(tapes(t, c))
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1920, 1080)
	s.begin("s")
	s.until("the race is seen", race)
	s.until("all have an answer", `document.querySelector("#f-sold b").textContent === "30"`)
	s.until("overlaps are drawn", `Number(document.querySelector("#holds").dataset.overlap) > 0`)
	var v WallVerdict
	sku := skuOf(runOf(ask[string](s, `document.querySelector(".tok").dataset.req`)))
	servertest.Eventually(t, time.Minute, "the stock is read after the last reply", func() (bool, string) {
		c.look(func(state *State) { v = state.Verdict() })
		stock, err := c.clients["app-1"].Stock(t.Context(), "redis", sku)
		return err == nil && v.Sold == stock.Sold && v.Written == stock.Quantity && v.Open == 0,
			fmt.Sprintf("%+v %+v", v, stock)
	})
	s.until("the page has the same figures", figures(fmt.Sprint(v.Written, v.Sold, v.Oversold, v.Lost)))
	// Of sales that come in turn, some overwrite a later version than the one that they read, and read it alone.
	if v.Lost == 0 || v.Collisions == 0 {
		t.Errorf("%+v: updates are lost, and some orders read a version that another had used", v)
	}
	if red := ask[string](s, `getComputedStyle(document.querySelector("#f-lost b")).color`); red != "rgb(179, 18, 31)" {
		t.Errorf("the figure is %s", red)
	}
	if n := ask[int](s, `document.querySelectorAll(".tok.twin").length`); n < 2 {
		t.Errorf("%d requests are marked as having read the same", n)
	}
	if hash := ask[string](s, `location.hash`); hash != "" {
		t.Error("the key stays in the address, for all to read")
	}
	s.begin("a")
	s.until("two buyers have one unit", `document.querySelector("#f-oversold b").textContent === "1"`)
	s.quiet()
	if files := tapes(t, c); len(files) != before+2 {
		t.Errorf("%q, want a file for each of two runs", files[before:])
	}
}

// tapes are the files of the runs, the latest last.
func tapes(t *testing.T, c *Class) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.o.Dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A request is held before its write, another is let past, and an update is lost. All with the mouse.
func TestAHeldRequestLosesAnUpdate(t *testing.T) {
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1366, 900)
	ask[any](s, `strategy.value = "none"; stock.value = 10; requests.value = 1; think.value = 2000; null`)
	s.begin("f")
	s.until("it thinks", token1+`?.dataset.phase === "thinks"`)
	ask[any](s, token1+`.click(); document.querySelectorAll("#menu-points button")[2].click(); null`)
	s.until("it stands before its write", token1+`.classList.contains("stands")`)
	s.press("b")
	s.until("the other is done", `document.querySelector('.tok[data-req$=".2"]')?.classList.contains("sold")`)
	s.until("one is sold", figures("9 1 0 0"))
	ask[any](s, token1+`.click(); document.querySelector("#menu-go").click(); null`)
	s.until("an update is lost", race)
	s.until("in figures", figures("9 2 0 1"))
	s.quiet()
}

// A holder that is frozen past its lease: without the fence an update is lost, with it the write is refused.
func TestAFrozenHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1920, 1080)
	s.begin("h")
	s.until("the figures are of this run", figures("10 0 0 0")) // those of the run before may be the same as at its end
	s.until("it is frozen", `document.querySelector('.app[data-app="app-1"]').classList.contains("frozen")`)
	s.until("an update is lost", figures("9 2 0 1"))
	s.begin("j")
	s.until("all is right", `document.body.dataset.verdict === "kept"`)
	if got := ask[string](s, shown); got != "9 1 0 0" {
		t.Errorf("figures %s, want one sold of ten", got)
	}
	label := ask[string](s, token1+`.getAttribute("aria-label")`)
	if !strings.Contains(label, "refused: ") {
		t.Errorf("what became of the first: %s", label)
	}
	s.quiet()
}

// What is killed is seen to be, and the teacher starts it again. A server that comes back has its data.
func TestServersDieAndReturn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1920, 1080)
	s.press("3k")
	s.until("app-3 is dead", `document.querySelector('.app[data-app="app-3"]').classList.contains("killed")`)
	s.begin("m")
	s.until("Redis is dead", `document.querySelector('.server[data-server="redis"]').classList.contains("killed")`)
	s.until("the caption follows", `document.querySelector("#scene").dataset.caption === "watch_redis_dies_dead"`)
	s.until("Redis is up", `document.querySelector('.server[data-server="redis"]').classList.contains("up")`)
	s.until("the caption is not stale", `!document.querySelector("#cap").textContent.includes("dead")`)
	s.until("all is right", `document.body.dataset.verdict === "kept"`)
	s.quiet()
}

// Everything pauses, goes on step by step, and all at once.
func TestEverythingPauses(t *testing.T) {
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1920, 1080)
	s.press("p")
	s.until("it is paused", `document.querySelector("#b-pause").getAttribute("aria-pressed") === "true"`)
	ask[any](s, `strategy.value = "none"; stock.value = 100; requests.value = 3; think.value = 0; null`)
	s.begin("f")
	s.until("three stand", `document.querySelectorAll(".tok.stands").length === 3`)
	s.press("nnn")
	s.until("three have read",
		`[...document.querySelectorAll(".tok.stands")].filter(b => b.textContent.includes("100")).length === 3`)
	s.press("p")
	s.until("all are done", `document.querySelectorAll('.tok[data-phase="done"]').length === 3`)
	s.until("two updates are lost", `document.querySelector("#f-lost b").textContent === "2"`)
	s.quiet()
}

// Both pages fit every screen in both languages and both themes, say nothing that has no text, and ask nobody else.
func TestPagesFit(t *testing.T) {
	c := lesson(t)
	s := look(t, c.wallBase(), c.schoolBase())
	if err := c.Play("no_lock"); err != nil {
		t.Fatal(err)
	}
	_ = c.Vote(true, Question{})
	joined := false
	for _, lang := range []string{"en", "zh"} {
		for _, theme := range servertest.Some(1, []string{"light", "dark"}) {
			dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}}
			if _, err := chromedp.Call(s, emulation.SetEmulatedMedia, dark); err != nil {
				t.Fatal(err)
			}
			for _, width := range servertest.Some(1, []int64{390, 1366, 1920}) {
				at := fmt.Sprintf("%s %s %d", lang, theme, width)
				s.open(fmt.Sprintf("%s/?lang=%s&theme=%s#%s", c.wallBase(), lang, theme, c.wall.token), width, 1080)
				s.until("the run is shown", `document.querySelectorAll(".tok").length > 5`)
				s.fits(at+" wall", width)
				moving := ask[int](s, `document.getAnimations().filter(a => a.playState === "running").length`)
				if moving > 0 {
					t.Errorf("%s: %d parts move for somebody who wants none to", at, moving)
				}
				s.open(fmt.Sprintf("%s/join?lang=%s#%s", c.schoolBase(), lang, c.school.code), width, 900)
				if !joined {
					ask[any](s, `document.querySelector("#name").value = "<b>x</b>";
						document.querySelector("form").requestSubmit(); null`)
					joined = true
				}
				s.until("the button is there", `!document.querySelector("#shop").hidden`)
				s.until("the vote is open", `!document.querySelector("#ballot").hidden`)
				s.fits(at+" phone", width)
				if n := ask[int](s, `document.querySelectorAll("#you b").length`); n > 0 {
					t.Errorf("%s: a name became an element", at)
				}
			}
		}
	}
	s.open(c.schoolBase()+"/join?lang=en#"+c.school.code, 390, 900)
	ask[any](s, `document.querySelector("#buy").click(); null`)
	s.until("one is bought", `document.querySelector("#own li")?.className !== undefined`)
	s.quiet()
}

// fits fails if a page is wider than its screen, or has a text that is missing. CLASS_SHOTS is a folder for pictures.
func (s *screen) fits(what string, width int64) {
	s.t.Helper()
	if wide := ask[int](s, `document.documentElement.scrollWidth`); int64(wide) > width {
		s.t.Errorf("%s: %d pixels wide", what, wide)
	}
	text := ask[string](s, `(b => { b.querySelectorAll("script").forEach(e => e.remove()); return b.innerHTML })(
		document.body.cloneNode(true))`)
	if strings.Contains(text, "⟨") {
		_, rest, _ := strings.Cut(text, "⟨")
		s.t.Errorf("%s: no text %.40s", what, rest)
	}
	if dir := os.Getenv("CLASS_SHOTS"); dir != "" {
		png, err := chromedp.Run(s, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(what, " ", "-")+".png"), png, 0o644)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
}

// It makes docs/wall.png: see docs/refresh.
func TestPictureOfTheWall(t *testing.T) {
	path := os.Getenv("CLASS_PICTURE")
	if path == "" {
		t.Skip("CLASS_PICTURE names no file")
	}
	c := own(t, func(o *Options) { o.Want = []server.Kind{server.Redis, server.ZooKeeper, server.MySQL} })
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1920, 1080)
	ask[any](s, `strategy.value = "none"; requests.value = 24; think.value = 2000; null`)
	s.begin("f")
	s.until("all think", `document.querySelectorAll('.tok[data-phase="thinks"]').length > 12`)
	time.Sleep(900 * time.Millisecond)
	for i := range 6 {
		c.fire(shot{to: c.apps[i%3].Name})
		time.Sleep(120 * time.Millisecond)
	}
	s.until("some are done", race)
	time.Sleep(400 * time.Millisecond) // the requests get to where they belong
	png, err := chromedp.Run(s, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
