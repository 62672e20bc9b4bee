package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
)

// clientClockInExpiry is known from rueidislock, which sends PXAT and PEXPIREAT with the client's time:
// https://github.com/redis/rueidis, rueidislock.
func clientClockInExpiry() lab.Scenario {
	const lease, behind = time.Second, 4 * time.Second
	return lab.Scenario{
		Name: "client-clock-in-expiry", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedClocks},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "a-minute-behind-the-server", Want: lab.Forecast{Outcome: lab.Oversells}},
				{
					Code:    "naive",
					Variant: "4-s-ahead-of-the-server",
					Want:    lab.Forecast{Outcome: lab.Delays, Within: lease + behind},
				},
				{Code: "fixed", Variant: "a-minute-behind-the-server", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			lab.Cases("a-minute-behind-the-server", "redis-setnx", "redis-watchdog"),
		),
		Predict: excludes,
		Run: func(b *lab.Testbed) lab.Observation {
			b.Fresh(server.Options{Clocks: true}, lab.NeedRedis)
			server := b.Server(lab.NeedRedis)
			if b.Case.Variant == "4-s-ahead-of-the-server" {
				b.Must("set the clock of redis", server.SetClock(-behind))
				b.Note("redis", "clock-goes-back", "by", behind)
				return diesWithALongKey(b, lease)
			}
			jumpClock(b, "redis", server, time.Minute)
			if b.Case.Strategy != "" {
				apps := b.Apps(2)
				return twoBuyers(b, apps[0], apps[1])
			}
			const long = 10 * time.Second
			first, second := setUntil(b, "A", long), setUntil(b, "B", long)
			b.Evidence(lab.Hold, []bool{first, second}, "both-hold", "a", first, "b", second)
			if first && second {
				return bothSell(b, "A", "B")
			}
			b.Require(first, "A gets the lock")
			return lab.Safe.Seen()
		},
	}
}

// setUntil takes the lock. The naive code gives an expiry time from the client's clock, the fixed code a lease that
// the server measures.
func setUntil(b *lab.Testbed, who string, lease time.Duration) bool {
	args := []any{"SET", b.SKU, who, "NX", "PX", lease.Milliseconds()}
	if b.Case.Code == "naive" {
		args = []any{"SET", b.SKU, who, "NX", "PXAT", time.Now().Add(lease).UnixMilli()}
	}
	err := b.Redis().Do(b.Ctx, args...).Err()
	if !errors.Is(err, redis.Nil) {
		b.Must("SET", err)
	}
	b.Statement(who, fmt.Sprintf("SET NX %v %v: %t", args[4], args[5], err == nil))
	return err == nil
}

// diesWithALongKey makes A take the lock and die, while B waits for it.
func diesWithALongKey(b *lab.Testbed, lease time.Duration) lab.Observation {
	from := time.Now()
	b.Require(setUntil(b, "A", lease), "A gets the lock")
	b.Note("A", "gets-it-and-dies")
	b.TTL(b.SKU)
	patient, cancel := context.WithTimeout(b.Ctx, lab.Patience)
	defer cancel()
	ok, err := newNaiveLock(b, "B", lab.Patience).lock(patient)
	b.Must("B waits", err)
	b.Require(ok, "B gets the lock")
	after := time.Since(from)
	b.Require(after > 2*lease, "the key outlives its lease")
	b.Evidence(lab.Waited, after, "let-in-past-the-lease", "after", after, "lease", lease)
	return lab.Delayed(after)
}
