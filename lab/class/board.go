package class

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// A board keeps the State, and sends its changes to the audience. It is safe for concurrent use.
type board struct {
	*audience
	mu      sync.Mutex
	state   *State
	seq     uint64 // of the class's own events
	record  func(RunEvent)
	changed chan struct{} // closed at the next change
}

// frameEvery is the shortest time between two frames.
const frameEvery = 50 * time.Millisecond

func newBoard(record func(RunEvent)) *board {
	return &board{
		audience: newAudience(), state: NewState(), record: record, changed: make(chan struct{}),
	}
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
	b.record(e)
	close(b.changed)
	b.changed = make(chan struct{})
}

// look calls f with the State.
func (b *board) look(f func(*State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.state)
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

// show sends frames until done is closed.
func (b *board) show(done <-chan struct{}) {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		b.frame()
		select {
		case <-done:
			return
		case <-time.After(frameEvery):
		}
		select {
		case <-done:
			return
		case <-changed:
		}
	}
}

// frame sends the changes to all pages.
func (b *board) frame() {
	b.mu.Lock()
	view := b.state.View()
	b.mu.Unlock()
	b.see(view)
}

// writeFrame writes a frame as a server-sent event.
func writeFrame(w io.Writer, f any) error {
	data, err := json.Marshal(f)
	if err == nil {
		_, err = fmt.Fprintf(w, "data: %s\n\n", data)
	}
	return err
}
