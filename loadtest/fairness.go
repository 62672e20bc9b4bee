package loadtest

import "fmt"

// Fairness is how evenly a run served its workers.
type Fairness struct {
	// Jain is Jain's index over the units that each worker got: 1 if all got the same, 1/n if one of n got all (Jain, Chiu and Hawe, 1984). 0: not
	// known, because nothing was sold, or the load was an open loop, whose workers are no customers.
	Jain float64 `json:"jain"`
	// LongestWaitMS is the longest wait of an accepted request for its turn, as its instance told. Requests that were refused do not tell.
	LongestWaitMS float64 `json:"longest_wait_ms"`
}

// FairnessOf computes how fair the run was that left r's records.
func FairnessOf(r *Result) Fairness {
	var f Fairness
	got := make(map[int]float64)
	for i := range r.Records {
		rec := &r.Records[i]
		got[rec.Worker] += 0 // who got nothing counts, too
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

// evenness is Jain's index as shown.
func evenness(r *Result) string {
	if f := FairnessOf(r); f.Jain > 0 {
		return fmt.Sprintf("%.2f", f.Jain)
	}
	return "-"
}

func longestWait(r *Result) string {
	if f := FairnessOf(r); f.LongestWaitMS > 0 {
		return millis(f.LongestWaitMS)
	}
	return "-"
}
