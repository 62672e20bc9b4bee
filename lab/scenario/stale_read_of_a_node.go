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
			byHand("naive", lab.Oversells, readsAtOnce),
			byHand("fixed", lab.Safe, waitsToRead),
		},
		// A and B take turns, as under any right lock: A has committed before B begins.
		Run: func(b *lab.Testbed) lab.Outcome {
			s := newClusterShop(b)
			a, other := s.sale(1, "A"), s.sale(2, "B")
			if b.Case.Variant == waitsToRead {
				other = s.sale(2, "B", syncWait)
			}
			release := s.hold(2)
			a.read("")
			a.write()
			if b.Case.Variant == waitsToRead {
				reading := other.reading("")
				s.runs(2, "SELECT quantity")
				b.Note(other.on, "read-waits")
				release()
				b.Must("B: read", <-reading)
				other.write()
				return s.verdict(1)
			}
			other.read("")
			b.Evidence(lab.Served, other.seen, "stale-node", "node", other.on, "old", other.seen)
			release()
			s.replicated()
			other.write()
			return s.verdict(2)
		},
	}
}
