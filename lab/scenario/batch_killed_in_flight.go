package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

// The variants of an instance that is killed with a batch in flight.
const (
	beforeCommit = "killed-before-the-write-is-final"
	afterCommit  = "killed-after-the-write-is-final"
)

func batchKilled() lab.Scenario {
	return lab.Scenario{
		Name: "batch-killed-in-flight", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "answers-before-it-writes", Want: lab.Forecast{Outcome: lab.Oversells}},
			},
			on("mysql", lab.Stated(lab.Safe, beforeCommit, "merged")),
			on("mysql", lab.Stated(lab.Safe, afterCommit, "merged")),
			on("redis", lab.Stated(lab.Safe, afterCommit, "merged")),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return answerFirst(b)
			}
			h := holdABatch(b, 100)
			do := wire.Hold
			if b.Case.Variant == afterCommit {
				do = wire.HoldReply
			}
			snare := b.Trap(h.proxy, wire.Trap{On: wire.ToServer, Do: do, Match: h.lastMessage()})
			h.letGo()
			b.Sprung(snare, "batch-is-in-flight")
			b.Kill(h.apps[0])
			h.proxy.Cut() // as the kernel does with the connections of a dead process
			next := b.Begin(h.apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
			b.Require(h.crowd.Count()[string(loadtest.Unknown)] == crowd, "none of the batch has a reply")
			b.Require(next.Reply().Outcome == loadtest.Accepted, "the next customer is served by the other instance")
			j := b.Judge()
			of := len(j.Orders) - 3 // W, A and B
			counted(b, of, crowd)
			switch {
			case j.Lost():
				return lab.Oversells.Seen()
			case of != 0 && of != crowd:
				return lab.HalfDone.Seen()
			}
			return lab.Safe.Seen()
		},
	}
}

// answerFirst sells three units by a counter in memory, replies to the three customers, and dies before it writes the
// sum: a write-behind batch. The next process reads the old stock from the database.
func answerFirst(b *lab.Testbed) lab.Observation {
	shop := newNaiveShop(b, 3)
	read := func(who string) int64 { return b.Int(who, shop.db, "SELECT quantity FROM stock WHERE sku = 'sku'") }
	sold := 0
	sell := func(who string, left int64) {
		for ; left > 0; left-- {
			sold++
			b.Note(who, "answers-from-memory", "left", left-1)
		}
	}
	sell("A", read("A"))
	b.Note("A", "dies-before-it-writes")
	sell("B", read("B"))
	b.Exec("B", shop.db, "UPDATE stock SET quantity = quantity - 3 WHERE sku = 'sku'")
	left := read("mysql")
	b.Evidence(lab.Balance, left, "balance", "initial", 3, "sold", sold, "left", left)
	if int64(sold) > 3-left {
		return lab.Oversells.Seen()
	}
	return lab.Safe.Seen()
}
