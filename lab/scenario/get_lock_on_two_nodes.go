package scenario

import "example.com/stock/lab"

func getLockOnTwoNodes() lab.Scenario {
	return lab.Scenario{
		Name: "get-lock-on-two-nodes", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedGalera},
		Cases: []lab.Case{
			{Code: "naive", Variant: onTwoNodes, Want: lab.Forecast{Outcome: lab.Oversells}},
			{Code: "fixed", Variant: onOneNode, Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
			s := newClusterShop(b)
			node := 2
			if b.Case.Variant == onOneNode {
				node = 1
			}
			a, other := s.session(1, "A"), s.session(node, "B")
			const get, release = "SELECT GET_LOCK('sku', 0)", "SELECT RELEASE_LOCK('sku')"
			b.Require(b.Int("A", row{a}, get) == 1, "A gets the lock")
			read := s.read(a, "")
			granted := b.Int("B", row{other}, get) == 1
			b.Evidence(lab.Hold, granted, "granted-at-the-same-time", "granted", granted, "one", a.on,
				"other", other.on)
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
		},
	}
}
