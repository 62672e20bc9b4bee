package loadtest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/stock/loadtest"
)

// A counter runs one interleaving of the read and write steps of several clients on one stock, one step per
// millisecond, and leaves the evidence. lost is the truth, which a judge cannot see.
type counter struct {
	*tape
	exclusive bool
	reading   map[int]pending // by client
	now       time.Time
	lost      int // orders that overwrote another
}

type pending struct {
	version  uint64
	quantity int64 // read
	want     int64
	sent     time.Time
}

func newCounter(stock int64, exclusive bool) *counter {
	return &counter{tape: newTape(stock), exclusive: exclusive, reading: make(map[int]pending), now: noon}
}

// step lets client do its next step: begin a sale of want units, or write what it began.
func (c *counter) step(client int, want int64) {
	c.now = c.now.Add(time.Millisecond)
	p, writing := c.reading[client]
	var r *loadtest.Record
	switch {
	case writing:
		delete(c.reading, client)
		if p.version != c.version {
			c.lost++
		}
		r = c.sell(p.version, p.quantity, p.want)
	case c.exclusive && len(c.reading) > 0:
		r = c.answer(loadtest.Busy, want)
	case c.account.After.Quantity < want:
		r = c.answer(loadtest.SoldOut, want)
	default:
		c.reading[client] = pending{c.version, c.account.After.Quantity, want, c.now}
		return
	}
	r.Worker, r.SentAt, r.DoneAt = client, c.now, c.now
	if writing {
		r.SentAt = p.sent
	}
}

// Random interleavings of a right and a racy counter, some with lost replies, some with unreadable orders: a run that
// lost an update never passes, and a right run never fails; neither by its versions nor by its order in time.
func TestJudgeTellsCountersApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCounter(rapid.Int64Range(0, 30).Draw(t, "stock"), rapid.Bool().Draw(t, "exclusive"))
		clients := rapid.IntRange(1, 5).Draw(t, "clients")
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			c.step(rapid.IntRange(1, clients).Draw(t, "client"), rapid.Int64Range(1, 3).Draw(t, "want"))
		}
		for client := range clients {
			if _, writing := c.reading[client+1]; writing {
				c.step(client+1, 1)
			}
		}
		silent := 0
		for i := range c.records {
			if rapid.IntRange(0, 9).Draw(t, "reply") == 0 {
				c.records[i].Reply = loadtest.Reply{Outcome: loadtest.Unknown}
				silent++
			}
		}
		complete := rapid.IntRange(0, 3).Draw(t, "complete") > 0
		if !complete {
			c.account.Complete = false
			c.account.Orders = c.account.Orders[:rapid.IntRange(0, len(c.account.Orders)).Draw(t, "orders")]
		}
		rand.Shuffle(len(c.records), func(i, j int) { c.records[i], c.records[j] = c.records[j], c.records[i] })

		v := c.judge(loadtest.Cluster)
		known, right := complete && v.AcceptedUnits > 0, c.lost == 0
		switch {
		case !right && (v.Finding == holds || v.Kept),
			!right && v.Linear.Result == loadtest.InOrder && (complete || silent == 0):
			t.Fatalf("%d updates were lost, and the finding is %s, kept %v, %+v", c.lost, v.Finding, v.Kept, v.Linear)
		case !right && complete && (v.Finding != broken || v.Collisions == 0):
			t.Fatalf("%d updates were lost, and the finding is %s with %d collisions", c.lost, v.Finding, v.Collisions)
		case right && (v.Finding == broken || v.Linear.Result == loadtest.Illegal):
			t.Fatalf("nothing was lost: %s, %+v: %v", v.Finding, v.Linear, v.Reasons)
		case right && known && (v.Finding != holds || v.Linear.Result != loadtest.InOrder):
			t.Fatalf("nothing was lost, and all is known: %s, %+v: %v", v.Finding, v.Linear, v.Reasons)
		}
	})
}
