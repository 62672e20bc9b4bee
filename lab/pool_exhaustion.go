package lab

import (
	"context"
	"time"
)

func poolExhaustion() Scenario {
	return Scenario{
		Name: "pool-exhaustion", Group: MySQL,
		Title:  Text{"Waiters take the connection that the holder needs", "等待者占走了持有者需要的连接"},
		Setup:  Text{"A row lock in MariaDB through a pool of two connections. The holder writes its order on a second connection.", "经一个只有两条连接的池在 MariaDB 上锁行；持有者要用第二条连接写订单。"},
		Forced: Text{"A locks the row. B asks for it and waits, on the second connection. Then A wants a connection to write its order.", "A 锁住这一行；B 在第二条连接上请求它并等待；然后 A 需要一条连接来写订单。"},
		Why: Text{
			"A waits for the pool, which waits for B, who waits for the row, which A has. The database sees one of the two halves and reports no deadlock.",
			"A 等连接池，池等 B，B 等那一行，而那一行在 A 手里。数据库只看到其中一半，不会报死锁。",
		},
		Fix: Text{
			"A pool of its own for those who wait for locks, or at most as many waiters as leave a connection for each holder; or one connection for lock and work.",
			"给等锁的人单独一个池，或限制等待者数量、为每个持有者留一条连接；或者加锁与业务用同一条连接。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "one pool", Want: Forecast{Outcome: Blocks}},
			{Code: "mended", Variant: "a pool for locks", Want: Forecast{Outcome: Safe}},
		},
		Run: func(b *Bench) Observation {
			locks := b.DB()
			look := b.ServiceDB()
			b.Exec("mysql", locks, "CREATE TABLE stock (sku INT PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB")
			b.Exec("mysql", locks, "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB")
			b.Exec("mysql", locks, "INSERT INTO stock VALUES (1, 10)")
			work, enough := locks, 2*time.Second
			if b.Case.Code == "mended" {
				work, enough = b.another(locks), patience
			}
			locks.SetMaxOpenConns(2)
			a, other := b.session(locks, "A"), b.session(locks, "B")
			const lock = "SELECT quantity FROM stock WHERE sku = 1 FOR UPDATE"
			a.do("BEGIN")
			a.do(lock)
			other.do("BEGIN")
			waits := other.beside(lock)
			other.waiting(look)
			ctx, stop := context.WithTimeout(b.Ctx, enough)
			defer stop()
			_, err := work.ExecContext(ctx, "INSERT INTO orders VALUES ()")
			stalled := ctx.Err() != nil
			b.Note("A", "INSERT INTO orders on a second connection: %v", err)
			if stalled {
				s := locks.Stats()
				b.Evidence(Served, s.InUse, "the pool: %d of %d connections in use, %d waited for one", s.InUse, s.MaxOpenConnections, s.WaitCount)
				b.Evidence(Answer, nil, "A could not write its order, and B could not have the row")
			} else {
				b.Must("write the order", err)
			}
			a.do("COMMIT")
			b.Must("B: "+lock, <-waits)
			other.do("COMMIT")
			if stalled {
				return Observation{Outcome: Blocks}
			}
			return Observation{Outcome: Safe}
		},
	}
}
