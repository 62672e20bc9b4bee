package class

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"example.com/stock/loadtest"
)

// A Live is the wall of a running load, without controls. It shows each request when it has ended, from the history
// that the load writes to it.
type Live struct {
	*audience
	site   *site
	opened chan struct{}
	once   sync.Once

	mu      sync.Mutex  // guards the fields below
	frames  *loadFrames // nil: no run has begun
	run     int
	rest    []byte   // an incomplete line
	drawn   []string // the drawn requests, oldest first
	fired   []int64  // when each was sent
	points  int      // points of the line that are no longer shown
	dropped int      // lines that could not be read
}

// Limits of what is drawn of a running load.
const (
	liveDrawn  = 240
	livePoints = 600
)

// ShowLive opens the wall of a load on a loopback address. The caller must pass it to the load as a writer of the
// history, and close it.
func ShowLive(addr, lang string) (*Live, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	l := &Live{audience: newAudience(), opened: make(chan struct{})}
	about, err := json.Marshal(map[string]any{
		"live": true, "lang": lang, "apps": []string{}, "servers": []string{}, "strategies": []string{},
		"scenes": []string{},
	})
	if err != nil {
		return nil, err
	}
	l.site, err = openSite(addr, func(ctx context.Context) http.Handler {
		mux := pageMux(about)
		mux.HandleFunc("GET /api/stream", func(w http.ResponseWriter, r *http.Request) {
			l.once.Do(func() { close(l.opened) })
			l.serveFrames(ctx, w, r)
		})
		return mux
	})
	return l, err
}

// URL returns the address of the wall.
func (l *Live) URL() string { return "http://" + l.site.addr() + "/" }

// Opened returns a channel that is closed when a page connects.
func (l *Live) Opened() <-chan struct{} { return l.opened }

// Write accepts a part of a history. It always succeeds, so that a fault of the wall does not end a load. Unreadable
// lines are counted, and the count is shown.
func (l *Live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, after, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			break
		}
		if !l.line(line) {
			l.dropped++
		}
		l.rest = append([]byte(nil), after...)
	}
	l.show()
	return len(p), nil
}

// line reads a line of a history: a header, a request, an order, or the end.
func (l *Live) line(text []byte) bool {
	var is struct {
		Format string `json:"format"`
		Seq    int    `json:"seq"`
		Order  any    `json:"order"`
		End    any    `json:"end"`
	}
	if json.Unmarshal(text, &is) != nil {
		return false
	}
	switch {
	case is.Format != "":
		var h loadtest.Header
		if json.Unmarshal(text, &h) != nil {
			return false
		}
		l.begin(h)
	case is.Seq > 0:
		var r loadtest.Record
		if json.Unmarshal(text, &r) != nil || l.frames == nil {
			return false
		}
		l.record(&r)
	default:
		return is.Order != nil || is.End != nil // only the judge needs them
	}
	return true
}

func (l *Live) begin(h loadtest.Header) {
	l.run++
	l.drawn, l.fired, l.points, l.dropped = nil, nil, 0, 0
	l.frames = newLoadFrames(l.run, h, func(id string) bool { return slices.Contains(l.drawn, id) })
	l.frames.put("", true) // the page forgets the previous run
}

func (l *Live) record(r *loadtest.Record) {
	if r.Warm {
		l.frames.base = max(l.frames.base, r.Seq)
		return
	}
	l.drawn, l.fired = append(l.drawn, l.frames.name(r.Seq)), append(l.fired, r.SentAt.UnixMicro())
	for m := range moments {
		l.frames.play(r, m)
	}
	if len(l.drawn) > liveDrawn {
		l.frames.put("t:"+l.drawn[0], nil)
		l.frames.state.drop(l.drawn[0])
		l.drawn, l.fired = l.drawn[1:], l.fired[1:]
		l.frames.put("window", l.fired[0])
	}
	for ; l.frames.points-l.points > livePoints; l.points++ {
		l.frames.put("p:"+strconv.Itoa(l.points), nil)
	}
}

// show sends the changes to the pages.
func (l *Live) show() {
	if l.frames == nil {
		return
	}
	if l.dropped > 0 {
		l.frames.state.Apply(RunEvent{From: class, Kind: gap, Run: l.run, Count: uint64(l.dropped)})
		l.frames.put("verdict", l.frames.state.shownVerdict())
	}
	f, _ := l.frames.frame(0)
	if f.Set[""] != nil {
		l.forget()
	}
	l.change(f.Set)
}

// forget clears the values, so that a page that connects later does not see the previous run.
func (l *Live) forget() {
	l.seats.Lock()
	defer l.seats.Unlock()
	clear(l.shown)
}

// Progress shows the figures of a running load.
func (l *Live) Progress(p loadtest.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frames == nil || p.WarmUp {
		return
	}
	l.frames.put("load", map[string]string{
		"done": strconv.Itoa(p.Done), "sold": strconv.FormatFloat(p.SoldRate, 'f', 0, 64),
		"rate": strconv.FormatFloat(p.Rate, 'f', 0, 64),
		"p50":  loadtest.Millis(p.P50MS), "p99": loadtest.Millis(p.P99MS),
	})
	l.show()
}

// Judged shows the verdict on a run.
func (l *Live) Judged(r *loadtest.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frames == nil || len(r.Records) == 0 {
		return
	}
	last := r.Records[0].DoneAt
	for i := range r.Records {
		if r.Records[i].DoneAt.After(last) {
			last = r.Records[i].DoneAt
		}
	}
	l.frames.judge(last.UnixMicro(), r)
	l.show()
}

// Close ends the wall. Open pages keep their values.
func (l *Live) Close() error {
	l.change(map[string]json.RawMessage{"over": json.RawMessage("true")})
	l.audience.rest()
	return l.site.close()
}
