package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// workerRole is the first argument of this program when it is a worker; the second is the task.
const workerRole = "worker"

// A task is for one worker process.
type task struct {
	Entrant    string `json:"entrant"`
	Redis      string `json:"redis"`
	ZooKeeper  string `json:"zookeeper"`
	MySQL      string `json:"mysql"`
	Cell       string `json:"cell"` // what all keys of this measurement begin with
	Keys       int    `json:"keys"` // how many keys there are; a contender draws one for each turn
	Contenders int    `json:"contenders"`
	Idle       bool   `json:"idle"`    // no work
	WarmMS     int64  `json:"warm_ms"` // how long to work on other keys first
	RunMS      int64  `json:"run_ms"`
	GraceMS    int64  `json:"grace_ms"` // how long after that a wait may end; then its contender is stuck
	Number     int    `json:"number"`   // of this process, from 0
	Profile    string `json:"profile"`
}

func (t task) key(i int) string { return fmt.Sprintf("%s-%d", t.Cell, i) }

// draw returns the key of a turn.
func (t task) draw() string { return t.key(rand.IntN(t.Keys)) }

func (t task) warmKey() string { return t.Cell + "-warm" }

func (t task) run() time.Duration { return time.Duration(t.RunMS) * time.Millisecond }

// A worker prints "ready", reads a line, works, and prints a report in a line. It ends when its input ends, so that
// none outlives a parent that was killed.
type report struct {
	Done   []int64 `json:"done"`   // turns that ended in time, of each contender
	Late   int64   `json:"late"`   // turns that began in time and ended later
	Failed int64   `json:"failed"` // tries that ended with an error, and were repeated
	Stuck  int64   `json:"stuck"`  // contenders whose last wait did not end
	Error  string  `json:"error"`  // the last one

	Histogram []byte `json:"histogram,omitempty"` // of wait and work, in µs
}

// newHistogram holds 1 µs to 100 s in three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 100_000_000, 3) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // bounded, so it cannot fail
}

// times returns the histogram of a report. One without turns is empty.
func (r report) times() (*hdrhistogram.Histogram, error) {
	if len(r.Histogram) > 0 {
		h, err := hdrhistogram.Decode(r.Histogram)
		if err != nil {
			return nil, fmt.Errorf("read the histogram of a worker: %w", err)
		}
		return h, nil
	}
	return newHistogram(), nil
}
