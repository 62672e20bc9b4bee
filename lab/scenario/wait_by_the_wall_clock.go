package scenario

import (
	"time"

	"example.com/stock/lab"
)

// waitByTheWallClock moves a simulated clock of the client, so no case waits in reality.
func waitByTheWallClock() lab.Scenario {
	return lab.Scenario{
		Name: "wait-by-the-wall-clock", Group: lab.Fairness,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Busy, "the-clock-goes-ahead"),
			byHand("naive", lab.Delays, "the-clock-goes-back"),
			byHand("fixed", lab.Safe, "the-clock-goes-ahead"),
			byHand("fixed", lab.Busy, "the-clock-goes-back"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			const wait, poll, jump = 3 * time.Second, 100 * time.Millisecond, time.Minute
			a, other := newNaiveLock(b, "A", longLease), newNaiveLock(b, "B", longLease)
			a.mustTake()
			var c clientClock
			began := c
			for {
				ok, err := other.try(b.Ctx)
				b.Must("SET NX", err)
				waited := c.elapsed - began.elapsed
				if ok {
					b.Evidence(lab.Waited, waited, "let-in", "after", waited)
					return lab.Safe
				}
				since := waited
				if b.Case.Code == "naive" {
					since = c.wall - began.wall
				}
				if since >= wait {
					b.Evidence(lab.Waited, waited, "gave-up-after", "who", "B", "waited", waited)
					if waited > wait {
						return b.Delayed(waited)
					}
					return lab.Busy
				}
				c.pass(poll)
				switch {
				case waited == 0 && b.Case.Variant == "the-clock-goes-ahead":
					c.wall += jump
					b.Note("B", "clock-jumps", "ahead", jump)
				case waited == 0:
					c.wall -= jump
					b.Note("B", "clock-goes-back", "by", jump)
				case waited == wait/3 && b.Case.Variant == "the-clock-goes-ahead":
					a.gives()
				}
			}
		},
	}
}

// A clientClock is the simulated clock of a client: what its wall clock shows, and the time that has passed, which no
// one can set (CLOCK_MONOTONIC; System.nanoTime; the monotonic reading of Go's time.Time).
type clientClock struct{ wall, elapsed time.Duration }

func (c *clientClock) pass(d time.Duration) { c.wall, c.elapsed = c.wall+d, c.elapsed+d }
