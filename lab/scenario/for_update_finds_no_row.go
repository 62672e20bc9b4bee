package scenario

import "example.com/stock/lab"

func forUpdateFindsNoRow() lab.Scenario {
	return lab.Scenario{
		Name: "for-update-finds-no-row", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "no-row-is-a-lock"),
			byHand("naive", lab.Aborts, "look-then-insert"),
			byHand("fixed", lab.Safe, "inserts-the-row-first"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			db := newTables(b, "locks (name VARCHAR(64) PRIMARY KEY)")
			const (
				look   = "SELECT name FROM locks WHERE name = 'stock' FOR UPDATE"
				insert = "INSERT IGNORE INTO locks VALUES ('stock')"
			)
			a, other := newSession(b, db, "A"), newSession(b, db, "B")
			if b.Case.Code == "fixed" {
				a.do(insert)
				other.do(insert) // does nothing
			}
			a.do("BEGIN")
			first := a.rows(look)
			other.do("BEGIN")
			if b.Case.Code == "fixed" {
				b.Require(first == 1, "A finds the row")
				err := other.try(look + " NOWAIT")
				b.Require(lockIsHeld(err), "B is refused because of the row lock")
				b.Evidence(lab.Answer, errno(err), "second-is-kept-out")
				return lab.Safe
			}
			second := other.rows(look) // gap locks do not exclude each other
			b.Require(first == 0 && second == 0, "neither finds a row")
			if b.Case.Variant == "look-then-insert" {
				waits := a.inBackground(insert)
				a.waiting(db)
				err := other.try(insert)
				b.Evidence(lab.Answer, errDeadlock, "one-was-undone", "error", oneAborted(b, err, <-waits))
				return lab.Aborts
			}
			return bothHold(b, nil, first == 0, second == 0)
		},
	}
}
