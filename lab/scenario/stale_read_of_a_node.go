package scenario

import "example.com/stock/lab"

// The variants of a read on another node.
const (
	readsAtOnce = "reads-at-once"
	waitsToRead = "waits-with-wsrep-sync-wait"
)

func staleReadOfANode() lab.Scenario {
	return lab.Scenario{
		Name: "stale-read-of-a-node", Group: lab.Writers,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedGalera},
		Cases: []lab.Case{
			{Code: "naive", Variant: readsAtOnce, Want: lab.Forecast{Outcome: lab.Oversells}},
			{Code: "fixed", Variant: waitsToRead, Want: lab.Forecast{Outcome: lab.Safe}},
		},
		// A and B take turns, as under any right lock: A has committed before B begins.
		Run: func(b *lab.Testbed) lab.Observation {
			s := newClusterShop(b)
			a, other := s.session(1, "A"), s.session(2, "B")
			if b.Case.Variant == waitsToRead {
				other = s.session(2, "B", syncWait)
			}
			release := s.hold(2)
			s.write(a, s.read(a, ""))
			if b.Case.Variant == waitsToRead {
				reading := s.reading(other, "")
				s.runs(2, "SELECT quantity")
				b.Note(other.on, "read-waits")
				release()
				s.write(other, <-reading)
				return s.verdict(1)
			}
			seen := s.read(other, "")
			b.Evidence(lab.Served, seen, "stale-node", "node", other.on, "old", seen)
			release()
			s.replicated()
			s.write(other, seen)
			return s.verdict(2)
		},
	}
}
