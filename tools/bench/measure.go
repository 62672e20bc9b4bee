package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/tools/bench/rig"
)

// results are everything that was measured.
type results struct {
	Computer string            `json:"computer"`
	Versions []string          `json:"versions"`
	Began    time.Time         `json:"began"`
	Seconds  float64           `json:"seconds"` // of each measurement
	Rounds   int               `json:"rounds"`
	DelayMS  float64           `json:"delay_ms"`
	Pings    map[string]string `json:"pings"` // what a round trip takes, without and with the delay
	Missing  map[string]string `json:"missing,omitempty"`
	Rows     []*row            `json:"rows"`
	Figures  []figure          `json:"figures"`
}

// A row holds the outcomes of one job.
type row struct {
	Table  string      `json:"table"`
	Name   string      `json:"name"`
	Side   side        `json:"side"`
	Server server.Kind `json:"server"`
	Loses  bool        `json:"loses"` // it is no lock
	shape
	Rounds []*outcome `json:"rounds"` // null: it failed in that round
	Errors []string   `json:"errors,omitempty"`
}

// measure runs all jobs in every round. Each round begins with another job, so that whatever else the computer does
// affects all of them alike.
func (c *contest) measure(ctx context.Context) (*results, error) {
	jobs := c.jobs()
	if len(jobs) == 0 {
		return nil, errors.New("nothing to measure: nothing matches --only and --tables and has its servers")
	}
	if c.settings.profiles != "" {
		if err := os.MkdirAll(c.settings.profiles, 0o755); err != nil {
			return nil, fmt.Errorf("--profiles: %w", err)
		}
	}
	r := &results{
		Computer: computer(), Versions: slices.Concat(c.versions, moduleVersions()), Began: time.Now(),
		Seconds: c.settings.duration.Seconds(), Rounds: c.settings.rounds, DelayMS: c.settings.delay.Seconds() * 1000,
		Pings: c.pings(ctx), Missing: c.missing,
	}
	parts := 1
	for _, j := range jobs {
		parts = max(parts, j.slices)
		r.Rows = append(r.Rows, &row{
			Table: j.table, Name: j.entrant.name, Side: j.entrant.side, Server: j.entrant.server,
			Loses: j.entrant.loses,
			shape: j.shape, Rounds: make([]*outcome, c.settings.rounds*j.slices),
		})
	}
	for round := range c.settings.rounds {
		progress("round %d of %d: %d entrants in all tables", round+1, c.settings.rounds, len(jobs))
		for slice := range parts {
			for i := range jobs {
				at := (i + round*len(jobs)/c.settings.rounds) % len(jobs)
				if slice >= jobs[at].slices {
					continue
				}
				if err := c.fill(ctx, r.Rows[at], round*jobs[at].slices+slice, jobs[at]); err != nil {
					return nil, err
				}
			}
		}
	}
	r.Figures = r.figures()
	return r, nil
}

// fill measures a job once, for one place in its row. It returns an error only if ctx has ended.
func (c *contest) fill(ctx context.Context, w *row, at int, j job) error {
	o, err := c.run(ctx, j)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("measure %s: %w", j.entrant.name, context.Cause(ctx))
	case err != nil:
		w.Errors = append(w.Errors, err.Error())
		progress("%-14s %-32s failed: %v", j.table, j.entrant.name, err)
	default:
		w.Rounds[at] = &o
		progress("%-14s %-32s %4d keys %8.0f op/s  p99 %8.2f ms  max %8.2f ms  Jain %.3f  lost %d  others %.2f CPUs",
			j.table, j.entrant.name, j.Keys, o.Rate, o.P99, o.Max, o.Jain, o.Lost, o.Others)
	}
	return nil
}

// pings measures round trips, to show that the delay is as asked for.
func (c *contest) pings(ctx context.Context) map[string]string {
	pings := map[string]string{}
	for name, delayed := range map[string]bool{"direct": false, "delayed": true} {
		client := redisClient(task{Redis: c.addr(server.Redis, delayed)})
		h := newHistogram()
		for range 300 {
			began := time.Now()
			if client.Ping(ctx).Err() == nil {
				record(h, time.Since(began))
			}
		}
		client.Close()
		pings[name] = fmt.Sprintf("%.2f ms", ms(h.ValueAtQuantile(50)))
	}
	return pings
}

func (r *results) find(table, name string, keys int) *row {
	i := slices.IndexFunc(r.Rows, func(w *row) bool { return w.Table == table && w.Name == name && w.Keys == keys })
	if i < 0 {
		return nil
	}
	return r.Rows[i]
}

func (r *results) lostUpdates() bool {
	return slices.ContainsFunc(r.Rows, func(w *row) bool { return !w.Loses && w.lost() > 0 })
}

// lost is the number of updates lost in all rounds.
func (w *row) lost() (n int64) {
	for _, o := range w.Rounds {
		if o != nil {
			n += o.Lost
		}
	}
	return n
}

// median returns the median of a figure over the rounds. ok is false if no round has it.
func (w *row) median(of func(outcome) float64) (m float64, ok bool) {
	var all []float64
	for _, o := range w.Rounds {
		if o != nil {
			all = append(all, of(*o))
		}
	}
	return median(all)
}

func median(all []float64) (float64, bool) {
	if len(all) == 0 {
		return 0, false
	}
	return rig.Median(all), true
}

// ratio returns the median of the ratios within each round: what slows the computer down for a while slows both rows.
// If one row has more measurements in a round than the other, they are paired with the other's of that round.
func (w *row) ratio(to *row, of func(outcome) float64) (float64, bool) {
	if w == nil || to == nil {
		return 0, false
	}
	var all []float64
	for i, o := range w.Rounds {
		other := to.Rounds[i*len(to.Rounds)/len(w.Rounds)]
		if o != nil && other != nil && of(*other) > 0 {
			all = append(all, of(*o)/of(*other))
		}
	}
	return median(all)
}

func rate(o outcome) float64 { return o.Rate }
func p50(o outcome) float64  { return o.P50 }
func p99(o outcome) float64  { return o.P99 }
func most(o outcome) float64 { return o.Max }
func fair(o outcome) float64 { return o.Jain }
func load(o outcome) float64 { return o.Load }
func busy(o outcome) float64 { return o.Others }
