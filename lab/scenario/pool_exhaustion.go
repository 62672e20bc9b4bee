package scenario

import (
	"context"
	"time"

	"example.com/stock/lab"
)

func poolExhaustion() lab.Scenario {
	return lab.Scenario{
		Name: "pool-exhaustion", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "one-pool"),
			byHand("fixed", lab.Safe, "a-pool-for-locks"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			locks := newTables(b,
				"stock (sku INT PRIMARY KEY, quantity INT NOT NULL)",
				"orders (id INT AUTO_INCREMENT PRIMARY KEY)",
			)
			look := b.ServiceDB()
			b.Exec("mysql", locks, "INSERT INTO stock VALUES (1, 10)")
			work, enough := locks, 2*time.Second
			if b.Case.Code == "fixed" {
				work, enough = secondPool(b, locks, ""), lab.Patience
			}
			locks.SetMaxOpenConns(2)
			a, other := newSession(b, locks, "A"), newSession(b, locks, "B")
			const lock = "SELECT quantity FROM stock WHERE sku = 1 FOR UPDATE"
			a.do("BEGIN")
			a.do(lock)
			other.do("BEGIN")
			waits := other.inBackground(lock)
			other.waiting(look)
			ctx, stop := context.WithTimeout(b.Ctx, enough)
			defer stop()
			_, err := work.ExecContext(ctx, "INSERT INTO orders VALUES ()")
			stalled := ctx.Err() != nil
			b.Note("A", "insert-on-second-connection", "error", err)
			if stalled {
				s := locks.Stats()
				b.Evidence(lab.Served, s.InUse, "pool", "in_use", s.InUse, "size", s.MaxOpenConnections, "waited",
					s.WaitCount)
				b.Evidence(lab.Answer, nil, "both-are-stuck")
			} else {
				b.Must("write the order", err)
			}
			a.do("COMMIT")
			b.Must("B: "+lock, <-waits)
			other.do("COMMIT")
			if stalled {
				return lab.Blocks
			}
			return lab.Safe
		},
	}
}
