package scenario

import "example.com/stock/lab"

// unlockFromACallback releases a lock whose owner is a thread, from another thread.
func unlockFromACallback() lab.Scenario {
	return lab.Scenario{
		Name: "unlock-from-a-callback", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "the-callbacks-thread"),
			byHand("fixed", lab.Safe, "passes-the-owner-on"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			const locker, callback = "process-1:17", "process-1:23"
			a, other := hashLock{b, "A", locker}, hashLock{b, "B", "process-2:17"}
			b.Require(a.enter(lab.Patience) == 1, "A gets the lock")
			b.Note("A", "callback-runs-in", "thread", callback)
			owner := callback
			if b.Case.Code == "fixed" {
				owner = locker
			}
			if a.leave(owner) < 0 {
				b.Evidence(lab.Answer, nil, "was-told", "who", "A", "answer", errNotLocked)
				before := b.TTL(b.SKU)
				b.Must("PEXPIRE", b.Redis().PExpire(b.Ctx, b.SKU, 2*before).Err())
				b.Statement("A", "redis", "PEXPIRE")
				b.Note("A", "watchdog-renews-it")
			}
			if other.enter(lab.Patience) == 1 {
				b.Evidence(lab.Answer, nil, "got-the-lock")
				return lab.Safe
			}
			b.Evidence(lab.Hold, nil, "kept-by-a-finished-call", "owner", locker)
			return lab.Blocks
		},
	}
}
