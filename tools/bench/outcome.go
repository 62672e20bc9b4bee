package main

import (
	"time"

	"example.com/stock/tools/bench/rig"
)

// An outcome is one measurement.
type outcome struct {
	Rate   float64 `json:"rate"` // turns a second
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
	Jain   float64 `json:"jain"` // over all contenders: 1 is perfectly fair, 1/n is one who has it all
	Done   int64   `json:"done"`
	Late   int64   `json:"late"`
	Failed int64   `json:"failed"`
	Stuck  int64   `json:"stuck"`
	Lost   int64   `json:"lost"`
	Error  string  `json:"error,omitempty"`

	// For each turn.
	Commands map[string]float64 `json:"commands,omitempty"` // of Redis, those of scripts too
	CPU      map[string]float64 `json:"cpu_us,omitempty"`   // of each server and of all clients, in µs

	Others float64 `json:"others"` // CPUs that other programs took meanwhile; -1 where that cannot be read
	Load   float64 `json:"load"`   // average of this computer, when it was over
}

func (o outcome) turns() int64 { return o.Done + o.Late }

// judge adds up the reports of one measurement.
func judge(reports []report, took time.Duration) (o outcome, err error) {
	all := newHistogram()
	var shares []int64
	for _, r := range reports {
		h, err := r.times()
		if err != nil {
			return o, err
		}
		all.Merge(h)
		shares = append(shares, r.Done...)
		o.Late += r.Late
		o.Failed += r.Failed
		o.Stuck += r.Stuck
		if r.Error != "" {
			o.Error = r.Error
		}
	}
	for _, n := range shares {
		o.Done += n
	}
	o.Rate = float64(o.Done) / took.Seconds()
	o.P50, o.P99, o.Max = ms(all.ValueAtQuantile(50)), ms(all.ValueAtQuantile(99)), ms(all.Max())
	o.Jain = jain(shares)
	o.Load = rig.LoadAverage()
	return o, nil
}

func ms(us int64) float64 { return float64(us) / 1000 }

// jain returns the fairness index of R. Jain (https://arxiv.org/abs/cs/9809099): the square of the sum, divided by n
// times the sum of the squares.
func jain(shares []int64) float64 {
	var sum, squares float64
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
