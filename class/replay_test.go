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

// The player shows the verdict of the run, on a server and as one file; both go back and forward.
func TestAReplayShowsTheSame(t *testing.T) {
	r, err := ReadRecording(strings.NewReader(tapeOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Replay(r, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "run.html")
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	s := look(t, p.URL(), "file://"+path)
	for _, address := range []string{p.URL(), "file://" + path} {
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
