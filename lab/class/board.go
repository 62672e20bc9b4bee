package class

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"example.com/stock/loadtest"
)

// A board keeps the State and shows it to the pages. It is safe for concurrent use.
type board struct {
	mu       sync.Mutex
	state    *State
	seq      uint64 // of the class's own events
	recorder *recorder
	changed  chan struct{} // closed at the next change
}

// frameEvery is the shortest time between two frames, and aliveEvery the longest between two messages to a page, so
// that it is noticed when the page has gone.
const (
	frameEvery = 50 * time.Millisecond
	aliveEvery = 15 * time.Second
)

func newBoard(r *recorder) *board {
	return &board{state: NewState(), recorder: r, changed: make(chan struct{})}
}

// tell adds an event of an instance.
func (b *board) tell(e RunEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(e)
}

// note adds an event of the class, with its time and number.
func (b *board) note(e RunEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.At, e.From, e.Seq = time.Now().UnixMicro(), class, b.seq
	b.add(e)
}

func (b *board) add(e RunEvent) {
	b.state.Apply(e)
	if e.Kind == runBegan {
		b.recorder.begin(e, b.state.standing())
	}
	b.recorder.write(e)
	close(b.changed)
	b.changed = make(chan struct{})
}

// look calls f with the State.
func (b *board) look(f func(*State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.state)
}

// next returns a channel that is closed at the next change.
func (b *board) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// await waits until so returns true or done is closed, and reports whether so did.
func (b *board) await(done <-chan struct{}, so func(*State) bool) bool {
	for {
		b.mu.Lock()
		ok, changed := so(b.state), b.changed
		b.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// serveFrames streams the wall to a page: first all values, then those that have changed.
func (b *board) serveFrames(w http.ResponseWriter, r *http.Request) {
	shown := View{}
	first := true
	b.stream(w, r, frameEvery, func() any {
		frame := Frame{At: time.Now().UnixMicro()}
		b.look(func(s *State) {
			view := s.View()
			frame.Set, shown = view.Diff(shown), view
		})
		if first { // the page has come back: it forgets what it had
			frame.Set[""] = json.RawMessage("true")
			first = false
		}
		return frame
	})
}

// stream sends server-sent events until the page has gone or the site ends: at once, and after each change, but not
// more often than every. value returns what is sent.
func (b *board) stream(w http.ResponseWriter, r *http.Request, every time.Duration, value func() any) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	for {
		changed := b.next()
		data, err := json.Marshal(value())
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		if err != nil || control.Flush() != nil || loadtest.Sleep(r.Context(), every) != nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(aliveEvery):
		case <-r.Context().Done():
			return
		}
	}
}
