package loadtest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/stock/loadtest"
)

// A counter runs one interleaving of the read and write steps of several clients on one stock, and leaves the evidence.
// lost is the truth, which a judge cannot see.
type counter struct {
	*tape
	exclusive bool
	reading   map[int]pending // by client
	lost      int             // orders that overwrote another
}

type pending struct {
	version  uint64
	quantity int64 // read
	want     int64
}

// step lets client do its next step: begin a sale of want units, or write what it began.
func (c *counter) step(client int, want int64) {
	p, writing := c.reading[client]
	switch {
	case writing:
		delete(c.reading, client)
		if p.version != c.version {
			c.lost++
		}
		c.sell(p.version, p.quantity, p.want)
	case c.exclusive && len(c.reading) > 0:
		c.answer(loadtest.Busy, want)
	case c.account.After.Quantity < want:
		c.answer(loadtest.SoldOut, want)
	default:
		c.reading[client] = pending{c.version, c.account.After.Quantity, want}
	}
}

// Random interleavings of a right and a racy counter, with some replies lost: a run that lost an update never passes,
// and a right run never fails.
func TestJudgeTellsCountersApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &counter{
			tape:      newTape(rapid.Int64Range(0, 30).Draw(t, "stock")),
			exclusive: rapid.Bool().Draw(t, "exclusive"),
			reading:   make(map[int]pending),
		}
		clients := rapid.IntRange(1, 5).Draw(t, "clients")
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			c.step(rapid.IntRange(1, clients).Draw(t, "client"), rapid.Int64Range(1, 3).Draw(t, "want"))
		}
		for client := range clients {
			if _, writing := c.reading[client+1]; writing {
				c.step(client+1, 1)
			}
		}
		for i := range c.records {
			// All are sent at once, and answered one after the other.
			c.records[i].DoneAt = noon.Add(time.Duration(i+1) * time.Millisecond)
			if rapid.IntRange(0, 9).Draw(t, "reply") == 0 {
				c.records[i].Reply = loadtest.Reply{Outcome: loadtest.Unknown}
			}
		}
		complete := rapid.IntRange(0, 3).Draw(t, "complete") > 0
		if !complete {
			c.account.Complete = false
			c.account.Orders = c.account.Orders[:rapid.IntRange(0, len(c.account.Orders)).Draw(t, "orders")]
		}
		rand.Shuffle(len(c.records), func(i, j int) { c.records[i], c.records[j] = c.records[j], c.records[i] })

		v := c.judge(loadtest.Cluster)
		switch {
		case c.lost > 0 && (v.Finding == loadtest.Holds || v.Kept):
			t.Fatalf("%d updates were lost, and the finding is %s, kept %v", c.lost, v.Finding, v.Kept)
		case c.lost > 0 && complete && (v.Finding != loadtest.Broken || v.Collisions == 0):
			t.Fatalf("%d updates were lost, and the finding is %s with %d collisions", c.lost, v.Finding, v.Collisions)
		case c.lost == 0 && v.Finding == loadtest.Broken:
			t.Fatalf("nothing was lost, and the finding is broken: %v", v.Reasons)
		case c.lost == 0 && complete && v.AcceptedUnits > 0 && v.Finding != loadtest.Holds:
			t.Fatalf("nothing was lost, all is known, and the finding is %s: %v", v.Finding, v.Reasons)
		}
	})
}

// run100k returns 100,000 sales over 20 SKUs by two clients, one in twenty of which overwrote another.
func run100k() ([]loadtest.Record, []loadtest.Account) {
	var records []loadtest.Record
	var accounts []loadtest.Account
	for n := range 20 {
		c := &counter{tape: newTape(1_000_000), reading: make(map[int]pending)}
		for i := 0; len(c.records) < 5000; i++ {
			client := 0
			if i%20 == 18 {
				client = 1 // reads at one such step, and writes at the next
			}
			c.step(client, 1)
		}
		sku := fmt.Sprintf("sku-%d", n)
		c.account.Before.SKU, c.account.After.SKU = sku, sku
		for i := range c.records {
			c.records[i].SKU = sku
		}
		records, accounts = append(records, c.records...), append(accounts, c.account)
	}
	return records, accounts
}

func BenchmarkJudge100k(b *testing.B) {
	records, accounts := run100k()
	b.ResetTimer()
	for b.Loop() {
		loadtest.Judge(loadtest.Evidence{
			Records: records, Accounts: accounts, Promise: loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true},
		})
	}
}

// A race of all with all is the worst case: every order read the same version.
func BenchmarkJudge100kAllCollide(b *testing.B) {
	tape := newTape(1_000_000)
	for range 100_000 {
		tape.sell(3, 1_000_000, 1)
	}
	b.ResetTimer()
	for b.Loop() {
		tape.judge(loadtest.Cluster)
	}
}
