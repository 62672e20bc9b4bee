package class

import (
	"context"
	"time"

	"example.com/stock/loadtest"
)

// Limits of a rate.
const (
	maxRate  = 200    // requests a second
	maxRated = 10_000 // requests of one run, whose file then has some 15 MB
	maxOpen  = 200    // requests without a reply; each has its own connection and waits in an instance
)

// unsentEvery is the shortest time between two events with the number of unsent requests.
const unsentEvery = 500 * time.Millisecond

// fireSteadily sends requests at the rate of the current run until the run's time is over, maxRated were sent, it is
// stopped, or the next run begins. Until then the run has no final verdict.
func (c *Class) fireSteadily(run int) {
	pacing := begun(c.ctx)
	c.mu.Lock()
	p := c.plan
	c.left++
	c.scene = pacing
	c.mu.Unlock()
	c.note(RunEvent{Kind: rating, Run: run, On: true})
	pacing.on.Add(1)
	c.owned.Go(func() {
		defer pacing.on.Done()
		defer pacing.end()
		unsent := c.pace(pacing.ctx, run, p)
		c.note(RunEvent{Kind: rating, Run: run, Count: unsent})
		c.leave(run)
	})
}

// pace sends each request when it is due, independent of the replies, so that a slow shop gets no fewer. It returns the
// number not sent because maxOpen requests had no reply.
func (c *Class) pace(ctx context.Context, run int, p RunPlan) (unsent uint64) {
	began, said, told := time.Now(), time.Now(), uint64(0)
	for n := 0; n < maxRated && (p.Seconds == 0 || n < p.Seconds*p.Rate); n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(p.Rate))
		if loadtest.Sleep(ctx, time.Until(due)) != nil {
			break
		}
		c.mu.Lock()
		full := c.left > maxOpen
		c.mu.Unlock()
		if full {
			unsent++
		} else if c.fire(shot{run: run}) == "" {
			break
		}
		if unsent > told && time.Since(said) > unsentEvery {
			said, told = time.Now(), unsent
			c.note(RunEvent{Kind: rating, Run: run, On: true, Count: unsent})
		}
	}
	return unsent
}

// StopRate ends the rate of the current run. Requests in flight still get their replies.
func (c *Class) StopRate() error {
	on := false
	c.look(func(s *State) { on = s.ofRun[rating].On })
	if !on {
		return wrong("rate", "no_rate")
	}
	c.stopScene()
	return nil
}
