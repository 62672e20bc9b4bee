package scenario

import (
	"bytes"
	"context"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func revocationLost() lab.Scenario {
	return lab.Scenario{
		Name: "revocation-lost", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			{Code: "naive", Variant: "asks-once", Want: lab.Forecast{Outcome: lab.Blocks}},
			{Strategy: "redis-watchdog", Want: lab.Forecast{Outcome: lab.Delays, Within: time.Second}}, // repeated then
		},
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code == "naive" {
				return askOnce(b)
			}
			p := b.Proxy(lab.NeedRedis)
			keeper, other := b.Apps(1, append(keeping(), b.Via(lab.NeedRedis))...)[0], b.Apps(1, keeping()...)[0]
			b.Stock(50)
			b.Watch(other)
			keep(b, other, "W") // its requests queue up from the first on, so that it repeats none at once
			keep(b, keeper, "K")
			wanted := []byte("\nwanted")
			lost := b.Trap(p, wire.Trap{
				On: wire.ToClient, Do: wire.Rewrite,
				Match: func(m []byte) bool { return bytes.Contains(m, wanted) && bytes.Contains(m, []byte(b.SKU)) },
				// The client ignores a message that it does not understand.
				Rewrite: func(m []byte) []byte { return bytes.ReplaceAll(m, wanted, []byte("\nlost..")) },
			})
			next := b.Begin(other, "B", lab.Request{Wait: lab.For(lab.Patience)})
			b.Sprung(lost, "revocation-is-lost")
			reply := next.Reply()
			b.Judge()
			if reply.Outcome == loadtest.Busy {
				b.Evidence(lab.Waited, next.Took(), "gave-up-after", "who", "B", "waited", next.Took())
				return lab.Blocks.Seen()
			}
			b.Require(reply.Outcome == loadtest.Accepted, "B is served")
			b.Evidence(lab.Waited, next.Took(), "let-in", "after", next.Took())
			return lab.Delayed(next.Took())
		},
	}
}

// askOnce wants a lock whose idle keeper renews it until it is asked. The only question is asked while the keeper's
// subscription is broken.
func askOnce(b *lab.Testbed) lab.Observation {
	const lease, patience = time.Second, 3 * time.Second
	c := b.Redis()
	ok, err := newNaiveLock(c, b.SKU, lease).try(b.Ctx)
	b.Must("SET NX", err)
	b.Require(ok, "the keeper has the lock")
	b.Go(func(ctx context.Context) {
		for loadtest.Sleep(ctx, lease/4) == nil {
			c.PExpire(ctx, b.SKU, lease)
		}
	})
	heard, err := c.Publish(b.Ctx, b.SKU+"-wanted", "B").Result()
	b.Must("PUBLISH", err)
	b.Require(heard == 0, "the keeper does not hear B")
	b.Note("B", "asks-the-keeper")
	from := time.Now()
	ctx, cancel := context.WithTimeout(b.Ctx, patience)
	defer cancel()
	ok, err = newNaiveLock(c, b.SKU, lease).lock(ctx)
	b.Must("SET NX", err)
	if waited := time.Since(from); ok {
		b.Evidence(lab.Waited, waited, "let-in", "after", waited)
		return lab.Delayed(waited)
	}
	b.Evidence(lab.Waited, patience, "kept-out-past-lease", "for", patience)
	return lab.Blocks.Seen()
}
