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
			{Code: "naive", Variant: getLockOnTwoNodes, Want: lab.Forecast{Outcome: lab.Oversells}},
			{Code: "fixed", Variant: getLockOnOneNode, Want: lab.Forecast{Outcome: lab.Safe}},
			{Code: "naive", Variant: forUpdateOnTwoNodes, Want: lab.Forecast{Outcome: lab.Aborts}},
			{Code: "fixed", Variant: forUpdateOnOneNode, Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
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
func (s *clusterShop) underGetLock(node int) lab.Observation {
	b, a, other := s.b, s.session(1, "A"), s.session(node, "B")
	const get, release = "SELECT GET_LOCK('sku', 0)", "SELECT RELEASE_LOCK('sku')"
	b.Require(b.Int("A", row{a}, get) == 1, "A gets the lock")
	read := s.read(a, "")
	granted := b.Int("B", row{other}, get) == 1
	b.Evidence(lab.Hold, granted, "granted-at-the-same-time", "granted", granted, "one", a.on, "other", other.on)
	if granted {
		seen := s.read(other, "")
		s.write(a, read)
		s.replicated()
		s.write(other, seen)
		return s.verdict(2)
	}
	s.write(a, read)
	b.Int("A", row{a}, release)
	b.Require(b.Int("B", row{other}, get) == 1, "B gets the lock after A")
	s.write(other, s.read(other, ""))
	return s.verdict(1)
}

// forUpdateTogether lets A and B lock the row at one node: B waits.
func (s *clusterShop) forUpdateTogether() lab.Observation {
	a, other := s.session(1, "A"), s.session(1, "B")
	a.do("BEGIN")
	read := s.read(a, "FOR UPDATE")
	other.do("BEGIN")
	reading := s.reading(other, "FOR UPDATE")
	other.waiting(s.at(1))
	s.write(a, read)
	a.do("COMMIT")
	s.write(other, <-reading)
	other.do("COMMIT")
	return s.verdict(1)
}

// forUpdateApart lets A and B lock the row at two nodes: neither waits, and the second COMMIT fails.
func (s *clusterShop) forUpdateApart() lab.Observation {
	b, a, other := s.b, s.session(1, "A"), s.session(2, "B")
	a.do("BEGIN")
	read := s.read(a, "FOR UPDATE")
	other.do("BEGIN")
	seen := s.read(other, "FOR UPDATE") // returns although A has the row
	b.Evidence(lab.Hold, []int{read, seen}, "both-have-the-row", "one", a.on, "other", other.on)
	s.write(a, read)
	s.write(other, seen)
	a.do("COMMIT")
	err := other.try("COMMIT")
	b.Require(errno(err) == errDeadlock, "the COMMIT of B fails with 1213")
	b.Evidence(lab.Answer, errno(err), "commit-failed", "who", "B", "error", errno(err))
	b.Require(s.verdict(1) == lab.Safe.Seen(), "one sale is in the books, and one customer was told of one")
	return lab.Aborts.Seen()
}
