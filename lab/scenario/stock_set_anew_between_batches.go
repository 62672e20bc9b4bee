package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// fewer is the stock that is set between two batches, less than the next batch needs.
const fewer = 10

func setBetweenBatches() lab.Scenario {
	return lab.Scenario{
		Name: "stock-set-anew-between-batches", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "remembers-what-is-left", Want: lab.Forecast{Outcome: lab.Oversells}},
				{Code: "fixed", Variant: "reads-in-each-batch", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			on("redis", lab.Stated(lab.Safe, "", "merged")),
			on("mysql", lab.Stated(lab.Safe, "", "merged")),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return sellByMemory(b)
			}
			h := holdABatch(b, 100)
			b.Stock(fewer)
			now, err := h.apps[1].Stock(b.Ctx, b.Store(), b.SKU)
			b.Must("read the stock", err)
			h.letGo()
			sorts := h.crowd.Count()
			for _, c := range h.crowd.Calls {
				reply := c.Reply()
				b.Require(reply.Receipt == nil || reply.Epoch == now.Epoch, c.Who+" is sold to from the new stock")
			}
			b.Require(h.a.Reply().Epoch < now.Epoch, "A is sold to from the old stock")
			j := b.Judge()
			if j.Lost() || len(j.Orders) > fewer {
				return lab.Oversells.Seen()
			}
			b.Require(sorts[string(loadtest.Accepted)] == fewer && sorts["sold_out"] == crowd-fewer,
				"as many are served as there are units, and the others are told that it is sold out")
			return lab.Safe.Seen()
		},
	}
}

// sellByMemory sells in two batches, of 1 and of 30, and sets the stock between them. The naive code reuses the
// remainder of the first batch, which saves a read.
func sellByMemory(b *lab.Testbed) lab.Observation {
	shop := newNaiveShop(b, 100)
	const read = "SELECT quantity FROM stock WHERE sku = 'sku'"
	sold := int64(0)
	left := b.Int("batches", shop.db, read)
	sell := func(want int64) (n int64) {
		if b.Case.Code == "fixed" {
			left = b.Int("batches", shop.db, read)
		}
		n = min(want, left)
		left -= n
		b.Exec("batches", shop.db, "UPDATE stock SET quantity = ? WHERE sku = 'sku'", left)
		return n
	}
	sell(1)
	b.Exec("operator", shop.db, "UPDATE stock SET quantity = ? WHERE sku = 'sku'", fewer)
	sold = sell(crowd)
	now := b.Int("mysql", shop.db, read)
	b.Evidence(lab.Balance, now, "balance", "initial", fewer, "sold", sold, "left", now)
	if sold != fewer-now {
		return lab.Oversells.Seen()
	}
	return lab.Safe.Seen()
}
