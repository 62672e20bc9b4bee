package loadtest

import "math"

// warmUp is the plan of p's warm-up: the same load for that long, on SKUs of its own. A rate that changes begins where the run's does.
func (p *Plan) warmUp() *Plan {
	w := *p
	w.SKU, w.Stock = p.SKU+"-warm", warmStock
	w.Requests, w.Duration, w.RampUp = 0, p.WarmUp, 0
	if w.Rate.To = w.Rate.From; p.Rate.From == 0 {
		w.Rate = Rate{p.Rate.To, p.Rate.To} // zero in a closed loop, or a rise from 0
	}
	return &w
}

// warmConnections is how many connections are opened before the start: one for each worker. How many an open loop needs depends on the
// service; these do for replies that take 20 ms.
func (p *Plan) warmConnections() int {
	if !p.Open() {
		return p.Concurrency
	}
	return min(p.MaxInFlight, max(8, int(math.Ceil(max(p.Rate.From, p.Rate.To)/50))))
}
