package lab

import (
	"example.com/stock/loadtest"
	"example.com/stock/stack"
)

func redlockRestart() Scenario {
	return Scenario{
		Name: "redlock-restart-without-persistence", Group: Redlock,
		Title: Text{"A node of Redlock comes back empty", "Redlock 的一个节点重启后空空如也"},
		Setup: Text{
			"One unit in stock; five masters; a lease of 60 s. A has the lock on nodes 1, 2 and 3.",
			"库存 1 件；五个主节点；租约 60 秒。A 在节点 1、2、3 上持有锁。",
		},
		Forced: Text{
			"A stops before its write. Node 3 is killed and started again. B asks and does not wait; then A goes on.",
			"A 停在写入之前。节点 3 被杀死并重新启动。B 来请求且不等待；然后 A 继续。",
		},
		Why: Text{
			"A node without persistence has forgotten the key and votes a second time within the same lease. That is why the algorithm asks for fsync on every write, or for a restart that is delayed by a lease.",
			"没有持久化的节点忘了这个键，在同一租约内又投了一票。所以算法要求每次写都 fsync，或者重启后先等一个租约的时间再参与。",
		},
		Fix: Text{
			"appendonly with appendfsync always; or contenders that do not count a node for one lease after its start (STOCK_REDLOCK_QUARANTINE, on by default).",
			"开启 appendonly 且 appendfsync always；或者竞争者在节点启动后的一个租约内不计它的票（STOCK_REDLOCK_QUARANTINE，默认开启）。",
		},
		Needs: []Need{NeedRedis, NeedRedlock},
		Cases: concat(
			stated(Oversells, "no persistence", "redlock"),
			stated(Safe, "no persistence, quarantine", "redlock"),
			stated(Safe, "append-only file", "redlock")),
		Run: func(b *Bench) Observation {
			const lease = "STOCK_REDLOCK_LEASE=60s"
			if b.Case.Variant == "append-only file" {
				b.Fresh(stack.Options{AOF: true}, NeedRedis, NeedRedlock)
			}
			apps := b.Apps(2, lease)
			first, second := apps[0], apps[1]
			if b.Case.Variant == "no persistence, quarantine" {
				// It is ready, and so this goes on, when the nodes have been up for longer than that.
				second = b.Apps(1, lease, "STOCK_REDLOCK_QUARANTINE=20s")[0]
			}
			b.Stock(1)
			nodes := b.nodes()
			unblock := nodes.block(3, 4)
			a := b.Begin(first, "A", Ask{Pause: []string{BeforeWrite}, Heedless: true}).Paused(BeforeWrite)
			unblock()
			nodes.restart(2)
			nodes.holders(Text{"after the restart", "重启之后"})
			other := b.Begin(second, "B", Ask{Pause: []string{BeforeWrite}, Wait: Once()})
			inside := other.PausedOrAnswered(BeforeWrite)
			a.Go().Reply()
			if inside {
				other.Go()
			} else {
				b.Evidence(Answer, other.record.Problem, "B was told: %s", Told(other.Reply()))
			}
			if b.Judge().Lost() {
				return Observation{Outcome: Oversells}
			}
			b.must(!inside && other.record.Outcome != loadtest.Accepted, "B is kept out")
			return Observation{Outcome: Safe}
		},
	}
}
