package class

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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

// A feed makes the events of a run without servers, and hands them to a wall as its sources do.
type feed struct {
	*board
	sources []*source
	numbers []uint64 // of the steps of each, guarded by board.mu
}

// crowdSteps are those of one request, in turn: the class sends it and gets the reply, its instance tells the rest.
var crowdSteps = [...]string{
	fired, "arrived", "waits", "acquired", "read", "thinks", "writes", "wrote", "released", "ended", answered,
}

// run feeds until ctx ends. A step is due at its own time, and those that are due at once come in one message.
func (f *feed) run(ctx context.Context) {
	const rate = float64(crowdEvents) / float64(len(crowdSteps)) // requests a second
	const stay = crowdTokens / rate                              // seconds that a request lasts
	began := time.Now()
	next := make(map[int]int) // the step to come, by request that is open
	for begun := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		now := time.Since(began).Seconds()
		for ; float64(begun)/rate <= now; begun++ {
			next[begun] = 0
		}
		messages := make([][]string, len(f.sources))
		for _, n := range slices.Sorted(maps.Keys(next)) {
			for next[n] < len(crowdSteps) && float64(n)/rate+stay*float64(next[n])/float64(len(crowdSteps)-1) <= now {
				f.step(n+1, crowdSteps[next[n]], messages)
				next[n]++
			}
			if next[n] == len(crowdSteps) {
				delete(next, n)
			}
		}
		for i, steps := range messages {
			if len(steps) > 0 {
				_ = f.sources[i].message([]byte(`{"boot":1,"steps":[` + strings.Join(steps, ",") + `]}`))
			}
		}
	}
}

func (f *feed) step(n int, kind string, messages [][]string) {
	id := nameOf(1, n)
	switch kind {
	case fired:
		f.note(RunEvent{Kind: kind, Run: 1, Req: id})
	case answered:
		f.note(RunEvent{Kind: kind, Run: 1, Req: id, Outcome: accepted})
		if n%8 == 0 {
			f.note(RunEvent{Kind: stockSeen, Run: 1, Stock: &StockSeen{true, 9999, int64(9999 - n/2), int64(n)}})
		}
	default:
		i := n % len(f.sources)
		f.board.mu.Lock()
		f.numbers[i]++
		number := f.numbers[i]
		f.board.mu.Unlock()
		outcome := map[bool]string{true: accepted}[kind == "ended"]
		messages[i] = append(messages[i], fmt.Sprintf(`{"number":%d,"at_us":%d,"kind":%q,"request_id":%q,"read":%d,`+
			`"remaining":%d,"epoch":1,"version":%d,"outcome":%q}`, number, time.Now().UnixMicro(), kind, id, 9999-n/2,
			9998-n/2, n/2, outcome))
	}
}

// frames are what a page has drawn in a time.
type frames struct {
	gaps                   []float64 // ms between two frames
	script, layout, styles float64   // shares of the time
	all                    float64
	fed                    int
	seconds                float64
	missed                 int    // frames of the class that the page was too slow for
	dropped                uint64 // steps
	cost                   *cost
}

// at returns the value that a share of a list is not above.
func at(share float64, list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// late is how many frames of a screen with 60 a second were not drawn.
func (f *frames) late() (n int) {
	for _, gap := range f.gaps {
		n += max(0, int(gap/(1000.0/60)+0.5)-1)
	}
	return n
}

// It prints how the wall draws 2,000 events a second of 100 requests at a time, and with CLASS_FRAMES=write puts that
// into docs/class.*: see make class-bench. It demands nothing: a test cannot know what else its computer does.
func TestFrames(t *testing.T) {
	how := os.Getenv("CLASS_FRAMES")
	if how == "" {
		t.Skip("CLASS_FRAMES is neither print nor write")
	}
	f := &feed{board: newBoard(func(RunEvent) {}), numbers: make([]uint64, 3)}
	apps := []string{"app-1", "app-2", "app-3"}
	for _, app := range apps {
		f.sources = append(f.sources, &source{name: app, tell: f.tell})
		f.note(RunEvent{Kind: standing, Server: app, State: "up"})
	}
	plan := RunPlan{Strategy: "none", Store: "redis", Scope: "none", Rate: maxRate}
	f.note(RunEvent{Kind: runBegan, Run: 1, Plan: &plan})
	about, err := json.Marshal(map[string]any{
		"lang": "en", "apps": apps, "servers": []string{"redis"}, "scenes": []string{},
		"strategies": []map[string]any{{"name": "none", "stores": []string{"redis"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wall, err := openSite("127.0.0.1:0", func(ctx context.Context) http.Handler {
		mux := pageMux(about)
		mux.HandleFunc("GET /api/stream", func(w http.ResponseWriter, r *http.Request) { f.serveFrames(ctx, w, r) })
		return mux
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.run(ctx) }()
	shown := make(chan struct{})
	go func() { defer close(shown); f.show(ctx.Done()) }()
	t.Cleanup(func() {
		end()
		<-done
		<-shown
		if err := wall.close(); err != nil {
			t.Error(err)
		}
	})
	s := look(t, "http://"+wall.addr())
	s.open("http://"+wall.addr()+"/?lang=en", 1920, 1080)
	s.until("a hundred are under way", `document.querySelectorAll(".tok").length > 40`)
	got := f.measure(s, 10*time.Second)
	got.cost = s.trace(5 * time.Second)
	s.quiet()
	t.Logf("%+v", struct {
		Median, P95, Longest            float64
		Drawn, Late, Missed             int
		Dropped                         uint64
		Script, Layout, Styles, AllWork float64
	}{
		at(.5, got.gaps), at(.95, got.gaps), at(1, got.gaps), len(got.gaps), got.late(), got.missed, got.dropped,
		got.script, got.layout, got.styles, got.all,
	})
	for lang, file := range map[string]string{"en": "class.md", "zh": "class.zh-CN.md"} {
		table := got.table(lang)
		fmt.Print(table)
		if how == "write" {
			between(t, filepath.Join("..", "..", "docs", file), "frames", table)
		}
	}
}

func (f *feed) measure(s *screen, long time.Duration) *frames {
	s.t.Helper()
	work := func() map[string]float64 {
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
	// The time of its thread on a core: what the page costs does not depend on who else wants the core.
	cost := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if _, err := chromedp.Call(s, performance.Enable, cost); err != nil {
		s.t.Fatal(err)
	}
	f.board.mu.Lock()
	fed := f.board.seq
	steps := f.numbers[0] + f.numbers[1] + f.numbers[2]
	f.board.mu.Unlock()
	before, began := work(), time.Now()
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
	after, took := work(), time.Since(began).Seconds()
	got := &frames{gaps: ask[[]float64](s, `gaps.slice(1)`), seconds: took}
	share := func(name string) float64 { return (after[name] - before[name]) / took }
	got.script, got.layout, got.styles = share("ScriptDuration"), share("LayoutDuration"), share("RecalcStyleDuration")
	got.all = share("TaskDuration")
	f.board.mu.Lock()
	got.fed = int(f.board.seq - fed + f.numbers[0] + f.numbers[1] + f.numbers[2] - steps)
	got.dropped = f.state.Verdict().Dropped
	f.board.mu.Unlock()
	f.seats.Lock()
	got.missed = f.missed
	f.seats.Unlock()
	return got
}

// table says it in a language.
func (f *frames) table(lang string) string {
	say := func(en, zh string) string { return map[string]string{"en": en, "zh": zh}[lang] }
	var out bytes.Buffer
	fmt.Fprintf(&out, "| %s | |\n|---|---|\n", say("the wall, 1920 × 1080, headless Chromium without a graphics card",
		"大屏，1920 × 1080，没有显卡的无界面 Chromium"))
	row := func(en, zh, format string, values ...any) {
		fmt.Fprintf(&out, "| %s | "+format+" |\n", append([]any{say(en, zh)}, values...)...)
	}
	row("cores, shared with the feed and other work", "处理器核数（与数据源和其他工作共用）", "%d", runtime.NumCPU())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // Linux
		row("programs that ran or waited for a core, in the last minute (2 are this measurement)",
			"最近一分钟里在运行或等待处理器的程序数（其中 2 个是本次测量）", "%s", strings.Fields(string(load))[0])
	}
	row("events a second", "每秒事件数", "%.0f", float64(f.fed)/f.seconds)
	row("requests at a time", "同时进行的请求数", "%d", crowdTokens)
	row("frames a second", "每秒帧数", "%.0f", 1000*float64(len(f.gaps))/sum(f.gaps))
	row("time between two frames: median, 95 %, longest", "两帧间隔：中位数、95 %、最长", "%.1f ms, %.1f ms, %.1f ms",
		at(.5, f.gaps), at(.95, f.gaps), at(1, f.gaps))
	row("frames of a 60 Hz screen that were not drawn", "60 Hz 屏幕上没画出的帧", "%d (%.0f %%)", f.late(),
		100*float64(f.late())/float64(f.late()+len(f.gaps)))
	row("share of a core that the page works: script, layout, styles", "页面占用一个核的比例：脚本、布局、样式",
		"%.0f %%: %.0f %%, %.0f %%, %.0f %%", 100*f.all, 100*f.script, 100*f.layout, 100*f.styles)
	c := f.cost
	row("the page's work for a frame, in time on a core: mean, 95 %, longest (a frame lasts 16.7 ms)",
		"页面为一帧所做的工作（占用处理器的时间）：平均、95 %、最长（一帧 16.7 ms）", "%.1f ms, %.1f ms, %.1f ms",
		sum(c.frames)/float64(len(c.frames)), at(.95, c.frames), at(1, c.frames))
	row("of the mean: script, styles, layout, paint", "平均值中：脚本、样式、布局、绘制", "%.1f ms, %.1f ms, %.1f ms, %.1f ms",
		c.script, c.styles, c.layout, c.paint)
	row("beside it, the rasterizer, for a frame", "另外，光栅化每帧", "%.1f ms", c.raster)
	row("events dropped", "丢弃的事件", "%d", f.dropped)
	row("updates that the page was too slow for", "页面来不及接收的更新", "%d", f.missed)
	return out.String()
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// between replaces what is between two marks of a document.
func between(t *testing.T, path, mark, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(content), "<!-- "+mark+" -->\n")
	_, tail, closed := strings.Cut(rest, "<!-- /"+mark+" -->\n")
	if !ok || !closed {
		t.Fatalf("%s has no %s", path, mark)
	}
	made := head + "<!-- " + mark + " -->\n" + text + "<!-- /" + mark + " -->\n" + tail
	if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
		t.Fatal(err)
	}
}
