package grade

import (
	"time"

	"example.com/stock/internal/words"
)

// The holder of these scenarios is A. Its lease is the student's: LEASE_MS. B comes after it, and C after B.

// outcome judges the history, and grades a lock whose history shows no lost update by then.
func (b *bed) outcome(then verdict) verdict {
	if why, bad := oversold(b.shop.judge()); bad {
		return verdict{Oversells, why}
	}
	return then
}

// holderKilled kills the holder. Then somebody else must get the lock.
func holderKilled(b *bed) verdict {
	a, key := b.contender(spec{name: "A"}), b.key()
	other := b.contender(spec{name: "B", lease: longLease})
	a.first(key)
	a.read()
	bound, _ := b.bound(key)
	a.kill()
	other.sell(other.mustGet(key, bound, "why.killed-blocks"))
	return b.outcome(verdict{Holds, say("why.killed-holds")})
}

// blockedBy is the verdict if B was not served within bound after A's crash.
func (b *bed) blockedBy(key, why string, bound time.Duration, g grant) verdict {
	_, forever, err := redisLease(b.ctx, b.servers, key)
	b.must(err)
	rest := say("why.reply", "reply", g.last.String())
	if forever {
		rest = say("why.no-expiry")
	}
	if g.err != nil {
		rest = say("why.no-reply")
	}
	return verdict{Blocks, say(why, "wait", bound, "rest", rest)}
}

// workOutlastsLease lets the holder work for longer than its lease, while its process lives.
func workOutlastsLease(b *bed) verdict {
	return b.outlives("why.work-kept", func(a *contender) (goOn func()) {
		a.note(say("event.works", "who", a.name))
		return func() {}
	})
}

// holderFrozen freezes the holder's process for longer than its lease.
func holderFrozen(b *bed) verdict { return b.outlives("why.frozen-kept", (*contender).freeze) }

// outlives lets a holder read, do something that lasts for longer than its lease, and write. kept is the reason if no
// other contender got the lock meanwhile.
func (b *bed) outlives(kept string, begin func(a *contender) (goOn func())) verdict {
	a, key := b.contender(spec{name: "A"}), b.key()
	other := b.contender(spec{name: "B", lease: longLease})
	held := a.first(key)
	r := a.read()
	_, left := b.bound(key)
	goOn := begin(a)
	g := other.get(key, max(3*b.o.Lease, 2*left)) // longer than LEASE_MS, and than the lease that Redis shows
	if g.ok() {
		other.sell(g)
	}
	goOn()
	return b.lateHolder(a, other, held, r, g, kept)
}

// lateHolder lets the first holder write what it read before the other one had the lock, if that had it. kept is the
// reason if the other one did not get the lock meanwhile.
func (b *bed) lateHolder(a, other *contender, held grant, r reading, g grant, kept string) verdict {
	wrote := a.write(r)
	a.giveBack(held)
	switch {
	case g.err != nil:
		return verdict{Blocks, say("why.no-reply-to", "who", other.name, "within", b.o.Grace)}
	case g.ok() && wrote:
		return b.outcome(verdict{Holds, say("why.late-harmless")})
	case g.ok():
		return b.outcome(verdict{Holds, say("why.fenced", "late", held.got.fence, "current", g.got.fence)})
	}
	other.sell(other.mustGet(held.key, b.o.Wait, "why.released-blocks"))
	return b.outcome(verdict{Holds, say(kept)})
}

// moment is the wait of a contender that must not get the lock, because another one has it.
const moment = 300 * time.Millisecond

// lateRelease lets a holder whose lease has run out give back the lock that is somebody else's by now.
func lateRelease(b *bed) verdict {
	a, key := b.contender(spec{name: "A"}), b.key()
	next := b.contender(spec{name: "B", lease: longLease})
	third := b.contender(spec{name: "C", lease: longLease})
	b.stock(3)
	held := a.first(key)
	a.write(a.read())
	bound, _ := b.bound(key)
	thaw := a.freeze() // or else a watchdog would renew the lease
	g := next.get(key, bound)
	thaw()
	if !g.ok() {
		a.giveBack(held)
		return b.neverExpired(next, key, g)
	}
	r := next.read()
	sent := a.record()
	before := b.inRedis(key)
	a.giveBack(held)
	removed := before && !b.inRedis(key)
	v := b.thirdComes(next, third, g, r, say("why.late-release-holds"))
	if removed && v.grade.Failed() {
		v.why = say("why.late-removed", "command", sent.lastTo(key), "what", v.why)
	}
	return v
}

// inRedis reports whether Redis has a key whose name contains key.
func (b *bed) inRedis(key string) bool {
	left, forever, err := redisLease(b.ctx, b.servers, key)
	b.must(err)
	return left > 0 || forever
}

// neverExpired is the verdict if nobody got the lock while its holder stood still, and somebody gets it afterwards.
func (b *bed) neverExpired(next *contender, key string, g grant) verdict {
	if g.err == nil {
		g = next.get(key, b.o.Wait)
	}
	if !g.ok() {
		return b.blockedBy(key, "why.released-blocks", b.o.Wait, g)
	}
	next.sell(g)
	return b.outcome(verdict{NotTestable, say("why.never-expires")})
}

// thirdComes lets a third contender ask while the second one holds the lock. holds is the reason if it is kept out.
func (b *bed) thirdComes(next, third *contender, g grant, r reading, holds words.Text) verdict {
	in := third.get(g.key, moment)
	if in.ok() {
		third.sell(in)
	}
	wrote := next.write(r)
	next.giveBack(g)
	switch {
	case in.err != nil:
		return verdict{Blocks, say("why.no-reply-to", "who", third.name, "within", b.o.Grace)}
	case in.ok() && !wrote:
		return b.outcome(verdict{Holds, say("why.fenced", "late", g.got.fence, "current", in.got.fence)})
	case in.ok():
		return b.outcome(verdict{Holds, say("why.late-harmless")})
	}
	third.sell(third.mustGet(g.key, b.o.Wait, "why.released-blocks"))
	return b.outcome(verdict{Holds, holds})
}
