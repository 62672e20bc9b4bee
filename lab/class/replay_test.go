package class

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// tapeOf is the file of a recorded run.
func tapeOf(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	for _, name := range []string{class, "app-2", "app-1"} {
		for _, e := range recorded()[name] {
			if err := json.NewEncoder(&out).Encode(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out.String()
}

func TestARecordingIsRead(t *testing.T) {
	r, err := ReadRecording(strings.NewReader(tapeOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Verdict; v.Code != "race" || v.Oversold != 1 || v.Lost != 1 || fmt.Sprint(r.Apps) != "[app-1 app-2]" {
		t.Errorf("%+v %v", v, r.Apps)
	}
	for i := range r.Frames[1:] {
		if r.Frames[i].At > r.Frames[i+1].At {
			t.Error("time goes back")
		}
	}
	for _, row := range []struct{ text, want string }{
		{"", `no line has kind "run"`},
		{"{\n", "line 1: "},
		{"\n[]\n", "line 2: "},
		{`{"at":1,"from":"class","kind":"run"}`, "line 1: a run has a plan"},
		{`{"at":1,"from":"class","kind":"stock"}`, "line 1: stock is missing"},
		{`{"from":"class","kind":"run","plan":{}}`, "line 1: an event has at"},
		{`{"at":1,"from":"class","kind":"crowd"}`, `no line has kind "run"`},
	} {
		_, err := ReadRecording(strings.NewReader(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %s", row.text, err, row.want)
		}
	}
}

// A file from elsewhere is refused with its line, or read: it does not end the program.
func FuzzReadRecording(f *testing.F) {
	f.Add(tapeOf(f))
	f.Add(`{"at":1,"from":"x","kind":"read","req":"r1.1"}` + "\n" + `{"at":1,"from":"class","kind":"run","plan":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 20_000 {
			t.Skip("long, and no different")
		}
		r, err := ReadRecording(strings.NewReader(text))
		if err == nil {
			err = r.WriteHTML(&bytes.Buffer{})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// played opens what can be shown in the player and as one file, and returns a browser with the addresses of both.
func played(t *testing.T, show *Recording) (s *screen, addresses []string) {
	t.Helper()
	p, err := Replay(show, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	var page bytes.Buffer
	if err := show.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	addresses = []string{p.URL(), "file://" + path}
	return look(t, addresses...), addresses
}

// The player shows the verdict of the run, on a server and as one file; both go back and forward.
func TestAReplayShowsTheSame(t *testing.T) {
	r, err := ReadRecording(strings.NewReader(tapeOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	s, addresses := played(t, r)
	for _, address := range addresses {
		s.open(address+"?lang=en", 1366, 900)
		s.until("the end is shown", figures("0 2 1 1"))
		s.until("it is red", race)
		s.press(kb.Home)
		s.until("it has not begun", figures("1 0 0 0"))
		for range 60 {
			s.press(kb.ArrowRight)
		}
		s.until("event by event to the end", figures("0 2 1 1"))
		s.press(kb.Home)
		ask[any](s, `document.querySelector("#p-play").click(); null`)
		s.until("it has played to the end", figures("0 2 1 1"))
		s.fits("player", 1366)
	}
	s.quiet()
}

// A history of stock load plays as a run of a class does: with the judge's verdict, to the beginning, and to the end.
func TestALoadIsReplayed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	h, text := loaded(t, "none")
	r, err := ReadLoad(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s, addresses := played(t, r)
	s.open(addresses[0]+"?lang=zh", 1366, 900)
	v := h.Judge()
	end := figures(fmt.Sprint(v.RemainingUnits, v.AcceptedUnits, v.OversoldUnits, v.LostUnits))
	s.until("the end is shown", end)
	s.until("it is red, in the judge's words", race+` && document.querySelector("#verdict").textContent.includes("`+
		v.Sentence.In("zh")+`")`)
	s.until("overlaps are drawn", `Number(document.body.dataset.overlap) > 0`)
	s.until("instances are there", `["app-1", "app-2", "app-3"].every(n => document.querySelector("#back").textContent.includes(n))`)
	s.press(kb.Home)
	s.until("it has not begun", figures("100 0 0 0"))
	ask[any](s, `document.querySelector("#p-play").click(); null`)
	s.until("it has played to the end", end)
	s.fits("a load", 1366)
	s.quiet()
}

// What a run showed when it was real, its file shows again: every figure and the sentence, on the wall, in the player
// and as one file. One run loses updates, and one at a rate is right.
func TestARealRunIsReplayed(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	s := look(t, c.wallBase(), "file://")
	s.open(c.wallBase()+"/?lang=en#"+c.wall.token, 1366, 900)
	for _, plan := range []RunPlan{
		{Strategy: "none", Store: "redis", Stock: 100, Requests: 20, ThinkMS: 50},
		{Strategy: "atomic", Store: "redis", Stock: 10, Rate: 60, Seconds: 1},
	} {
		if err := c.Fire(plan); err != nil {
			t.Fatal(err)
		}
		seen := c.rest(t)
		if code := map[string]string{"none": "race", "atomic": "kept"}[plan.Strategy]; seen.Code != code {
			t.Errorf("%s: %+v, want %s", plan.Strategy, seen, code)
		}
		text, err := c.recorder.read()
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadRecording(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != seen {
			t.Errorf("%s: the file says %+v\nand the wall has said %+v", plan.Strategy, r.Verdict, seen)
		}
		end := figures(fmt.Sprint(seen.Written, seen.Sold, seen.Oversold, seen.Lost))
		s.until("the wall shows the end", end+fmt.Sprintf(` && document.body.dataset.verdict === %q`, seen.Code))
		const said = `[document.querySelector("#verdict"), document.querySelector("#heading"),
			...document.querySelectorAll(".figure p")].map(e => e.textContent).join("|")`
		live := ask[string](s, said)
		s.press("i")
		s.until("the run is seen again", `document.body.dataset.ready && !document.querySelector("#player").hidden`)
		s.until("with the same figures", end)
		if again := ask[string](s, said); again != live {
			t.Errorf("%s: again %s\nlive  %s", plan.Strategy, again, live)
		}
		s.fits("again "+plan.Strategy, 1366)
		s.press(kb.Escape)
		s.until("the wall is back", `document.body.dataset.ready && document.querySelector("#player").hidden`)
	}
	teacher := visit(t, c.wallBase())
	if status, _ := teacher.ask("POST", "/api/enter", fmt.Sprintf(`{"token":%q}`, c.wall.token)); status != 200 {
		t.Fatal(status)
	}
	status, page := teacher.ask("GET", "/api/replay.html", "")
	if status != 200 || !strings.Contains(page, `"strategy":"atomic"`) || !strings.HasSuffix(page, "</html>") {
		t.Errorf("%d, %d bytes", status, len(page))
	}
	s.quiet()
}
