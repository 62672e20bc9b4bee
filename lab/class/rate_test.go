package class

import (
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// Requests that would be too many at once are not sent, and that is said.
func TestWhatIsNotSentIsCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	if err := c.Pause(true); err != nil {
		t.Fatal(err)
	}
	if err := c.Fire(RunPlan{Strategy: "none", Store: "redis", Stock: 1000, Rate: 200, Seconds: 2}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "the rate has ended", func() (bool, string) {
		c.mu.Lock()
		sent, left := c.sent, c.left
		c.mu.Unlock()
		var last RunEvent
		c.look(func(s *State) { last = s.ofRun[rating] })
		return !last.On && last.Count+uint64(sent) == 400 && left <= maxOpen, fmt.Sprint(last, sent, left)
	})
	if err := c.Pause(false); err != nil {
		t.Fatal(err)
	}
}

// Of a run with many requests the page gets the latest and those that have waited longest; the figures count all. So
// does the file of the run.
func TestALongRateStaysSmall(t *testing.T) {
	plan := RunPlan{Strategy: "none", Rate: 100}
	events := []RunEvent{{At: 1, From: class, Seq: 1, Kind: runBegan, Run: 1, Plan: &plan}}
	const requests = 3000
	for n := 1; n <= requests; n++ {
		id, at := nameOf(1, n), int64(n*1000)
		events = append(events, RunEvent{At: at, From: class, Seq: uint64(2 * n), Kind: fired, Run: 1, Req: id})
		if n == 7 {
			continue // it never ends
		}
		for i, kind := range []string{"acquired", "wrote", "ended"} {
			e := RunEvent{
				At: at + int64(i), From: "app-1", Boot: 1, Seq: uint64(3*n + i), Kind: kind, Req: id, Epoch: 1,
				Version: uint64(n - n%2), Fence: fmt.Sprint(n),
			}
			if kind == "ended" {
				e.Outcome = accepted
			}
			events = append(events, e)
		}
		events = append(events, RunEvent{
			At: at + 9, From: class, Seq: uint64(2*n + 1), Kind: answered, Run: 1, Req: id, Outcome: accepted,
		})
	}
	events = append(events, RunEvent{At: requests*1000 + 99, From: class, Seq: 3*requests + 1, Kind: crowd, Crowd: 5})
	r := record(events, drawnLatest)
	page := pageOf(r.Frames)
	if n := under(page, "t:"); n != drawnLatest+1 || page["t:"+nameOf(1, 7)] == "" ||
		page["t:"+nameOf(1, requests)] == "" {
		t.Errorf("%d requests are drawn, want the last %d and number 7", n, drawnLatest)
	}
	if page["drawn_last"] != fmt.Sprintf(`{"n":%d,"of":%d}`, drawnLatest+1, requests) {
		t.Errorf("it says %s", page["drawn_last"])
	}
	// 2 and 3 have read the same, 4 and 5, and so on. 7 has not sold.
	if v := r.Verdict; v.Collisions != requests/2-2 || v.Open != 1 {
		t.Errorf("%+v, want %d collisions", v, requests/2-2)
	}
	if page["crowd"] == "" {
		t.Error("the last event is not shown")
	}
	if len(r.Frames) > 2*fewFrames {
		t.Errorf("%d frames", len(r.Frames))
	}
}
