package scenario

import (
	"net/http"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest/checkout"
)

// The variants: whose events are checked.
const (
	itsOwnSKU  = "the-events-behind-it"
	anotherSKU = "another-sku"
)

func poisonEvent() lab.Scenario {
	return lab.Scenario{
		Name: "poison-event", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "tries-again-for-ever"),
			byHand("naive", lab.Loses, "gives-up-and-goes-on"),
			ours(lab.Safe, anotherSKU),
			ours(lab.Blocks, itsOwnSKU),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return poisonTheQueue(b)
			}
			receiver := b.Receive(func(e checkout.Event) int {
				if e.Data.SKU == b.SKU && e.Data.Number == 2 {
					return http.StatusUnprocessableEntity
				}
				return 0
			})
			s := b.Shop(1, lab.Webhook(receiver.Addr())...)
			s.Retire()
			s.Stock("", 5)
			s.Stock(".b", 5)
			for _, who := range []string{"A", "B"} {
				s.Ask(s.Apps[0], who, lab.Buy(one(), checkout.Line{SKU: ".b", Quantity: 1}))
			}
			b.Eventually("the event is refused twice", func() bool { return receiver.Denied() >= 2 })
			if b.Case.Variant == anotherSKU {
				got := receiver.Await(".b", 3)
				s.Judge()
				b.Require(slices.Equal(got, []uint64{1, 2, 3}), "the other SKU's events come once, in order")
				return lab.Safe
			}
			behind := slices.Contains(receiver.Numbers(""), 3)
			receiver.Accept()
			got := receiver.Await("", 3)
			s.Judge()
			if behind || !slices.Equal(got, []uint64{1, 2, 3}) {
				return lab.Reorders
			}
			return lab.Blocks
		},
	}
}

// poisonTheQueue relays three events of different SKUs, the first of which the consumer cannot read. One relay sends
// the first again and again; the other skips it after three tries.
func poisonTheQueue(b *lab.Testbed) lab.Outcome {
	db := newTables(b, "outbox (id INT AUTO_INCREMENT PRIMARY KEY, told BOOL NOT NULL DEFAULT FALSE)")
	b.Exec("mysql", db, "INSERT INTO outbox VALUES (1, FALSE), (2, FALSE), (3, FALSE)")
	relay := newSession(b, db, "relay")
	var told []int64
	for tries := 1; tries <= 5 && relay.count("SELECT COUNT(*) FROM outbox WHERE NOT told") > 0; tries++ {
		event := relay.count("SELECT MIN(id) FROM outbox WHERE NOT told")
		if event == 1 {
			b.Note("consumer", "cannot-read-it", "event", event)
			if b.Case.Variant == "tries-again-for-ever" || tries < 3 {
				continue
			}
		} else {
			told = append(told, event)
		}
		relay.do("UPDATE outbox SET told = TRUE WHERE id = ?", event)
	}
	b.Evidence(lab.Served, told, "consumer-was-told", "told", len(told), "events", 3)
	if len(told) == 0 {
		return lab.Blocks
	}
	return lab.Loses
}
