package scenario

import "example.com/stock/lab"

// The locks of the database.
const (
	getLockOnTwoNodes   = "get-lock-on-two-nodes"
	getLockOnOneNode    = "get-lock-on-one-node"
	forUpdateOnTwoNodes = "for-update-on-two-nodes"
	forUpdateOnOneNode  = "for-update-on-one-node"
)

func lockOnTwoNodes() lab.Scenario {
	return lab.Scenario{
		Name: "lock-on-two-nodes", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedGalera},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, getLockOnTwoNodes),
			byHand("fixed", lab.Safe, getLockOnOneNode),
			byHand("naive", lab.Aborts, forUpdateOnTwoNodes),
			byHand("fixed", lab.Safe, forUpdateOnOneNode),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			s := newClusterShop(b)
			switch b.Case.Variant {
			case getLockOnTwoNodes:
				return s.underGetLock(2)
			case getLockOnOneNode:
				return s.underGetLock(1)
			case forUpdateOnTwoNodes:
				return s.forUpdateApart()
			default:
				return s.forUpdateTogether()
			}
		},
	}
}

// underGetLock lets A buy at node 1, and B at the given one.
func (s *clusterShop) underGetLock(node int) lab.Outcome {
	b, a, other := s.b, s.sale(1, "A"), s.sale(node, "B")
	const get, release = "SELECT GET_LOCK('sku', 0)", "SELECT RELEASE_LOCK('sku')"
	b.Require(a.count(get) == 1, "A gets the lock")
	a.read("")
	granted := other.count(get) == 1
	b.Evidence(lab.Hold, granted, "granted-at-the-same-time", "granted", granted, "one", a.on, "other", other.on)
	if granted {
		other.read("")
		a.write()
		s.replicated()
		other.write()
		return s.verdict(2)
	}
	a.write()
	a.count(release)
	b.Require(other.count(get) == 1, "B gets the lock after A")
	other.read("")
	other.write()
	return s.verdict(1)
}

// forUpdateTogether lets A and B lock the row at one node: B waits.
func (s *clusterShop) forUpdateTogether() lab.Outcome {
	a, other := s.sale(1, "A"), s.sale(1, "B")
	a.do("BEGIN")
	a.read("FOR UPDATE")
	other.do("BEGIN")
	reading := other.reading("FOR UPDATE")
	other.waiting(s.at(1))
	a.write()
	a.commit()
	s.b.Must("B: read", <-reading)
	other.write()
	other.commit()
	return s.verdict(1)
}

// forUpdateApart lets A and B lock the row at two nodes: neither waits, and the second COMMIT fails.
func (s *clusterShop) forUpdateApart() lab.Outcome {
	b, a, other := s.b, s.sale(1, "A"), s.sale(2, "B")
	a.do("BEGIN")
	a.read("FOR UPDATE")
	other.do("BEGIN")
	other.read("FOR UPDATE") // returns although A has the row
	b.Evidence(lab.Hold, []int64{a.seen, other.seen}, "both-have-the-row", "one", a.on, "other", other.on)
	a.write()
	other.write()
	a.commit()
	err := other.try("COMMIT")
	b.Require(errno(err) == errDeadlock, "the COMMIT of B fails with 1213")
	b.Evidence(lab.Answer, errno(err), "commit-failed", "who", "B", "error", errno(err))
	b.Require(s.verdict(1) == lab.Safe, "one sale is in the books, and one customer was told of one")
	return lab.Aborts
}
