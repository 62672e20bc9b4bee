package class

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// A cost is what the thread of a page works for its frames, in ms that it was on a core. How long it waited for one
// does not count: that is the computer's other work.
type cost struct {
	frames                        []float64 // all that the thread did since the frame before
	script, styles, layout, paint float64   // of an average frame
	raster                        float64   // on other threads; a graphics card would do it
}

// A traced is an event of Chromium's trace, of those that have a beginning and an end. Times are in µs.
type traced struct {
	Name     string  `json:"name"`
	Phase    string  `json:"ph"`
	Pid      int     `json:"pid"`
	Tid      int     `json:"tid"`
	At       float64 `json:"ts"`
	Long     float64 `json:"dur"`
	OnCore   float64 `json:"tdur"`
	children float64 // of OnCore
}

// What belongs to a frame by the names of events. What is none of these is script: the page's own, and what the
// browser does for it, such as to parse JSON or to collect garbage.
var partOf = map[string]string{
	"UpdateLayoutTree": "styles", "Layout": "layout", "PrePaint": "paint", "Paint": "paint", "Layerize": "paint",
	"Commit": "paint", mainFrame: "paint",
}

const mainFrame = "ProxyMain::BeginMainFrame"

// trace measures what the page works for its frames. A trace costs something itself: the frames a second are to be
// counted without.
func (s *screen) trace(long time.Duration) *cost {
	s.t.Helper()
	var mu sync.Mutex
	var events []traced
	complete := make(chan struct{})
	err := chromedp.Listen(s, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, text := range e.Value {
				var one traced
				if json.Unmarshal(text, &one) == nil && one.Phase == "X" {
					events = append(events, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	})
	if err == nil {
		_, err = chromedp.Call(s, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{
			IncludedCategories: []string{"devtools.timeline", "cc"},
			ExcludedCategories: []string{"*"},
		}})
	}
	if err == nil {
		time.Sleep(long) // it is a time that is measured
		_, err = chromedp.Call(s, tracing.End, cdp.Empty{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	<-complete
	return costOf(events)
}

// costOf adds up the events of the thread that makes the frames.
func costOf(events []traced) *cost {
	c := &cost{}
	parts := map[string]*float64{"styles": &c.styles, "layout": &c.layout, "paint": &c.paint}
	var of []traced // the page's thread
	page := slices.IndexFunc(events, func(e traced) bool { return e.Name == mainFrame })
	for _, e := range events {
		switch {
		case page >= 0 && e.Pid == events[page].Pid && e.Tid == events[page].Tid:
			of = append(of, e)
		case e.Name == "RasterTask":
			c.raster += e.OnCore / 1000
		}
	}
	slices.SortStableFunc(of, func(a, b traced) int { // what lasts longer is around what begins with it
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return int(b.Long - a.Long)
	})
	var around []*traced
	end := func(e *traced) {
		part := parts[partOf[e.Name]]
		if part == nil {
			part = &c.script
		}
		*part += (e.OnCore - e.children) / 1000
	}
	since := 0.0
	for i := range of {
		e := &of[i]
		for len(around) > 0 && around[len(around)-1].At+around[len(around)-1].Long <= e.At {
			end(around[len(around)-1])
			around = around[:len(around)-1]
		}
		if n := len(around); n > 0 {
			around[n-1].children += e.OnCore
		} else {
			since += e.OnCore / 1000
		}
		if e.Name == mainFrame {
			c.frames = append(c.frames, since)
			since = 0
		}
		around = append(around, e)
	}
	for _, e := range around {
		end(e)
	}
	for _, sum := range []*float64{&c.script, &c.styles, &c.layout, &c.paint, &c.raster} {
		*sum /= float64(max(1, len(c.frames)))
	}
	return c
}
