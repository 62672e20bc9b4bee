package loadtest

import (
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

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

// warm opens n connections: the replies are held until all have come, so that no connection serves two of them. A failure is no
// matter here, the run itself will meet it.
func (c *Client) warm(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var workers, arrived sync.WaitGroup
	arrived.Add(n)
	for range n {
		workers.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/livez", nil)
			if err != nil {
				arrived.Done()
				return
			}
			res, err := c.http.Do(req)
			arrived.Done()
			if err != nil {
				return
			}
			arrived.Wait()
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
			res.Body.Close()
		})
	}
	workers.Wait()
}
