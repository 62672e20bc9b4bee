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
	"github.com/chromedp/chromedp/kb"

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
			s.complain = append(s.complain, e.Entry.Text+" "+e.Entry.URL)
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
	s.keeps()
}

// keeps gives the page a function for the text of a part that can be seen.
func (s *screen) keeps() {
	s.t.Helper()
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
		if !strings.Contains(text, "status of 400") {
			s.t.Error(text)
		}
	}
	if len(s.complain) != times {
		s.t.Errorf("%d complaints, want %d: %q", len(s.complain), times, s.complain)
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

// By hand and without a mouse: all requests pause and go step by step; one is held before its write by its menu while
// another sells, so that an update is lost; a sale is sent again with its key; an instance freezes and wakes; requests
// come at a rate, and what is no rate is refused in the language of the page; a run is looked at again.
func TestByHand(t *testing.T) {
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1366, 900)
	if hash := ask[string](s, `location.hash`); hash != "" {
		t.Error("the key stays in the address, for all to read")
	}
	s.stepByStep()
	s.press("2w.")
	s.until("app-2 is frozen", `document.querySelector('.server.frozen')?.dataset.server === "app-2"`)
	s.press("w")
	s.until("it is awake", `!document.querySelector(".server.frozen")`)
	s.atARate()
	c.rest(t)
	const said = `["#verdict", "#heading", "#scene", "#truth"].map($v).join("|")`
	s.until("it is right", `document.body.dataset.verdict === "kept" && !$v("#rate-name").includes("Stop")`)
	live := ask[string](s, said+" + "+shown)
	s.press("i")
	s.until("the run is seen again", `document.body.dataset.ready && !document.querySelector("#player").hidden`)
	s.keeps()
	s.until("as it was", said+" + "+shown+" === "+fmt.Sprintf("%q", live))
	s.press(kb.Escape)
	s.until("the wall is back", `document.body.dataset.ready && document.querySelector("#player").hidden`)
	s.refused(2)
}

func (s *screen) stepByStep() {
	s.t.Helper()
	ask[any](s, `strategy.value = "none"; stock.value = 10; requests.value = 1; think.value = 0; null`)
	s.press("p")
	s.until("it is paused", `document.querySelector("#b-pause").getAttribute("aria-pressed") === "true"`)
	s.begin("f")
	s.until("it stands", token1+`?.classList.contains("stands")`)
	s.press("nnn")
	s.until("it has read", token1+`.classList.contains("stands") && `+token1+`.textContent.includes("10")`)
	s.press("p")
	s.until("one is sold", figures("9 1 0 0"))
	ask[any](s, token1+`.dispatchEvent(new Event("click")); document.querySelector("#menu-again").click()
		document.querySelector("#menu").close(); null`)
	s.until("the same key sells nothing", `document.querySelectorAll(".tok.replayed").length === 1 && `+
		figures("9 1 0 0"))
	ask[any](s, `think.value = 2000; null`)
	s.begin("f")
	s.until("it thinks", token1+`?.dataset.phase === "thinks"`)
	ask[any](s, token1+`.focus(); null`)
	s.press(kb.Enter)
	s.until("its menu is open", `document.querySelector("#menu").open`)
	ask[any](s, `document.querySelectorAll("#menu-points button")[2].click(); null`)
	s.until("it stands before its write", token1+`.classList.contains("stands")`)
	s.press("b")
	s.until("the other is sold", figures("9 1 0 0"))
	ask[any](s, token1+`.dispatchEvent(new Event("click")); document.querySelector("#menu-go").click(); null`)
	s.until("an update is lost", race+" && "+figures("9 2 0 1"))
	ask[any](s, `document.querySelector("#menu").close(); null`)
}

func (s *screen) atARate() {
	s.t.Helper()
	// Without an end: the controls may say that of an earlier run at a rate, which would end by itself.
	ask[any](s, `strategy.value = "atomic"; stock.value = 1000; rate.value = 201; lasts.value = 0; null`)
	s.press("r")
	s.until("it says why not", `$v("#alert").includes("Rate per second: from 1 to 200")`)
	s.press("er")
	s.until("in Chinese, too", `$v("#alert").includes("每秒请求数：应在 1 到 200 之间")`)
	s.press("e")
	ask[any](s, `rate.value = 40; null`)
	s.begin("r")
	s.until("it can be stopped", `$v("#rate-name").includes("Stop") && $v("#heading").includes("40 requests/s")`)
	s.until("many are sold", `Number($v("#f-sold b")) > 20`)
	s.press("r")
}

// Both pages fit every screen in both languages and both themes, say nothing that has no text, and ask nobody else.
func TestPagesFit(t *testing.T) {
	c := lesson(t)
	s := look(t, c.wallBase(), c.schoolBase())
	plan := RunPlan{Strategy: "none", Store: "redis", Stock: 100, Requests: 6, ThinkMS: 10_000}
	if err := c.Fire(plan); err != nil {
		t.Fatal(err)
	}
	_ = c.Ask(Question{})
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
				s.until("the run is shown", `document.querySelectorAll(".tok").length > 2`)
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
		s.until("all is where it belongs", `document.getAnimations().every(a => a.playState !== "running")`)
		png, err := chromedp.Run(s, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(what, " ", "-")+".png"), png, 0o644)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
}
