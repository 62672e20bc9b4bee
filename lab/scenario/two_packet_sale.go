package scenario

import "example.com/stock/lab"

// The variants of the last packet of a sale.
const (
	commitBehind = "commit-behind-statements"
	commitApart  = "commit-in-a-packet-of-its-own"
)

// betweenStatements is put before COMMIT, to widen the moment between two statements of a packet, in which nothing
// reports an abort. The abort ends it at once.
const betweenStatements = "DO SLEEP(120); "

func twoPacketSale() lab.Scenario {
	return lab.Scenario{
		Name: "two-packet-sale", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedGalera},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, commitBehind),
			byHand("fixed", lab.Aborts, commitApart),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			s := newClusterShop(b)
			a, other := s.sale(1, "A"), s.sale(2, "B")
			other.do("START TRANSACTION; SELECT quantity FROM stock WHERE sku = 'sku' FOR UPDATE")
			last := "UPDATE stock SET quantity = quantity - 1 WHERE sku = 'sku';" +
				" INSERT INTO orders (who, seen) VALUES ('B', 1); " + betweenStatements
			if b.Case.Variant == commitBehind {
				last += "COMMIT"
			}
			sent := other.inBackground(last)
			s.runs(2, "DO SLEEP")
			a.read("")
			a.write() // the change arrives at node 2 between two statements
			err := <-sent
			if err == nil && b.Case.Variant == commitApart {
				err = other.try("COMMIT")
			}
			told := int64(1) // A
			if err == nil {
				told++
			}
			for i := 1; i <= 3; i++ {
				db := s.at(i, syncWait)
				there := s.number(db, "SELECT COUNT(*) FROM orders WHERE who = 'B'")
				b.Require(there == 0, "the order of B is not on "+s.node(i).Name)
			}
			b.Evidence(lab.Served, 0, "on-no-node", "who", "B")
			seen := s.verdict(told)
			if err != nil {
				b.Require(errno(err) == errDeadlock, "B gets the error 1213")
				b.Evidence(lab.Answer, errno(err), "commit-failed", "who", "B", "error", errno(err))
				return lab.Aborts
			}
			return seen
		},
	}
}
