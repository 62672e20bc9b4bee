package loadtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Quantiles are latencies in milliseconds, three digits exact. P999 is the 99.9th percentile.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	Max   float64 `json:"max_ms"`
}

// A Share counts the replies of one instance.
type Share struct {
	Instance string `json:"instance"` // "": the reply named none, or there was no reply
	Replies  int    `json:"replies"`
	Accepted int    `json:"accepted"`
}

// A StepLatency is that of one step of all purchases that took it, whatever they came to.
type StepLatency struct {
	Name string `json:"name"`
	Quantiles
}

// Latency describes how fast a run was.
type Latency struct {
	Seconds float64 `json:"seconds"` // from the first request sent to the last reply
	// units of accepted requests, until the reply to the last of them
	Sold float64 `json:"sold_per_second"`
	// requests of any outcome: refusals are quick, so it ranks nothing
	Rate      float64               `json:"per_second"`
	All       Quantiles             `json:"all"`               // in an open loop: since the request was due
	Service   *Quantiles            `json:"service,omitempty"` // open loop only: since the request was sent
	ByOutcome map[Outcome]Quantiles `json:"by_outcome"`        // only those that occurred
	Instances []Share               `json:"instances"`         // by name
	Steps     []StepLatency         `json:"steps,omitempty"`   // of purchases in several steps, in their order
	// Open loop only: the requests sent more than the constant Late after their planned time, and the longest delay.
	Late          int     `json:"late"`
	LongestLateMS float64 `json:"longest_late_ms"`
}

// Accepted returns the latency of the accepted requests. Its count is 0 if there were none.
func (l *Latency) Accepted() Quantiles { return l.ByOutcome[Accepted] }

// Measure computes the latency of a run from its records.
func Measure(records []Record) Latency {
	l := Latency{ByOutcome: make(map[Outcome]Quantiles), Instances: shares(records), Steps: steps(records)}
	if len(records) == 0 {
		return l
	}
	all, service, by := newHistogram(), newHistogram(), make(map[Outcome]*hdrhistogram.Histogram)
	first, last := records[0].SentAt, records[0].DoneAt
	var units int64
	var sold time.Time // when the last unit was
	open := false
	for i := range records {
		r := &records[i]
		if r.SentAt.Before(first) {
			first = r.SentAt
		}
		if r.DoneAt.After(last) {
			last = r.DoneAt
		}
		if r.Outcome == Accepted {
			units += r.Quantity
			if r.DoneAt.After(sold) {
				sold = r.DoneAt
			}
		}
		if by[r.Outcome] == nil {
			by[r.Outcome] = newHistogram()
		}
		record(all, r.Latency())
		record(by[r.Outcome], r.Latency())
		record(service, r.Service())
		if r.Late() {
			l.Late++
			l.LongestLateMS = max(l.LongestLateMS, float64(r.SentAt.Sub(r.PlannedAt))/float64(time.Millisecond))
		}
		open = open || !r.PlannedAt.IsZero()
	}
	l.Seconds = last.Sub(first).Seconds()
	if units > 0 {
		l.Sold = float64(units) / max(sold.Sub(first).Seconds(), 1e-6)
	}
	l.Rate = float64(len(records)) / max(l.Seconds, 1e-6)
	l.All = quantiles(all)
	if open {
		l.Service = new(quantiles(service))
	}
	for outcome, h := range by {
		l.ByOutcome[outcome] = quantiles(h)
	}
	return l
}

func steps(records []Record) (list []StepLatency) {
	var by []*hdrhistogram.Histogram
	for i := range records {
		if records[i].Purchase == nil {
			continue
		}
		for n, s := range records[i].Purchase.Steps {
			if n == len(by) {
				by, list = append(by, newHistogram()), append(list, StepLatency{Name: s.Name})
			}
			record(by[n], milliseconds(s.TookMS))
		}
	}
	for n := range list {
		list[n].Quantiles = quantiles(by[n])
	}
	return list
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Hour.Microseconds(), 3)
}

// record counts d. A latency above the top of the histogram counts as the top; a request cannot last an hour anyway.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / 1000 }
	return Quantiles{
		Count: h.TotalCount(), Mean: h.Mean() / 1000, Max: float64(h.Max()) / 1000,
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9),
	}
}

func shares(records []Record) []Share {
	by := make(map[string]*Share)
	for i := range records {
		r := &records[i]
		s := by[r.Instance]
		if s == nil {
			s = &Share{Instance: r.Instance}
			by[r.Instance] = s
		}
		s.Replies++
		if r.Outcome == Accepted {
			s.Accepted++
		}
	}
	list := make([]Share, 0, len(by))
	for _, s := range by {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Compare(a.Instance, b.Instance) })
	return list
}

// Fairness describes how evenly a run served its workers.
type Fairness struct {
	// Jain is Jain's index over the units that each worker got: 1 if all got the same, 1/n if one of n got all (Jain,
	// Chiu and Hawe, 1984). It is 0 if unknown: nothing was sold, or the load was an open loop, whose workers do not
	// represent customers.
	Jain float64 `json:"jain"`
	// LongestWaitMS is the longest time that an accepted request waited for the lock, as its instance reported. Refused
	// requests do not report it.
	LongestWaitMS float64 `json:"longest_wait_ms"`
}

// fairnessOf computes the fairness of r.
func fairnessOf(r *Result) Fairness {
	var f Fairness
	got := make(map[int]float64)
	for i := range r.Records {
		rec := &r.Records[i]
		got[rec.Worker] += 0 // a worker that got nothing counts, too
		if rec.Receipt != nil {
			got[rec.Worker] += float64(rec.Quantity)
			f.LongestWaitMS = max(f.LongestWaitMS, rec.WaitedMS)
		}
	}
	var sum, squares float64
	for _, units := range got {
		sum += units
		squares += units * units
	}
	if squares > 0 && !r.Plan.Open() {
		f.Jain = sum * sum / (float64(len(got)) * squares)
	}
	return f
}

// WakeUps returns how often the server of the lock woke a waiter for each sale, as far as accepted requests report it:
// up to 1 if it wakes the next waiter, up to the number of waiters if it wakes the herd. It is 0 if no waiter was
// woken, or the target does not report it.
func (r *Result) WakeUps() float64 {
	var woken, sold int
	for _, record := range r.Records {
		if record.Receipt != nil {
			woken += record.Wakeups
			sold++
		}
	}
	return float64(woken) / float64(max(sold, 1))
}

// PerBatch returns how many sales a batch had on average, with those that were refused, as far as accepted requests
// report it. It is 0 if the strategy does not merge.
func (r *Result) PerBatch() float64 {
	sum, seen := 0, make(map[string]bool)
	for _, record := range r.Records {
		if record.Receipt != nil && record.Batch != nil && !seen[record.Batch.ID] {
			seen[record.Batch.ID] = true
			sum += record.Batch.Size
		}
	}
	return float64(sum) / float64(max(len(seen), 1))
}
