package class

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"example.com/stock/lock/locktest/server"
)

// points are what a class must see of each scene without a word from the teacher: expressions that are true of the page
// when the scene is over. Each scene also has a caption for every phase.
var points = map[string][]string{
	"no_lock": {
		`lost > 0 && stock === 100 - sold + lost`, // a busy computer may refuse some
		`Number($("#ties").dataset.ties) > 0 && /both read \d+/.test($("#ties").textContent)`,
		`Number($("#holds").dataset.overlap) > 0`,
	},
	"two_buyers": {
		`sold === 2 && oversold === 1`, `$("#ties").textContent.includes("A + B: both read 1")`,
		`tok(1).classList.contains("twin") && tok(2).classList.contains("twin")`,
	},
	"mutex_one":   {`sold === 30 && stock === 70 && lost === 0`, `Number($("#holds").dataset.overlap) === 0`},
	"mutex_three": {`lost > 0`, `Number($("#holds").dataset.overlap) > 0`},
	"watchdog": {
		`sold === 2 && stock === 8`, `Number(seen.renewals) > 0`, `/renewed [1-9]/.test($("#cap").textContent)`,
	},
	"killed_holder": {
		`sold === 5 && stock === 5`, `tok(1).classList.contains("no")`, `seen.killed && seen.over`,
	},
	"frozen_fenced": {
		`sold === 1 && stock === 9 && lost === 0`, `tok(1).textContent.includes("refused: fence 1 < 2")`,
		`count("late") === 1`, `seen.over`,
	},
	"frozen_unfenced": {`sold === 2 && stock === 9 && lost === 1`, `seen.over`, `tok(1).textContent.includes("10→9")`},
	"herd":            {`sold === 20 && stock === 80`, `count("wakes") > 100`},
	"queue":           {`sold === 20 && stock === 80`, `count("wakes") < 40`},
	"redis_dies":      {`lost === 0 && sold > 0`, `seen.dead`, `!$("#cap").textContent.includes("Redis is dead")`},
	"same_key":        {`sold === 2 && stock === 8`, `tok(2).textContent.includes("↻")`},
	"atomic":          {`sold === 50 && stock === 0`, `count("writes") === 50`, `count("sold_out") === 50`},
	"merged":          {`sold === 50 && stock === 0`, `count("writes") < 50`},
}

// refuses are the scenes in which requests are refused.
var refuses = map[string]bool{"killed_holder": true, "frozen_fenced": true, "redis_dies": true}

// watching is a script that notes what is shown for a moment only.
const watching = `
	window.seen = {phases: []}
	window.$ = (selector) => document.querySelector(selector)
	window.tok = (n) => $('.tok[data-req$=".' + n + '"]')
	window.count = (key) => Number($('#counts [data-count="' + key + '"] b')?.textContent ?? 0)
	clearInterval(window.watch)
	window.watch = setInterval(() => {
		const phase = $("#scene").className
		if (seen.phases.at(-1) !== phase) seen.phases.push(phase)
		for (const e of document.querySelectorAll(".lease")) {
			if (Number(e.dataset.times) > 0) seen.renewals = e.dataset.times
			if (e.classList.contains("over")) seen.over = true
		}
		if ($(".app.killed")) seen.killed = true
		if ($("#scene").dataset.caption === "watch_redis_dies_dead") seen.dead = true
		if ($("#holds").dataset.ahead === "true") seen.ahead = true
	}, 20)
	null`

// phases is true if the scene's captions were seen in their order.
const phases = `seen.phases.join(" ").includes("before watch done")`

// figuresOf gives points the large figures by name.
const figuresOf = `
	const [stock, sold, oversold, lost] = [...document.querySelectorAll(".figure b")].map(b => Number(b.textContent));`

// In the order of the hour in docs/class.md, each scene begins while the run before it still sells, and shows its point
// on a projector of any size, in both languages, in one minute and without the teacher.
func TestTheHour(t *testing.T) {
	list := scenes()
	var c *Class
	if testing.Short() {
		c = lesson(t)
		list = slices.DeleteFunc(list, func(s scene) bool { return s.name != "two_buyers" })
	} else {
		c = own(t, func(o *Options) { o.Want, o.pace = []server.Kind{server.Redis, server.ZooKeeper}, 0.25 })
	}
	s := look(t, c.wallBase())
	s.open(c.wallBase()+"/?lang=en&show=1#"+c.wall.token, 1280, 720)
	slow := RunPlan{Strategy: "redis-setnx", Store: "redis", Stock: 40, Requests: 30, ThinkMS: 700}
	if err := c.Fire(slow); err != nil { // minute 5 of the hour
		t.Fatal(err)
	}
	s.until("it sells", `document.querySelector("#scene.watch")`)
	for _, one := range list {
		if one.plan.Strategy[:2] == "zk" && c.link[server.ZooKeeper] == nil {
			if os.Getenv("REQUIRE_BACKENDS") == "1" {
				t.Error(c.stack.Missing()["zookeeper"])
			}
			continue
		}
		s.play(one)
	}
	s.quiet()
}

// play plays a scene, and sees its point.
func (s *screen) play(one scene) {
	s.t.Helper()
	// A computer that stops for as long as a lease changes what happens. The wall says so, and the scene is played
	// again. So is one that sells all within the interval between two captions.
	for range 3 {
		ask[any](s, watching)
		s.begin(one.key)
		s.until(one.name+" is over", `$("#scene").classList.contains("done") &&
			$("#scene").dataset.caption.startsWith("done_")`)
		if raced := ask[bool](s, race); raced != raceExpected(one.name) {
			s.t.Errorf("%s: race %v: %s", one.name, raced, ask[string](s, shown))
		}
		// Nobody is refused, except by a server that died or a fence, unless the computer is too slow: a session of
		// ZooKeeper is lost, or a store does not answer in time.
		whole := refuses[one.name] || ask[bool](s, `count("refused") === 0`)
		if ask[string](s, `$("#scene").dataset.caption`) == "done_"+one.name && ask[bool](s, phases) && whole {
			break
		}
	}
	for _, point := range points[one.name] {
		s.until(one.name+": "+point, "(() => {"+figuresOf+" return "+point+"})()")
	}
	s.until(one.name+" has a caption for each phase", phases)
	if ask[bool](s, `Boolean(seen.ahead)`) {
		s.t.Errorf("%s: an open hold was drawn beyond now", one.name)
	}
	if plan := ask[string](s, `strategy.value`); plan != one.plan.Strategy {
		s.t.Errorf("%s: the controls say %s", one.name, plan)
	}
	for _, size := range [][2]int64{{1280, 720}, {1366, 768}, {1920, 1080}} {
		if err := chromedp.Do(s, chromedp.EmulateViewport(size[0], size[1])); err != nil {
			s.t.Fatal(err)
		}
		for range 2 { // both languages, and back
			at := fmt.Sprintf("%s %d %s", one.name, size[0], ask[string](s, `document.documentElement.lang`))
			s.projected(at)
			if one.name == "queue" || testing.Short() { // which has the longest title
				s.press("o")
				s.until("the list is open", `document.querySelector("#scenes").open`)
				s.projected(at + " list")
				s.press("o")
			}
			s.press("e")
		}
	}
	if err := chromedp.Do(s, chromedp.EmulateViewport(1280, 720)); err != nil {
		s.t.Fatal(err)
	}
}

// clipped lists the texts that are cut off, and the parts that do not fit.
const clipped = `(() => {
	const bad = []
	const box = (e) => e.getBoundingClientRect()
	const room = {
		'#heading': '#what', '#verdict': '#what', '#cap': '#scene', '#why': '#scene', '#counts span': '#story',
		'.figure h2': '.figure', '.figure b': '.figure', '.figure p': '.figure', '.lane span': '.lane',
		'.tok b': '.tok', '.tok span': '.tok', '.tok em': '.tok', '.lease span': '.lease',
		'.app > header *': 'header', 'figcaption *': 'figure', '#dropped': '#top', '#top kbd': '#top button',
		'.server > *': '.server', '#ties text': '#ties', '#scenes[open] li button': 'button',
	}
	for (const [text, around] of Object.entries(room)) {
		for (const e of document.querySelectorAll(text)) {
			if (!e.checkVisibility() || e.textContent === '') continue
			const range = document.createRange()
			range.selectNodeContents(e)
			const [a, b] = [box(range), box(e.closest(around))]
			const spare = text === '.figure b' ? 30 : 4 // digits have no descenders
			if (a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - spare || a.bottom > b.bottom + spare) {
				bad.push(text + ': ' + e.textContent)
			}
		}
	}
	for (const e of document.querySelectorAll('canvas')) {
		if (box(e).bottom > innerHeight || box(e).height < 60) bad.push(e.id + ' is below the fold or too small')
	}
	if (document.documentElement.scrollHeight > innerHeight) bad.push('the page scrolls')
	const line = parseFloat(getComputedStyle(document.querySelector('#verdict')).lineHeight)
	if (box(document.querySelector('#what')).height > 3.2 * line) bad.push('the header has more than three lines')
	const list = document.querySelector('#scenes')
	if (list.open && (list.scrollHeight > list.clientHeight || box(list).top < 0 || box(list).bottom > innerHeight)) {
		bad.push('the list of scenes is not whole')
	}
	if (document.querySelector('#controls').checkVisibility()) bad.push('the controls are shown')
	return bad
})()`

// projected fails if something of the page in show mode is clipped, or is not on the screen.
func (s *screen) projected(what string) {
	s.t.Helper()
	ask[any](s, `window.drawn = false
		requestAnimationFrame(() => requestAnimationFrame(() => window.drawn = true))
		null`)
	s.until(what+" is drawn", `window.drawn`)
	if bad := ask[[]string](s, clipped); len(bad) > 0 {
		s.t.Errorf("%s: %q", what, bad)
	}
	s.fits(what, 1920)
}

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
