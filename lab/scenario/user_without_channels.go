package scenario

import (
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// userWithoutChannels makes a user with all keys and commands. Since Redis 7 such a user still has no channel, because
// acl-pubsub-default is resetchannels: https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/.
func userWithoutChannels() lab.Scenario {
	const lease = 3 * time.Second
	return lab.Scenario{
		Name: "user-without-channels", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: slices.Concat(
			[]lab.Case{
				{
					Code: "naive", Variant: "drops-the-refusal",
					Want: lab.Forecast{Outcome: lab.Delays, Within: lease},
				},
				{Code: "fixed", Variant: "reports-the-refusal", Want: lab.Forecast{Outcome: lab.Refuses}},
			},
			lab.Stated(lab.Refuses, "", "redis-rlock", "redis-watchdog"),
			lab.Stated(lab.Safe, "", "redis-setnx"), // its callers wait for no message
		),
		Run: func(b *lab.Testbed) lab.Observation {
			user, addr := "lab-"+b.SKU, b.Server(lab.NeedRedis).Addr
			b.Must("ACL SETUSER", b.Redis().Do(b.Ctx, "ACL", "SETUSER", user, "on", ">pw", "~*", "+@all",
				"resetchannels").Err())
			b.Statement("redis", "ACL SETUSER "+user+" on ~* +@all resetchannels")
			b.Defer(func() { _ = b.Redis().Do(b.Ctx, "ACL", "DELUSER", user).Err() })
			if b.Case.Code != "" {
				return waitsUnheard(b, user, lease)
			}
			app := b.Apps(1, "STOCK_REDIS_URL=redis://"+user+":pw@"+addr)[0]
			b.Stock(1)
			reply := b.Sell(app, "A", lab.Request{})
			if b.Judge(); reply.Outcome == loadtest.Accepted {
				return lab.Safe.Seen()
			}
			b.Require(reply.Problem == "backend_down", "A is told that its server is of no use")
			b.Evidence(lab.Answer, reply.Problem, "was-told-why", "problem", reply.Problem,
				"error", loadtest.ErrorText(reply.Problem, reply.Error))
			return lab.Refuses.Seen()
		},
	}
}

// waitsUnheard makes B wait for the message of A's unlock, which B's user may not hear. The naive code drops that
// error, and looks again when A's lease would have ended.
func waitsUnheard(b *lab.Testbed, user string, lease time.Duration) lab.Observation {
	a, next := newNaiveLock(b, "A", lease), newNaiveLock(b, "B", lease)
	a.mustTake()
	b.Require(!next.takes(), "B is kept out")
	conn := b.Redis().Conn()
	b.Defer(func() { _ = conn.Close() })
	b.Must("AUTH", conn.AuthACL(b.Ctx, user, "pw").Err())
	err := conn.Do(b.Ctx, "SUBSCRIBE", b.SKU).Err()
	b.Require(err != nil, "Redis refuses the subscription")
	b.Evidence(lab.Answer, err.Error(), "was-told", "who", "B", "answer", err)
	if b.Case.Code == "fixed" {
		return lab.Refuses.Seen()
	}
	left := b.TTL(b.SKU)
	a.gives()
	from := time.Now()
	b.Must("B waits", loadtest.Sleep(b.Ctx, left))
	next.mustTake()
	after := time.Since(from)
	b.Interval("B", lab.Note, "B", from, "sleeps-beside-a-free-lock", "for", after)
	b.Evidence(lab.Waited, after, "next-was-let-in", "after", after)
	return lab.Delayed(after)
}
