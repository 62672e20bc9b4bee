package scenario

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func firstLeaves() lab.Scenario {
	return lab.Scenario{
		Name: "first-of-a-batch-leaves", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "the-first-ones-context", Want: lab.Forecast{Outcome: lab.Aborts}},
				{Code: "fixed", Variant: "a-context-of-the-batch", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			on("redis", lab.Stated(lab.Safe, "", "merged")),
			on("mysql", lab.Stated(lab.Safe, "", "merged")),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return leaveEarly(b)
			}
			h := holdABatch(b, 100)
			var sent []byte
			snare := b.Trap(h.proxy, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: h.orders(&sent)})
			h.letGo()
			b.Sprung(snare, "orders-are-held")
			first := slices.MinFunc(h.crowd.Calls, func(x, y *lab.Call) int {
				return cmp.Compare(place(sent, x.ID), place(sent, y.ID))
			})
			b.Require(place(sent, first.ID) < len(sent), "the request ids of the batch can be read on the wire")
			first.Leave()
			snare.Release()
			sorts := h.crowd.Count()
			j := b.Judge()
			counted(b, len(j.Orders), crowd+2)
			if sorts[string(loadtest.Accepted)] != crowd-1 {
				return lab.Aborts.Seen()
			}
			b.Require(len(j.Orders) == crowd+2, "the one who left is sold to: its batch had begun")
			return j.Seen()
		},
	}
}

// place returns the position of a request id in a message, or the message's length if it is absent. It skips longer ids
// that begin with id.
func place(message []byte, id string) int {
	for at := 0; ; {
		i := bytes.Index(message[at:], []byte(id))
		if i < 0 {
			return len(message)
		}
		if at += i + len(id); at == len(message) || message[at] < '0' || message[at] > '9' {
			return at - len(id)
		}
	}
}

// leaveEarly sells to a crowd in one transaction, during which the first customer disconnects. In Go, as in most
// languages, the context of a request ends with its connection.
func leaveEarly(b *lab.Testbed) lab.Observation {
	shop := newNaiveShop(b, 100)
	request, gone := context.WithCancel(b.Ctx)
	defer gone()
	batch := request
	if b.Case.Code == "fixed" {
		batch = context.WithoutCancel(request)
	}
	tx, err := shop.db.BeginTx(batch, nil)
	b.Must("BEGIN", err)
	defer func() { _ = tx.Rollback() }()
	var told error
	for i := range crowd {
		if i == crowd/2 {
			b.Note("C1", "customer-is-gone")
			gone()
		}
		if told == nil {
			_, told = tx.ExecContext(batch, "INSERT INTO orders (who, seen) VALUES (?, ?)", naiveOrder(i), 100-i)
		}
	}
	if told == nil {
		_, told = tx.ExecContext(batch, "UPDATE stock SET quantity = quantity - ? WHERE sku = 'sku'", crowd)
	}
	if told == nil {
		told = tx.Commit()
	}
	if told != nil {
		_ = tx.Rollback()
		b.Evidence(lab.Answer, told.Error(), "all-were-told", "n", crowd-1, "answer", told)
	}
	seen := shop.verdict()
	if sold := b.Int("mysql", shop.db, "SELECT COUNT(*) FROM orders"); sold != crowd {
		return lab.Aborts.Seen()
	}
	return seen
}
