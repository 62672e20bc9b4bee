package class

import (
	"strings"
	"testing"
)

// The same key twice sells once, in a scene, from the menu of a request and by a phone whose button is pressed twice.
// The second is marked in both languages, and nobody takes it for a sale that has read what another had read.
func TestTheSameKeySellsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	s := look(t, c.wallBase(), c.schoolBase())
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1366, 900)
	c.auto.Store(true)
	defer c.auto.Store(false)
	s.begin("6")
	second := `document.querySelector('.tok[data-req$=".2"]')`
	s.until("the second is marked", second+`?.classList.contains("replayed")`)
	s.until("the third is a sale", `document.querySelector('.tok[data-req$=".3"]')?.classList.contains("sold")`)
	s.until("two are sold", figures("8 2 0 0"))
	label := ask[string](s, second+`.getAttribute("aria-label")`)
	if !strings.Contains(label, "sent with the key of request 1") ||
		!strings.Contains(label, "nothing was sold again") {
		t.Error(label)
	}
	ask[any](s, second+`.click(); document.querySelector("#menu-again").click(); null`)
	s.until("again from the menu", `document.querySelector('.tok[data-req$=".4"]')?.classList.contains("replayed")`)
	if v := c.rest(t); v.Code != "kept" || v.Sold != 2 || v.Collisions != 0 {
		t.Errorf("%+v", v)
	}
	s.press("e")
	s.until("in Chinese", second+`.getAttribute("aria-label").includes("与请求 1 用同一个键")`)

	s.open(c.schoolBase()+"/join?lang=en#"+c.school.code, 390, 900)
	ask[any](s, `document.querySelector("#name").value = "x"; document.querySelector("form").requestSubmit(); null`)
	s.until("the button is there", `!document.querySelector("#shop").hidden`)
	ask[any](s, `buy.click(); buy.click(); null`)
	s.until("bought once", `document.querySelector("#own").textContent.includes("You have one") &&
		document.querySelectorAll("#own li").length === 2`)
	if v := c.rest(t); v.Sold != 3 {
		t.Errorf("a button that was pressed twice: %+v, want 3 sold in all", v)
	}
	s.quiet()
}

// A reply that was replayed is no sale, whoever says so first, the instance or the reply.
func TestAReplayedReplyIsNoSale(t *testing.T) {
	sale := RunEvent{From: "app-1", Kind: "ended", Outcome: accepted, Epoch: 5, Version: 7, Read: 3, Remaining: 2}
	first, again := sale, sale
	first.Seq, first.Req = 1, "r1.1"
	again.Seq, again.Req, again.Replayed = 2, "r1.2", true
	reply := RunEvent{From: class, Kind: answered, Run: 1, Req: "r1.2", Outcome: accepted, Replayed: true}
	for _, events := range [][]RunEvent{{first, again}, {first, reply}, {first, reply, again}, {again, first}} {
		s := NewState()
		for _, e := range events {
			s.Apply(e)
		}
		if v := s.Verdict(); v.Collisions != 0 || s.token("r1.1").Twin || s.token("r1.2").Twin {
			t.Errorf("%+v: %+v", events, v)
		}
		if it := s.token("r1.2"); !it.Replayed || it.Phase != "done" || it.Wrote != nil {
			t.Errorf("%+v", it)
		}
	}
}

// Steps that an instance has forgotten are counted, whatever has come before. Those that come twice are not told twice.
func TestMissedStepsAreCounted(t *testing.T) {
	s := NewState()
	var told []RunEvent
	src := &source{name: "app-1", tell: func(e RunEvent) { told = append(told, e); s.Apply(e) }}
	for _, text := range []string{
		`{"boot":1,"steps":[{"number":3,"at_us":1,"kind":"waits","request_id":"r1.1"}]}`,
		`{"boot":1,"steps":[{"number":3,"at_us":1,"kind":"waits","request_id":"r1.1"},
			{"number":4,"at_us":2,"kind":"read","request_id":"r1.1"},
			{"number":9,"at_us":3,"kind":"ended","request_id":"r1.1","outcome":"accepted","replayed":true}]}`,
		`{"boot":2,"steps":[{"number":1,"at_us":4,"kind":"waits","request_id":"r1.2"}]}`,
	} {
		if err := src.message([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if v := s.Verdict(); v.Dropped != 2+4 {
		t.Errorf("%+v, want 6 steps missed", v)
	}
	if len(told) != 6 || !told[4].Replayed {
		t.Errorf("%+v", told)
	}
}
