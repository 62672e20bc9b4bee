package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A scale puts moments on an axis. What matters in a scenario happens in bursts of milliseconds, seconds apart, so the axis is stretched where much
// happens: between two moments there is room for a marker at least, and more by the logarithm of the time between. The order is always
// seen; times are written.
type scale struct {
	moments []time.Time // sorted, each once
	at      []float64   // where they stand, from 0 to 1
	weight  float64     // the whole length, in markers
}

// newScale makes one for moments; after those in worded there is room for a word.
func newScale(moments []time.Time, worded map[time.Time]bool) *scale {
	slices.SortFunc(moments, time.Time.Compare)
	moments = slices.CompactFunc(moments, time.Time.Equal)
	s := &scale{moments: moments, at: make([]float64, len(moments))}
	for i := 1; i < len(moments); i++ {
		gap := float64(moments[i].Sub(moments[i-1])) / float64(time.Millisecond)
		s.at[i] = s.at[i-1] + 0.7 + 0.9*math.Log10(1+gap)
		if worded[moments[i-1]] {
			s.at[i] += 3
		}
	}
	if n := len(moments); n > 0 {
		s.weight = s.at[n-1]
	}
	for i := range s.at {
		s.at[i] /= max(s.weight, 1)
	}
	return s
}

// x is where a moment stands, in percent. Some room is left on both sides for markers.
func (s *scale) x(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(s.moments, t, time.Time.Compare)
	if !found {
		i = max(i-1, 0)
	}
	return math.Round((2+91*s.at[i])*100) / 100
}

// A tick is a moment with its time written.
type tick struct {
	x    float64
	text string
}

// ticks are the moments that can be labelled without touching each other if the axis is width pixels wide.
func (s *scale) ticks(width float64) []tick {
	var list []tick
	for _, t := range s.moments {
		if x := s.x(t); len(list) == 0 || (x-list[len(list)-1].x)/100*width >= 64 {
			list = append(list, tick{x, since(t.Sub(s.moments[0]))})
		}
	}
	return list
}

// since is a time from the beginning.
func since(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
}
