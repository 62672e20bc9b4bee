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

// A run and a history of stock load, which has its judge's words, play on a server and as one file: to the end, back to
// the beginning, event by event and by themselves.
func TestRunsAreReplayed(t *testing.T) {
	run, err := ReadRecording(strings.NewReader(tapeOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	s, addresses := played(t, run)
	for _, address := range addresses {
		s.replays(address+"?lang=en", "1 0 0 0", "0 2 1 1")
		for range 60 {
			s.press(kb.ArrowRight)
		}
		s.until("event by event to the end", figures("0 2 1 1"))
	}
	s.quiet()
	h, text := loaded(t, "none")
	load, err := ReadLoad(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	v := h.Judge()
	s, addresses = played(t, load)
	s.replays(addresses[0]+"?lang=zh", "100 0 0 0",
		fmt.Sprint(v.RemainingUnits, v.AcceptedUnits, v.OversoldUnits, v.LostUnits))
	s.press(kb.End)
	s.until("the judge's words", fmt.Sprintf(`$v("#scene") === %q`, v.Sentence.In("zh")))
	s.until("overlaps and instances are drawn", `document.querySelector("#back [fill*=redbar]") &&
		["app-1", "app-2", "app-3"].every(n => $v("#back").includes(n))`)
	s.quiet()
}

// replays plays what an address shows, and leaves it at its beginning.
func (s *screen) replays(address, first, last string) {
	s.t.Helper()
	s.open(address, 1366, 900)
	s.until("the end is shown", race+" && "+figures(last))
	s.fits("player", 1366)
	s.press(kb.Home)
	s.until("it has not begun", figures(first))
	ask[any](s, `document.querySelector("#p-play").click(); null`)
	s.until("it has played to the end", figures(last))
	s.press(kb.Home)
	s.until("it begins again", figures(first))
}

// What a run showed when it was real, its file says again: one loses updates, and one at a rate is right.
func TestARealRunIsRead(t *testing.T) {
	c := lesson(t)
	for _, plan := range []RunPlan{
		{Strategy: "none", Store: "redis", Stock: 100, Requests: 20, ThinkMS: 50},
		{Strategy: "atomic", Store: "redis", Stock: 100, Rate: 60, Seconds: 1},
	} {
		if err := c.Fire(plan); err != nil {
			t.Fatal(err)
		}
		seen := c.rest(t)
		want := map[string]string{"none": "race", "atomic": "kept"}[plan.Strategy]
		if seen.Code != want || seen.Sold != int64(plan.Requests+plan.Rate*plan.Seconds) {
			t.Errorf("%s: %+v, want %s, and that each request has sold", plan.Strategy, seen, want)
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
	}
	teacher := visit(t, c.wallBase())
	if status, _ := teacher.ask("POST", "/api/enter", fmt.Sprintf(`{"token":%q}`, c.wall.token)); status != 200 {
		t.Fatal(status)
	}
	status, page := teacher.ask("GET", "/api/replay.html", "")
	if status != 200 || !strings.Contains(page, `"strategy":"atomic"`) || !strings.HasSuffix(page, "</html>") {
		t.Errorf("%d, %d bytes", status, len(page))
	}
}
