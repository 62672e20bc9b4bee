package class

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"

	"example.com/stock/loadtest"
)

// Limits of what a page draws of a load. The figures count everything.
const (
	maxDrawn   = 2000 // requests: the first ones
	maxCounted = 4000 // frames of those that are not drawn
)

// ReadLoad reads a history of stock load as a recording, with the verdict of the load's judge. An incomplete last line
// is ignored.
func ReadLoad(r io.Reader) (*Recording, error) {
	h, err := loadtest.ReadHistory(r)
	if err != nil && !errors.Is(err, loadtest.ErrCut) {
		return nil, err
	}
	if len(h.Records) == 0 {
		return nil, phrases.Error("no_request")
	}
	return recordLoad(h), nil
}

// drawn reports whether the page draws a request of a history.
func drawn(id string) bool { return numberOf(id) <= maxDrawn }

// A cue is a moment of a request, with its time.
type cue struct {
	at     int64
	moment moment
	record *loadtest.Record
}

func recordLoad(h *loadtest.History) *Recording {
	result := h.Result()
	f := newLoadFrames(1, h.Header)
	f.base = result.Records[0].Seq - 1
	if n := len(h.Warm); n > 0 {
		f.base = h.Warm[n-1].Seq
	}
	f.state.expect(fencesOf(result.Records))
	var cues []cue
	for i := range result.Records {
		for m := range moments {
			if at, known := m.at(&result.Records[i]); known {
				cues = append(cues, cue{at, m, &result.Records[i]})
			}
		}
	}
	slices.SortStableFunc(cues, func(a, b cue) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.moment, b.moment))
	})
	first, last := cues[0].at, cues[len(cues)-1].at
	if n := len(result.Records); n > maxDrawn {
		f.put("drawn", map[string]int{"n": maxDrawn, "of": n})
	}
	rec := &Recording{Frames: []Frame{}, Servers: []string{}}
	add := func(at int64) {
		if frame, changed := f.frame(at); changed {
			rec.Frames = append(rec.Frames, frame)
		}
	}
	add(min(first, h.Header.StartedAt.UnixMicro()))
	for i, c := range cues {
		f.play(c.record, c.moment)
		if c.record.Seq-f.base <= maxDrawn || i%(1+len(cues)/maxCounted) == 0 {
			add(c.at)
		}
	}
	f.judge(last, result)
	add(last + 1)
	rec.Apps, rec.Verdict = f.apps, f.state.Verdict()
	return rec
}

// fencesOf returns the fencing tokens of a run in ascending order.
func fencesOf(records []loadtest.Record) []string {
	var fences []uint64
	for i := range records {
		if records[i].Receipt != nil && records[i].Fence > 0 {
			fences = append(fences, records[i].Fence)
		}
	}
	slices.Sort(fences)
	fences = slices.Compact(fences)
	texts := make([]string, len(fences))
	for i, f := range fences {
		texts[i] = strconv.FormatUint(f, 10)
	}
	return texts
}
