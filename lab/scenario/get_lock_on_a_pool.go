package scenario

import "example.com/stock/lab"

func getLockOnAPool() lab.Scenario {
	return lab.Scenario{
		Name: "get-lock-on-a-pool", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "any-connection"),
			byHand("fixed", lab.Safe, "one-connection"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			program, other := b.DB(lab.NeedMySQL), newSession(b, b.ServiceDB(), "B")
			const get, release = "SELECT GET_LOCK(?, 0)", "SELECT COALESCE(RELEASE_LOCK(?), -1)"
			name := b.SKU
			if b.Case.Code == "fixed" {
				conn := newSession(b, program, "A")
				b.Require(conn.count(get, name) == 1, "A gets the lock")
				b.Require(conn.count(release, name) == 1, "A releases the lock")
			} else {
				b.Require(b.Int("A", program, get, name) == 1, "A gets the lock")
				somebody := newSession(b, program, "somebody") // the pool reuses its idle connection
				released := b.Int("A", program, release, name)
				b.Require(somebody.Close() == nil, "the pool has its connection back")
				b.Evidence(lab.Answer, released, "released-nothing", "answer", released)
			}
			if other.count(get, name) == 1 {
				other.count(release, name)
				b.Evidence(lab.Answer, 1, "got-the-lock")
				return lab.Safe
			}
			by := other.count("SELECT IS_USED_LOCK(?)", name)
			state := other.count(
				"SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND command = 'Sleep'", by)
			b.Evidence(lab.Served, by, "held-by-idle-connection", "connection", by, "asleep", state)
			return lab.Blocks
		},
	}
}
