package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
)

// ticks are round numbers from from to to, about n of them.
func ticks(from, to float64, n int) []float64 {
	span := to - from
	if span <= 0 || n < 1 {
		return []float64{from}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var list []float64
	for v := math.Ceil(from/step) * step; v <= to+step*1e-6; v += step {
		list = append(list, math.Round(v/step)*step)
	}
	return list
}

// axisLabel is a moment on an axis as long as span milliseconds.
func axisLabel(ms, span float64) string {
	switch {
	case span >= 3000:
		return fmt.Sprintf("%.4g s", ms/1000)
	case span < 3:
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.4g ms", ms)
}

// round is an axis of round numbers, labelled by label.
type round struct {
	n     int
	label func(v, span float64) string
}

func (a round) Ticks(from, to float64) []plot.Tick {
	var list []plot.Tick
	for _, v := range ticks(from, to, a.n) {
		list = append(list, plot.Tick{Value: v, Label: a.label(v, to-from)})
	}
	return list
}

// decades are the ticks of a logarithmic axis of milliseconds: 1, 2 and 5 of every power of ten, all labelled if they are few.
type decades struct{}

func (decades) Ticks(from, to float64) []plot.Tick {
	var list []plot.Tick
	many := to/from > 300
	for e := math.Floor(math.Log10(from)); e <= math.Ceil(math.Log10(to)); e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if v < from*0.999 || v > to*1.001 {
				continue
			}
			tick := plot.Tick{Value: v}
			if m == 1 || !many {
				tick.Label = plainMillis(v)
			}
			list = append(list, tick)
		}
	}
	return list
}

func plainMillis(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%g s", ms/1000)
	}
	return fmt.Sprintf("%g ms", ms)
}

func plainNumber(v, _ float64) string { return thousands(int64(math.Round(v))) }
