package class

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// An audience is the set of connected pages. Each gets every frame, or a snapshot after it has missed some. It is safe
// for concurrent use.
type audience struct {
	seats   sync.Mutex
	shown   View
	readers map[*reader]struct{}
	missed  int // frames dropped because a page was too slow
}

// A reader is one connected page.
type reader struct {
	queue chan Frame
	lost  bool // frames were dropped: it needs a snapshot
}

// framesAhead is the number of frames that are queued for a slow page.
const framesAhead = 64

func newAudience() *audience {
	return &audience{shown: make(View), readers: make(map[*reader]struct{})}
}

// see shows a view. Pages get its changes.
func (a *audience) see(v View) {
	a.seats.Lock()
	defer a.seats.Unlock()
	a.tellAll(v.Diff(a.shown))
}

// tellAll sends changed values to the pages. null removes a key.
func (a *audience) tellAll(set map[string]json.RawMessage) {
	if len(set) == 0 {
		return
	}
	for key, value := range set {
		if string(value) == "null" {
			delete(a.shown, key)
		} else {
			a.shown[key] = value
		}
	}
	f := Frame{time.Now().UnixMicro(), set}
	for r := range a.readers {
		a.hand(r, f)
	}
}

func (a *audience) hand(r *reader, f Frame) {
	if r.lost {
		f.Set = a.snapshot()
	}
	select {
	case r.queue <- f:
		r.lost = false
	default:
		r.lost = true
		a.missed++
	}
}

// snapshot returns all values. The key "" makes the page forget its own.
func (a *audience) snapshot() map[string]json.RawMessage {
	set := map[string]json.RawMessage{"": json.RawMessage("true")}
	for key, value := range a.shown {
		set[key] = value
	}
	return set
}

// join adds a reader, whose first frame is a snapshot. The caller must call leave.
func (a *audience) join() *reader {
	a.seats.Lock()
	defer a.seats.Unlock()
	r := &reader{queue: make(chan Frame, framesAhead)}
	a.readers[r] = struct{}{}
	r.queue <- Frame{time.Now().UnixMicro(), a.snapshot()}
	return r
}

func (a *audience) leave(r *reader) {
	a.seats.Lock()
	defer a.seats.Unlock()
	delete(a.readers, r)
}

// serveFrames streams frames to a page.
func (a *audience) serveFrames(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	reader := a.join()
	defer a.leave(reader)
	send := stream(w)
	alive := time.NewTicker(15 * time.Second)
	defer alive.Stop()
	for {
		ok := true
		select {
		case f := <-reader.queue:
			ok = send(f)
		case <-alive.C:
			ok = send(nil)
		case <-ctx.Done():
			return
		case <-r.Context().Done():
			return
		}
		if !ok {
			return
		}
	}
}
