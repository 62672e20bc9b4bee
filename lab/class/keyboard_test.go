package class

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabTo moves the focus forward until it is on what a selector names.
func (s *screen) tabTo(selector string) {
	s.t.Helper()
	for range 150 {
		if ask[bool](s, fmt.Sprintf(`document.activeElement?.matches(%q) ?? false`, selector)) {
			if !ask[bool](s, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
				s.t.Errorf("nobody sees that the focus is on %s", selector)
			}
			return
		}
		s.press(kb.Tab)
	}
	s.t.Fatalf("no key leads to %s", selector)
}

// A whole lesson without a mouse: choose, fire, hold one request and let it go, step, freeze, look at the run again.
func TestALessonByKeyboard(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1920, 1080)
	s.tabTo("#strategy")
	s.press("redis-w")
	s.until("the strategy is chosen", `strategy.value === "redis-watchdog"`)
	s.tabTo("#stock") // of the run before, until it is changed
	s.press("100")
	s.tabTo("#requests")
	s.press("3")
	s.tabTo("#think")
	s.press(kb.Home)
	s.tabTo("#b-pause")
	s.press(" ")
	s.until("it is paused", `document.querySelector("#b-pause").getAttribute("aria-pressed") === "true"`)
	s.tabTo("#b-replay") // from a button letters are keys
	s.begin("f")
	s.until("three stand", `document.querySelectorAll(".tok.stands").length === 3 && requests.value === "3"`)
	hold := func(button string) {
		t.Helper()
		s.tabTo(`.tok[data-req$=".1"]`)
		s.press(kb.Enter)
		s.until("its menu is open", `document.querySelector("#menu").open`)
		s.tabTo(button)
		s.press(kb.Enter)
		s.until("its menu is closed", `!document.querySelector("#menu").open`)
	}
	s.press("n") // the first of them has the lock
	s.until("one has the lock", `document.querySelectorAll(".tok.in.stands").length === 1`)
	s.press("p")
	s.until("all are done", `document.querySelectorAll('.tok[data-phase="done"]').length === 3`)

	s.tabTo("#requests")
	s.press("1")
	s.tabTo("#think")
	s.press(kb.End)
	s.tabTo("#b-fire")
	s.begin(kb.Enter)
	s.until("it thinks", token1+`?.dataset.phase === "thinks"`)
	hold(`#menu-points button:nth-child(3)`)
	s.until("it stands before its write", token1+`.classList.contains("stands")`)
	hold("#menu-go")
	s.until("it is done", token1+`.dataset.phase === "done"`)
	c.rest(t)
	hold("#menu-again")
	s.until("it was answered again", `document.querySelector('.tok[data-req$=".2"]')?.classList.contains("replayed")`)

	state := func(want string) {
		t.Helper()
		s.until("app-2 is "+want, fmt.Sprintf(`document.querySelector('.app[data-app="app-2"]').classList.contains(%q)`,
			want))
	}
	s.press("2w")
	state("frozen")
	s.press("w")
	state("up")
	for key, dialog := range map[string]string{"o": "#scenes", "?": "#keys", "q": "#qr"} {
		s.press(key)
		s.until(dialog+" is open", fmt.Sprintf(`document.querySelector(%q).open`, dialog))
		s.press(kb.Escape)
		s.until(dialog+" is closed", fmt.Sprintf(`!document.querySelector(%q).open`, dialog))
	}
	c.rest(t)

	s.press("i")
	s.until("the run is seen again", `document.body.dataset.ready && !document.querySelector("#player").hidden`)
	s.press(kb.Home)
	s.until("it has not begun", figures("100 0 0 0"))
	s.tabTo("#p-at")
	s.press(kb.End)
	s.until("the end", figures("99 1 0 0"))
	before := ask[string](s, `document.querySelector("#p-time").textContent`)
	for range 300 {
		s.press(kb.ArrowLeft)
	}
	s.until("it goes back", fmt.Sprintf(`document.querySelector("#p-time").textContent !== %q`, before))
	s.press(kb.Escape)
	s.until("the wall is back", `document.body.dataset.ready && document.querySelector("#player").hidden`)
	s.quiet()
}

// Every part of both pages that does something can be reached by Tab.
func TestEveryPartIsReached(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	if err := c.Fire(RunPlan{Strategy: "atomic", Store: "redis", Stock: 10, Requests: 5}); err != nil {
		t.Fatal(err)
	}
	c.rest(t)
	s := look(t, c.wallBase(), c.schoolBase())
	reach := func(page string) {
		t.Helper()
		const parts = `[...document.querySelectorAll("button, input, select, a[href]")]
			.filter(e => !e.disabled && e.checkVisibility())`
		n := ask[int](s, parts+`.length`)
		for range n + 3 {
			s.press(kb.Tab)
			ask[any](s, `document.activeElement.setAttribute("data-reached", ""); null`)
		}
		left := ask[[]string](s, parts+`.filter(e => e.dataset.reached === undefined).map(e => e.outerHTML)`)
		if n < 2 || len(left) > 0 {
			t.Errorf("%s: of %d parts no key leads to %q", page, n, left)
		}
	}
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1366, 900)
	s.until("the run is shown", `document.querySelectorAll(".tok").length === 5`)
	reach("wall")
	_ = c.Vote(true, Question{}) // while it runs, the requests are hidden
	s.open(c.schoolBase()+"/join?lang=en#"+c.school.code, 390, 900)
	reach("name")
	ask[any](s, `document.querySelector("#name").focus(); null`)
	s.press("x" + kb.Enter)
	s.until("the button is there", `!document.querySelector("#shop").hidden &&
		!document.querySelector("#ballot").hidden`)
	reach("phone")
	s.quiet()
}

// Nothing moves for somebody who wants no motion, while for others requests do move.
func TestReducedMotion(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	s := look(t, c.wallBase())
	for _, row := range []struct {
		motion string
		moves  bool
	}{{"no-preference", true}, {"reduce", false}} {
		wanted := emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: row.motion}},
		}
		if _, err := chromedp.Call(s, emulation.SetEmulatedMedia, wanted); err != nil {
			t.Fatal(err)
		}
		s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1366, 900)
		ask[any](s, `window.moved = []
			for (const kind of ["transitionrun", "animationstart"]) {
				document.addEventListener(kind, e => moved.push(kind + " " + e.target.className + e.propertyName), true)
			}
			null`)
		s.begin("s")
		s.until("all have an answer", `document.querySelector("#f-sold b").textContent === "30"`)
		moved := ask[[]string](s, `moved`)
		if row.moves != (len(moved) > 0) {
			t.Errorf("%s: %d parts have moved: %.200q", row.motion, len(moved), moved)
		}
		if smooth := ask[string](s, `getComputedStyle(document.documentElement).scrollBehavior`); smooth == "smooth" {
			t.Errorf("%s: it scrolls smoothly", row.motion)
		}
	}
	s.quiet()
}
