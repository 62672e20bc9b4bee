package scenario

import (
	"github.com/google/uuid"

	"example.com/stock/lab"
)

// threadID shows two processes whose threads have the same number. A JVM numbers its threads from 1, and so does every
// other JVM; process ids repeat, too, because the first process of each container has the id 1.
func threadID() lab.Scenario {
	return lab.Scenario{
		Name: "thread-id-as-the-value", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "thread-id"),
			byHand("fixed", lab.Safe, "process-uuid-and-thread-id"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			const thread = "1"
			first, second := thread, thread
			if b.Case.Code == "fixed" {
				first, second = uuid.NewString()+":"+thread, uuid.NewString()+":"+thread
			}
			enters := func(who, id string) bool {
				if (&naiveLock{b, who, b.Redis(), b.SKU, id, longLease}).takes() {
					return true
				}
				holder, err := b.Redis().Get(b.Ctx, b.SKU).Result()
				b.Must("GET", err)
				if holder == id {
					b.Note(who, "get-is-mine")
				}
				return holder == id // re-entry
			}
			b.Require(enters("A", first), "A gets the lock")
			return bothHold(b, nil, true, enters("B", second))
		},
	}
}
