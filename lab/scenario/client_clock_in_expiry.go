package scenario

import (
	"slices"
	"time"

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
				byHand("naive", lab.Oversells, "a-minute-behind-the-server"),
				byHandWithin(lease+behind, "naive", "4-s-ahead-of-the-server"),
				byHand("fixed", lab.Safe, "a-minute-behind-the-server"),
			},
			lab.Cases("a-minute-behind-the-server", "redis-setnx", "redis-watchdog"),
		),
		Predict: excludes,
		Run: func(b *lab.Testbed) lab.Outcome {
			b.Fresh(server.Options{Clocks: true}, lab.NeedRedis)
			server := b.Server(lab.NeedRedis)
			if b.Case.Variant == "4-s-ahead-of-the-server" {
				b.Must("set the clock of redis", server.SetClock(-behind))
				b.Note("redis", "clock-goes-back", "by", behind)
				from := time.Now()
				b.Require(setUntil(b, "A", lease), "A gets the lock")
				return diesWithALongKey(b, from, lease, 2*lease)
			}
			jumpClock(b, "redis", server, time.Minute)
			if b.Case.Strategy != "" {
				apps := b.Apps(2)
				return twoBuyers(b, apps[0], apps[1])
			}
			const long = 10 * time.Second
			first, second := setUntil(b, "A", long), setUntil(b, "B", long)
			b.Require(first, "A gets the lock")
			return bothHold(b, []bool{first, second}, first, second)
		},
	}
}

// setUntil takes the lock. The naive code gives an expiry time from the client's clock, the fixed code a lease that
// the server measures.
func setUntil(b *lab.Testbed, who string, lease time.Duration) bool {
	unit, n := "PX", lease.Milliseconds()
	if b.Case.Code == "naive" {
		unit, n = "PXAT", time.Now().Add(lease).UnixMilli()
	}
	ok, err := setFor(b, who, unit, n)
	b.Must("SET", err)
	return ok
}
