package lab

import (
	"time"

	"example.com/stock/loadtest"
)

func lockRowLeft() Scenario {
	return Scenario{
		Name: "lock-row-left-after-a-crash", Group: MySQL,
		Title:  Text{"The lock row that a crash leaves behind", "崩溃后留下的锁行"},
		Setup:  Text{"A lock table in MariaDB: whoever can insert the row has the lock.", "MariaDB 里的一张锁表：谁能插入这一行，谁就持有锁。"},
		Forced: Text{"A inserts the row and is killed. Then B asks.", "A 插入锁行后被杀死；然后 B 来请求。"},
		Why: Text{
			"A committed row does not know that its owner is dead. Without a time limit every INSERT fails with 1062 until somebody deletes it by hand.",
			"已提交的行不知道主人死了。没有时限的话，每次 INSERT 都得到 1062，直到有人手工删除。",
		},
		Fix: Text{
			"A time limit by the server's clock in the row; whoever finds it passed takes the row over and counts the fence up.",
			"在行里记下按服务器时钟计的到期时间；发现已过期者接管该行，并把栅栏令牌加一。",
		},
		Needs:   []Need{NeedRedis, NeedMySQL},
		Cases:   concat([]Case{{Code: "naive", Variant: "no time limit", Want: Forecast{Outcome: Blocks}}}, Cases("", "mysql-table")),
		Predict: func(_ Case, p Promise) Forecast { return freed(p) },
		Run: func(b *Bench) Observation {
			if b.Case.Strategy != "" {
				apps := b.Apps(2)
				b.Stock(1)
				b.Begin(apps[0], "A", Ask{Pause: []string{AfterLock}}).Paused(AfterLock)
				killed := b.Kill(apps[0])
				reply := b.Sell(apps[1], "B", Ask{Wait: For(patience)})
				if reply.Outcome != loadtest.Accepted {
					b.Fatalf("B was not let in within %v: %s", patience, Told(reply))
				}
				after := b.calls[1].record.AcquiredAt.Sub(killed)
				b.Evidence(Waited, ms(after), "B was let in %v after the crash", after.Round(time.Millisecond))
				b.Judge()
				return Observation{Outcome: Delays, After: after}
			}
			db := b.DB()
			b.Exec("mysql", db, "CREATE TABLE locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL) ENGINE=InnoDB")
			const insert = "INSERT INTO locks VALUES ('sku', ?)"
			a, other := b.session(db, "A"), b.session(db, "B")
			a.do(insert, "A")
			b.Exec("mysql", db, "KILL CONNECTION ?", a.id)
			b.Evidence(Served, a.id, "mysql: the connection of A is gone")
			err := other.try(insert, "B")
			b.must(errno(err) == errDuplicate, "B is told 1062")
			b.Evidence(Answer, errno(err), "B was told: %v", err)
			rows := b.Int("mysql", db, "SELECT COUNT(*) FROM locks WHERE owner = 'A'")
			b.Evidence(Served, rows, "mysql: the row of A is there, and nothing in it says until when")
			return Observation{Outcome: Blocks}
		},
	}
}
