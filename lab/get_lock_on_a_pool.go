package lab

import "database/sql"

func getLockOnAPool() Scenario {
	return Scenario{
		Name: "get-lock-on-a-pool", Group: MySQL,
		Title:  Text{"GET_LOCK through a pool of connections", "经连接池使用 GET_LOCK"},
		Setup:  Text{"A named lock of MariaDB, and a program that speaks to it through database/sql.", "MariaDB 的命名锁，程序经 database/sql 访问。"},
		Forced: Text{"A takes the lock with one query. Before it releases it with another, a query of somebody else has taken the connection out of the pool. Then B, a program of its own, asks for the lock.", "A 用一次查询拿到锁；在用另一次查询释放之前，别人的查询从池里取走了那条连接。随后另一个程序 B 请求这把锁。"},
		Why: Text{
			"The lock belongs to the connection, not to the program. RELEASE_LOCK on another connection releases nothing and says so with 0, which nobody reads; the pool keeps the connection, and with it the lock, as long as the program lives.",
			"锁属于连接，而不属于程序。在另一条连接上 RELEASE_LOCK 什么也没释放，它用返回值 0 说明了这一点，却没人看；连接池留着那条连接，也就留着锁，直到程序结束。",
		},
		Fix: Text{
			"One connection for both (sql.Conn), kept as long as the lock is; and read the answer of RELEASE_LOCK.",
			"两次查询用同一条连接（sql.Conn），并在持锁期间一直占住；还要看 RELEASE_LOCK 的返回值。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: concat([]Case{
			{Code: "naive", Variant: "any connection", Want: Forecast{Outcome: Blocks}},
			{Code: "mended", Variant: "one connection", Want: Forecast{Outcome: Safe}},
		}),
		Quick: true,
		Run: func(b *Bench) Observation {
			program, other := b.DB(), b.session(b.ServiceDB(), "B")
			name := b.SKU
			ask := func(who string, on interface {
				QueryRow(query string, args ...any) *sql.Row
			}, function string,
			) int64 {
				return b.Int(who, on, "SELECT COALESCE("+function+", -1)", name)
			}
			if b.Case.Code == "mended" {
				conn := b.session(program, "A")
				b.must(ask("A", row{conn}, "GET_LOCK(?, 0)") == 1, "A gets the lock")
				b.must(ask("A", row{conn}, "RELEASE_LOCK(?)") == 1, "A releases the lock")
			} else {
				b.must(ask("A", program, "GET_LOCK(?, 0)") == 1, "A gets the lock")
				somebody := b.session(program, "somebody") // the pool gives out the connection that it has
				released := ask("A", program, "RELEASE_LOCK(?)")
				b.must(somebody.Close() == nil, "the pool has its connection back")
				b.Evidence(Answer, released, "RELEASE_LOCK answered %d: it released nothing", released)
			}
			if ask("B", row{other}, "GET_LOCK(?, 0)") == 1 {
				ask("B", row{other}, "RELEASE_LOCK(?)")
				b.Evidence(Answer, 1, "B asked for the lock and got it")
				return Observation{Outcome: Safe}
			}
			by := b.Int("mysql", row{other}, "SELECT IS_USED_LOCK(?)", name)
			state := b.Int("mysql", row{other}, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND command = 'Sleep'", by)
			b.Evidence(Served, by, "mysql: the lock is held by connection %d, which does nothing (%d of 1 asleep)", by, state)
			return Observation{Outcome: Blocks}
		},
	}
}

// row makes a session ask as a pool does.
type row struct{ *session }

func (r row) QueryRow(query string, args ...any) *sql.Row {
	return r.QueryRowContext(r.b.Ctx, query, args...)
}
