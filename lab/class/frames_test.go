package class

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// A crowd of requests as instances tell them: how many events a second, of how many requests at a time.
const (
	crowdEvents = 2000
	crowdTokens = 100
)

// crowdSteps are those of one request, in turn: the class sends it and gets the reply, its instance tells the rest.
var crowdSteps = [...]string{
	fired, "arrived", "waits", "acquired", "read", "thinks", "writes", "wrote", "released", "ended", answered,
}

// A feed makes the events of a run without servers.
type feed struct {
	*board
	apps []string
	fed  int
}

// run feeds until ctx ends. A step is due at its own time.
func (f *feed) run(ctx context.Context) {
	const rate = float64(crowdEvents) / float64(len(crowdSteps)) // requests a second
	const pace = crowdTokens / rate / float64(len(crowdSteps)-1) // seconds between two steps of a request
	began := time.Now()
	var next []int // the step to come, by request
	for oldest := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		now := time.Since(began).Seconds()
		for float64(len(next))/rate <= now {
			next = append(next, 0)
		}
		for n := oldest; n < len(next); n++ {
			for next[n] < len(crowdSteps) && float64(n)/rate+pace*float64(next[n]) <= now {
				f.step(n+1, next[n])
				next[n]++
			}
		}
		for oldest < len(next) && next[oldest] == len(crowdSteps) {
			oldest++
		}
	}
}

func (f *feed) step(n, step int) {
	f.fed++
	e := RunEvent{
		Kind: crowdSteps[step], Run: 1, Req: nameOf(1, n), Read: int64(9999 - n/2), Remaining: int64(9998 - n/2),
		Epoch: 1, Version: uint64(n / 2),
	}
	if e.Kind == answered || e.Kind == "ended" {
		e.Outcome = accepted
	}
	if e.Kind == fired || e.Kind == answered {
		f.note(e)
		return
	}
	e.At, e.From, e.Boot, e.Seq = time.Now().UnixMicro(), f.apps[n%len(f.apps)], 1, uint64(f.fed)
	f.tell(e)
}

// It prints how the wall draws 2,000 events a second of 100 requests at a time: see make class-bench. It demands
// nothing: a test cannot know what else its computer does.
func TestFrames(t *testing.T) {
	if os.Getenv("CLASS_FRAMES") == "" {
		t.Skip("CLASS_FRAMES is not set: make class-bench")
	}
	f := &feed{board: newBoard(newRecorder("")), apps: []string{"app-1", "app-2", "app-3"}}
	plan := RunPlan{Strategy: "none", Store: "redis", Scope: "none", Rate: maxRate}
	f.note(RunEvent{Kind: runBegan, Run: 1, Plan: &plan})
	f.note(RunEvent{Kind: stockSeen, Run: 1, Stock: &StockSeen{true, 9999, 9999, 0}})
	about, err := json.Marshal(map[string]any{
		"lang": "en", "apps": f.apps, "servers": []string{"redis"}, "scenes": []string{},
		"strategies": []map[string]any{{"name": "none", "stores": []string{"redis"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := wallMux()
	mux.HandleFunc("GET /api/stream", f.serveFrames)
	mux.HandleFunc("GET /api/class", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(about) })
	wall, err := openSite("127.0.0.1:0", mux)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	fed := make(chan struct{})
	go func() { defer close(fed); f.run(ctx) }()
	t.Cleanup(func() {
		end()
		<-fed
		if err := wall.close(); err != nil {
			t.Error(err)
		}
	})
	s := look(t, "http://"+wall.addr())
	s.open("http://"+wall.addr()+"/?lang=en", 1920, 1080)
	s.until("a hundred are under way", `document.querySelectorAll(".tok").length > 40`)
	s.measure(10 * time.Second)
	end()
	<-fed
	t.Logf("%d cores, %d events in all", runtime.NumCPU(), f.fed)
	s.quiet()
}

// measure logs the time between two frames, and the share of a core that the page's thread works.
func (s *screen) measure(long time.Duration) {
	s.t.Helper()
	cost := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if _, err := chromedp.Call(s, performance.Enable, cost); err != nil {
		s.t.Fatal(err)
	}
	before := s.work()
	ask[any](s, fmt.Sprintf(`window.gaps = []
		let last = performance.now(), end = last + %d
		const tick = (now) => {
			gaps.push(now - last)
			last = now
			if (now < end) requestAnimationFrame(tick)
			else window.measured = true
		}
		requestAnimationFrame(tick)
		null`, long.Milliseconds()))
	s.until("the time is over", `window.measured`)
	after, gaps := s.work(), slices.Sorted(slices.Values(ask[[]float64](s, `gaps.slice(1)`)))
	n := len(gaps)
	s.t.Logf("%.0f frames a second; between two, median, 95 %%, longest: %.1f ms, %.1f ms, %.1f ms",
		float64(n)/long.Seconds(), gaps[n/2], gaps[n*95/100], gaps[n-1])
	for _, name := range []string{"TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"} {
		s.t.Logf("%s: %.0f %% of a core", name, 100*(after[name]-before[name])/long.Seconds())
	}
}

func (s *screen) work() map[string]float64 {
	s.t.Helper()
	seen, err := chromedp.Call(s, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		s.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, m := range seen.Metrics {
		values[m.Name] = m.Value
	}
	return values
}
