package class

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"example.com/stock/lock/locktest/server"
)

// points are what a class must see of each scene without a word from the teacher: expressions that are true of the page
// when the scene is over.
var points = map[string][]string{
	"no_lock":         {`lost > 0 && stock === 100 - sold + lost`}, // a busy computer may refuse some
	"two_buyers":      {`sold === 2 && oversold === 1`, `$("#front").textContent.includes("both read 1")`},
	"one_lock":        {`sold === 1 && oversold === 0 && stock === 0`, `tok(2).classList.contains("no")`},
	"mutex_one":       {`sold === 30 && stock === 70 && lost === 0`},
	"mutex_three":     {`lost > 1`, `$('#back [fill*=redbar]') !== null`},
	"watchdog":        {`sold === 2 && stock === 8`, `seen.renewed`},
	"killed_holder":   {`sold === 2 && stock === 8`, `tok(1).classList.contains("dead")`, `count("silent") === 1`},
	"frozen_unfenced": {`sold === 2 && stock === 9 && lost === 1`, `$("#back").textContent.includes("A: lease over")`},
	"frozen_fenced": {
		`sold === 1 && stock === 9 && lost === 0`, `tok(1).getAttribute("aria-label").includes("fence 1 < 2")`,
	},
	"herd":  {`sold === 30 && stock === 70`, `count("wakes") > 250`, `seen.woken > 10`},
	"queue": {`sold === 30 && stock === 70`, `count("wakes") < 60`},
	"masters": {
		`sold === 0`, `document.querySelectorAll(".master.down").length === 3`, `$('#back [fill*=redbar]') !== null`,
	},
	"four_goods": {`sold === 7 && stock === 33`, `tok(2).classList.contains("again")`},
	"same_key": {
		`sold === 2 && stock === 8`, `tok(2).classList.contains("again")`,
		`tok(2).getAttribute("aria-label").includes("sent with the key of request 1")`,
	},
	"atomic": {`sold === 50 && stock === 0`, `count("writes") === 50`, `$("#back").textContent.includes("1 → 0")`},
	"merged": {`sold === 50 && stock === 0`, `count("writes") < 50`},
}

// watching is a script that notes what is shown for a moment only.
const watching = `
	window.seen = {woken: 0}
	window.$ = (selector) => document.querySelector(selector)
	window.tok = (n) => $('.tok[data-req$=".' + n + '"]')
	window.count = (key) => Number($('#counts [data-count="' + key + '"] b')?.textContent ?? 0)
	clearInterval(window.watch)
	window.watch = setInterval(() => {
		seen.woken = Math.max(seen.woken, document.querySelectorAll(".tok.woken").length)
		if (/↻[1-9]/.test($("#back").textContent)) seen.renewed = true
	}, 20)
	null`

// figuresOf gives points the large figures by name.
const figuresOf = `
	const [stock, sold, oversold, lost] = [...document.querySelectorAll(".figure b")].map(b => Number(b.textContent));`

// In the order of the hour in docs/class.md, the scenes play by themselves, the first while another run still sells,
// whose requests it ends. Each shows its point on a projector, in both languages.
func TestTheHour(t *testing.T) {
	list := scenes()
	var c *Class
	if testing.Short() {
		c = lesson(t)
		list = slices.DeleteFunc(list, func(s scene) bool { return s.name != "two_buyers" && s.name != "one_lock" })
	} else {
		c = own(t, func(o *Options) {
			o.Want = append(slices.Repeat([]server.Kind{server.Redis}, 6), server.ZooKeeper)
			o.pace = 0.3
		})
	}
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1280, 720)
	slow := RunPlan{Strategy: "redis-setnx", Store: "redis", Stock: 40, Requests: 30, ThinkMS: 700}
	if err := c.Fire(slow); err != nil {
		t.Fatal(err)
	}
	s.until("it sells", `document.querySelector("#scene.watch")`)
	c.mu.Lock()
	asking := c.asking
	c.mu.Unlock()
	s.press(" ")
	s.until("scenes play by themselves", `document.querySelector("#b-auto").getAttribute("aria-pressed") === "true"`)
	for _, one := range list {
		if one.plan.Strategy[:2] == "zk" && c.link[server.ZooKeeper] == nil {
			if os.Getenv("REQUIRE_BACKENDS") == "1" {
				t.Error(c.stack.Missing()["zookeeper"])
			}
			continue
		}
		s.play(one)
	}
	if asking.ctx.Err() == nil {
		t.Error("the requests of the run before the first scene go on")
	}
	s.quiet()
}

// Each caption of a scene waits for the teacher, also one under which time has run. At the gate stands whose the lock
// is: A's, that of A whose lease is over, B's, and nobody's when B has sold, while A still believes that it has it.
func TestAFrozenHolder(t *testing.T) {
	c := lesson(t)
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1280, 720)
	s.begin("h")
	const holder = `(() => {
		const name = $v("#back .holder")
		return document.querySelector(".gate.free") && name !== "open" ? name + ", over" : name
	})()`
	want := []string{"open", "A", "A, over", "B", "open", "open"}
	for i, who := range want {
		s.until(fmt.Sprintf("stop %d, the lock: %s", i+1, who), fmt.Sprintf(`%s === %q &&
			document.querySelector("#scene").dataset.caption === "stop_frozen_unfenced_%d" &&
			document.querySelector("#b-next").classList.contains("main") === %v`, holder, who, i+1, i+1 < len(want)))
		if i+1 < len(want) {
			s.press(kb.ArrowRight)
		}
	}
	s.quiet()
}

// play plays a scene, and sees its point.
func (s *screen) play(one scene) {
	s.t.Helper()
	// A computer that stops for as long as a lease changes what happens. The wall says so, and the scene is played
	// again.
	for range 3 {
		ask[any](s, watching)
		s.begin(one.key)
		s.until(one.name+" is over", `$("#scene").classList.contains("done") && ($("#scene").dataset.caption ===
			"done_otherwise" || !$("#stops").textContent.includes("○"))`)
		if ask[string](s, `$("#scene").dataset.caption`) == fmt.Sprintf("stop_%s_%d", one.name, one.stops) {
			break
		}
	}
	for _, point := range points[one.name] {
		s.until(one.name+": "+point, "(() => {"+figuresOf+" return "+point+"})()")
	}
	for range 2 { // both languages, and back
		at := one.name + " " + ask[string](s, `document.documentElement.lang`)
		if bad := ask[[]string](s, clipped); len(bad) > 0 {
			s.t.Errorf("%s: %q", at, bad)
		}
		s.fits(at, 1280)
		s.press("e")
	}
}

// clipped lists the texts that are cut off or too small to be read at five metres, and what is not on the screen.
const clipped = `(() => {
	const bad = []
	const whole = '#heading, #verdict, #scene, #counts span, #line button'
	for (const e of document.querySelectorAll(whole + ', .figure')) {
		if (e.scrollWidth > e.clientWidth + 1) bad.push('cut off: ' + e.textContent)
	}
	for (const e of document.querySelectorAll(whole + ', .figure > *')) {
		if (parseFloat(getComputedStyle(e).fontSize) < 20) bad.push('small: ' + e.textContent)
	}
	for (const e of document.querySelectorAll('#picture text')) {
		const box = e.getBoundingClientRect()
		if (box.left < 0 || box.right > 1280 || box.bottom > 720) bad.push('outside: ' + e.textContent)
		if (Number(e.getAttribute('font-size')) < 20) bad.push('small: ' + e.textContent)
	}
	for (const e of document.querySelectorAll('#verdict, #counts, #stops')) {
		if (e.getBoundingClientRect().right > 1262) bad.push('outside: ' + e.textContent)
	}
	if (document.querySelector('#scene.long')) bad.push('a caption in two lines')
	if (document.documentElement.scrollHeight > innerHeight) bad.push('the page does not fit')
	return bad
})()`

// "Next scene" follows the hour of the documents, in both languages.
func TestScenesFollowTheHour(t *testing.T) {
	keys := ""
	for _, s := range scenes() {
		keys += strings.ToUpper(s.key) + " "
	}
	known := regexp.MustCompile("^[" + strings.ReplaceAll(keys, " ", "") + "]$")
	for file, head := range map[string]string{"class.md": "## One hour", "class.zh-CN.md": "## 一小时"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		_, hour, ok := strings.Cut(string(text), head)
		if !ok {
			t.Fatalf("%s has no %s", file, head)
		}
		hour, _, _ = strings.Cut(hour, "\n## ")
		played := ""
		for _, line := range strings.Split(hour, "\n") {
			cells := strings.Split(line, "|")
			if len(cells) < 4 {
				continue
			}
			for _, word := range regexp.MustCompile(`[A-Za-z0-9]+`).FindAllString(cells[2], -1) {
				if known.MatchString(word) {
					played += word + " "
				}
			}
		}
		if played != keys {
			t.Errorf("%s plays %s, and next scene %s", file, played, keys)
		}
	}
}
