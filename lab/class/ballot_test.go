package class

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The teacher asks a prepared question and one of their own, without phones and with one. While the class votes,
// neither the wall nor a phone shows the verdict of the run before, and both name the run that the question is about. A
// question is at most two lines.
func TestAClassVotesAndBuys(t *testing.T) {
	c := lesson(t)
	if err := c.Fire(RunPlan{Strategy: "none", Store: "redis", Stock: 10, Requests: 8, ThinkMS: 300}); err != nil {
		t.Fatal(err)
	}
	if v := c.rest(t); v.Code != "race" {
		t.Fatalf("%+v", v)
	}
	wall, phone := look(t, c.wallBase()), look(t, c.schoolBase())
	wall.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1280, 720)
	wall.until("the verdict is shown", race+` && $v("#verdict").includes("Wrong") && $v("#figures")`)
	phone.open(c.schoolBase()+"/join?lang=en#"+c.school.code, 390, 900)
	const name = "Anna-Sophia1"
	ask[any](phone, `document.querySelector("#name").value = "`+name+`"
		document.querySelector("form").requestSubmit(); null`)
	phone.until("it shows strategy, stock and verdict", `$v("#run").includes("none") && $v("#run").includes("8 sold") &&
		$v("#verdict").includes("Wrong")`)

	for range 2 { // both languages, and back
		wall.press("ev")
		wall.until("questions are offered", `document.querySelector("#ask").open`)
		if bad := ask[[]string](wall, cutOff); len(bad) > 0 {
			t.Errorf("%q", bad)
		}
		wall.press(kb.Escape)
		wall.until("the dialog is closed", `!document.querySelector("#ask").open`)
	}
	wall.press("v")
	wall.until("questions are offered", `document.querySelector("#ask").open &&
		document.activeElement.textContent.startsWith("S 30 of 100")`)
	wall.press("\r")
	const hidden = `$v("#verdict") === "Vote first: the verdict is hidden."`
	wall.until("it is asked, and nothing answers it", hidden+` && $v("#scene").startsWith("30 of 100") &&
		document.querySelector("#f-sold b").textContent === "–" && $v("#back").includes("hands up")`)
	if bad := ask[[]string](wall, clipped); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
	phone.until("phones ask it, too", hidden+` && $v("#vote-question").startsWith("30 of 100") &&
		$v("#vote-about").includes("No lock") && !$v("#run").includes("sold")`)
	ask[any](phone, `document.querySelector("#choices button").click(); null`)
	wall.press("v")
	wall.until("hands are counted", `document.querySelector("#hands").open`)
	ask[any](wall, `document.querySelectorAll("#hands input")[0].value = 8
		document.querySelectorAll("#hands input")[1].value = 21
		document.querySelector("#hands-form").requestSubmit(); null`)
	phone.until("the vote is over", `!$v("#ballot") && $v("#verdict").includes("Wrong")`)
	wall.until("the answers are shown", `$v("#back").includes("21") && !$v("#back").includes("hands up")`)

	c.Auto(true)
	wall.begin("s")
	wall.until("the right answer is marked", `document.querySelector(".chart.right") && `+race)

	wall.press("v")
	ask[any](wall, `asked.value = "Is the lock <b>slower</b>?"
		document.querySelector("#ask-own").requestSubmit(); null`)
	wall.until("the teacher's own question", `$v("#scene") === "Is the lock <b>slower</b>?"`)
	phone.until("phones have it", `$v("#vote-question") === "Is the lock <b>slower</b>?"`)
	for _, asked := range []string{strings.Repeat("x", maxAsked+1), "a\x00b", "\xff"} {
		if err := c.Ask(Question{Asked: asked}); err == nil {
			t.Errorf("%.20q can be asked", asked)
		}
	}
	if err := c.Ask(Question{About: "nothing"}); err == nil {
		t.Error("a vote is about an unknown scene")
	}
	wall.whoCollides(c, phone, name)
	wall.quiet()
	phone.quiet()
}

// cutOff lists what is not whole on the screen, or has letters below 20 pixels, in the dialog with the questions.
const cutOff = `(() => {
	const dialog = document.querySelector("#ask")
	const box = dialog.getBoundingClientRect()
	const bad = [...dialog.querySelectorAll("p, span, button")].filter(e => e.scrollWidth > e.clientWidth + 1 ||
		parseFloat(getComputedStyle(e).fontSize) < 20).map(e => e.textContent)
	const whole = box.top >= 0 && box.bottom <= innerHeight && dialog.scrollHeight <= dialog.clientHeight
	return whole ? bad : [...bad, "the dialog: " + [box.top, box.bottom, dialog.scrollHeight, dialog.clientHeight]]
})()`

// A customer's name of 12 characters is on the request, and both customers who read the same version learn of each
// other: on the wall by a line, on the phone by name. A button that is pressed twice buys once.
func (s *screen) whoCollides(c *Class, phone *screen, name string) {
	s.t.Helper()
	if err := c.Fire(RunPlan{Strategy: "none", Store: "redis", Stock: 10, ThinkMS: 5000}); err != nil {
		s.t.Fatal(err)
	}
	phone.until("there is something to buy", `!document.querySelector("#buy").disabled && !$v("#own")`)
	c.fire(shot{who: "Maximilian12"})
	ask[any](phone, `buy.click(); buy.click(); null`)
	s.until("both names are on the wall", `["Maximilian12", "`+name+`"].every(n =>
		[...document.querySelectorAll(".tok text")].some(e => e.textContent === n))`)
	s.until("a line joins them", `$v("#front").includes("both read 10")`)
	phone.until("the phone names the other", `$v("#own").includes("and so has Maximilian12")`)
	if v := c.rest(s.t); v.Sold != 2 {
		s.t.Errorf("%+v, want one each", v)
	}
	if goodName(name+"3") || !goodName("十二个字的名字也可以显示") {
		s.t.Error("a name has at most 12 characters")
	}
}
