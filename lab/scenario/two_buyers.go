package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// twoBuyers sells the last unit to A, and to B if the lock admits B.
func twoBuyers(b *lab.Testbed, first, second *lab.App) lab.Outcome {
	b.Stock(1)
	if b.Promise.Exclusive && b.Promise.Scope == loadtest.Cluster {
		b.Watch(second)
	}
	point := lastPoint(b.Case.Strategy)
	a := b.BeginPaused(first, "A", point, lab.Request{})
	other := b.Begin(second, "B", lab.Request{Pause: []string{point}, Wait: lab.Once()})
	inside := other.PausedOrAnswered(point)
	a.Go()
	a.Reply()
	if inside {
		other.Go()
	}
	if other.Reply().Outcome == loadtest.Busy {
		if !inside {
			b.Evidence(lab.Answer, nil, "turned-away")
		}
		b.Sell(second, "B2", lab.Request{})
	}
	return b.Judge().Seen()
}

// knock sends a customer who does not wait for the lock, and reports whether it is let in.
func knock(b *lab.Testbed, app *lab.App, who string) (c *lab.Call, inside bool) {
	c = b.Begin(app, who, lab.Request{Pause: []string{lab.BeforeWrite}, Wait: lab.Once()})
	return c, c.PausedOrAnswered(lab.BeforeWrite)
}

// thirdIsLetIn sends C while B is between its read and its write, and reports whether C is let in. Then both go on.
func thirdIsLetIn(b *lab.Testbed, app *lab.App, second *lab.Call) bool {
	third, inside := knock(b, app, "C")
	second.Go().Reply()
	if inside {
		b.Evidence(lab.Hold, nil, "third-is-let-in")
		third.Go().Reply()
	}
	return inside
}

// lastPoint returns the last pause point before the write of a sale. If read and write are one step, it is the point
// before that step.
func lastPoint(strategy string) string {
	if slices.Contains([]string{"atomic", "merged"}, strategy) {
		return lab.AfterLock
	}
	return lab.BeforeWrite
}
