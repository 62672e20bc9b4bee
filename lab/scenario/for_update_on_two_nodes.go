package scenario

import "example.com/stock/lab"

func forUpdateOnTwoNodes() lab.Scenario {
	return lab.Scenario{
		Name: "for-update-on-two-nodes", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedGalera},
		Cases: []lab.Case{
			{Code: "naive", Variant: onTwoNodes, Want: lab.Forecast{Outcome: lab.Aborts}},
			{Code: "fixed", Variant: onOneNode, Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
			s := newClusterShop(b)
			a := s.session(1, "A")
			a.do("BEGIN")
			read := s.read(a, "FOR UPDATE")
			if b.Case.Variant == onOneNode {
				other := s.session(1, "B")
				other.do("BEGIN")
				reading := s.reading(other, "FOR UPDATE")
				other.waiting(s.at(1))
				s.write(a, read)
				a.do("COMMIT")
				s.write(other, <-reading)
				other.do("COMMIT")
				return s.verdict(1)
			}
			other := s.session(2, "B")
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
		},
	}
}
