package class

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/servertest"
)

// live opens the wall of a load, and closes it after the test.
func live(t *testing.T) *Live {
	t.Helper()
	l, err := ShowLive("127.0.0.1:0", "en")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // also when there is no browser
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// tell gives a wall a history in pieces, as a load writes it.
func tell(t *testing.T, l *Live, text string) {
	t.Helper()
	for len(text) > 0 {
		n := min(5000, len(text))
		if _, err := l.Write([]byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
}

// The page of a load shows the requests as they are answered, and in the end what the judge says; it keeps that when
// the load is over.
func TestALoadIsSeenLive(t *testing.T) {
	h, text := loaded(t, "none")
	l := live(t)
	s := look(t, l.URL())
	s.open(l.URL()+"?lang=en", 1366, 900)
	select {
	case <-l.Opened():
	case <-time.After(time.Minute):
		t.Fatal("nobody has noticed that the page is open")
	}
	half := strings.Index(text[len(text)/3:], "\n") + len(text)/3 - 40 // in the middle of a line
	tell(t, l, text[:half])
	l.Progress(loadtest.Progress{Done: 70, SoldRate: 812, Rate: 900, P50MS: 7})
	s.until("half of it is shown",
		`document.querySelectorAll(".tok").length > 5 && document.querySelectorAll(".app").length === 3`)
	s.until("the rate is shown", `document.querySelector("#scene").textContent.startsWith("812 sold/s")`)
	tell(t, l, text[half:])
	l.Judged(h.Result())
	v := h.Judge()
	end := figures(fmt.Sprint(v.RemainingUnits, v.AcceptedUnits, v.OversoldUnits, v.LostUnits))
	s.until("the end is shown", end)
	s.until("it is red", race)
	s.press("f") // there is nothing to control
	s.fits("live", 1366)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.until("it stays", end)
	s.quiet()
}

// A load of any length keeps the page small: what is shown no more is taken away. A second load begins anew, and a line
// that is none is counted.
func TestALiveWallStaysSmall(t *testing.T) {
	l := live(t)
	shown := func() (requests, points int) {
		l.seats.Lock()
		defer l.seats.Unlock()
		page := map[string]string{}
		for key := range l.shown {
			page[key] = ""
		}
		return under(page, "t:"), under(page, "p:")
	}
	requests := servertest.Rounds(5000, 1000)
	for run := range 2 {
		var text strings.Builder
		if err := loadtest.WriteHistory(&text, long(requests)); err != nil {
			t.Fatal(err)
		}
		tell(t, l, text.String())
		drawn, points := shown()
		if drawn > liveDrawn+1 || drawn < liveDrawn || points > livePoints+1 || points < livePoints {
			t.Errorf("load %d: %d requests and %d points are shown", run, drawn, points)
		}
		if v := l.frames.state.Verdict(); v.Sold != int64(requests) || v.Collisions != 1 || v.Dropped != 0 {
			t.Errorf("load %d: %+v", run, v)
		}
	}
	h, _ := loaded(t, "none")
	header, err := json.Marshal(h.Header)
	if err != nil {
		t.Fatal(err)
	}
	tell(t, l, strings.Replace(string(header), `"format":""`, `"format":"x"`, 1)+"\n")
	if requests, points := shown(); requests != 0 || points != 1 {
		t.Errorf("after the first line of another load %d requests and %d points are shown", requests, points)
	}
	tell(t, l, "what is this\n")
	if l.frames.state.Verdict().Dropped != 1 {
		t.Errorf("%+v", l.frames.state.Verdict())
	}
}
