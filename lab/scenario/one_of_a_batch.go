package scenario

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// What happens to one of a batch of the service.
const (
	anIDIsTaken    = "an-id-is-taken"
	theFirstLeaves = "the-first-leaves"
)

func oneOfABatch() lab.Scenario {
	return lab.Scenario{
		Name: "one-of-a-batch", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Aborts, "one-error-for-all"),
				byHand("fixed", lab.Safe, "then-one-by-one"),
				byHand("naive", lab.Aborts, "the-first-ones-context"),
				byHand("fixed", lab.Safe, "a-context-of-the-batch"),
			},
			on("mysql", lab.Stated(lab.Safe, anIDIsTaken, "merged")),
			onBoth(lab.Safe, theFirstLeaves, "merged"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			switch b.Case.Variant {
			case "one-error-for-all", "then-one-by-one":
				return insertTogether(b)
			case anIDIsTaken:
				return takeAnID(b)
			case theFirstLeaves:
				return leaveTheBatch(b)
			default:
				return leaveEarly(b)
			}
		},
	}
}

// takeAnID writes an order with the id of one of a batch of the service, before the orders of that batch arrive.
func takeAnID(b *lab.Testbed) lab.Outcome {
	h := holdABatch(b, 100)
	snare, sent := h.holdOrders()
	ids := anID.FindAllString(string(sent), -1)
	b.Require(len(ids) == crowd, "the ids of the batch can be read on the wire")
	db := b.ServiceDB()
	takeID(newSession(b, db, "X"), ids[crowd*2/3])
	b.Defer(func() { _, _ = db.Exec("DELETE FROM orders WHERE sku = ?", takenFor) })
	snare.Release()
	served := answered(h.crowd, string(loadtest.Accepted))
	b.Require(b.Judge().Seen() == lab.Safe, "no stock is lost")
	switch served {
	case crowd - 1:
		return lab.Safe
	case 0:
		return lab.Aborts
	default:
		b.Fatalf("%d of the batch are served", served)
		panic("unreachable")
	}
}

// leaveTheBatch lets the first customer of a batch of the service disconnect while its orders are on their way.
func leaveTheBatch(b *lab.Testbed) lab.Outcome {
	h := holdABatch(b, 100)
	snare, sent := h.holdOrders()
	first := slices.MinFunc(h.crowd, func(x, y *lab.Call) int {
		return cmp.Compare(place(sent, x.ID), place(sent, y.ID))
	})
	b.Require(place(sent, first.ID) < len(sent), "the request ids of the batch can be read on the wire")
	first.Leave()
	snare.Release()
	served := answered(h.crowd, string(loadtest.Accepted))
	j := b.Judge()
	counted(b, len(j.Orders), crowd+2)
	if served != crowd-1 {
		return lab.Aborts
	}
	b.Require(len(j.Orders) == crowd+2, "the one who left is sold to: its batch had begun")
	return j.Seen()
}

// takenFor is the SKU of the order that already has an id of the batch.
const takenFor = "lab-taken"

// takeID writes an order of another SKU with that id.
func takeID(s *session, id string) {
	s.do("INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy,"+
		" instance, request_id, fence, created_at) VALUES (?, '"+takenFor+"', 1, 1, 1, 1, 0, '', '', '', 0,"+
		" UTC_TIMESTAMP(6))", id)
	s.b.Note(s.who, "id-is-taken", "id", id)
}

// insertTogether sells to a crowd in one transaction with one INSERT, in which one id is already taken. The naive code
// returns the error to every customer; the fixed code then sells to each in a separate transaction.
func insertTogether(b *lab.Testbed) lab.Outcome {
	db := newTables(b, stockTable, "orders (id VARCHAR(64) PRIMARY KEY)")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 100)")
	b.Exec("mysql", db, "INSERT INTO orders VALUES (?)", naiveOrder(crowd/2))
	s := newSession(b, db, "C")
	sell := func(from, to int) error {
		s.do("BEGIN")
		s.do("UPDATE stock SET quantity = quantity - ? WHERE sku = 'sku'", to-from)
		query, args := "INSERT INTO orders VALUES (?)", []any{naiveOrder(from)}
		for i := from + 1; i < to; i++ {
			query, args = query+", (?)", append(args, naiveOrder(i))
		}
		if err := s.try(query, args...); err != nil {
			s.do("ROLLBACK")
			return err
		}
		s.do("COMMIT")
		return nil
	}
	err := sell(0, crowd)
	b.Require(errno(err) == errDuplicate, "the INSERT of all is refused with 1062")
	b.Evidence(lab.Answer, err.Error(), "was-told", "who", "C", "answer", err)
	if b.Case.Code == "fixed" {
		for i := range crowd {
			if err := sell(i, i+1); err != nil {
				b.Require(errno(err) == errDuplicate, "only the one whose id is taken is refused")
			}
		}
	}
	left := b.Int("mysql", db, "SELECT quantity FROM stock")
	b.Evidence(lab.Balance, left, "balance", "initial", 100, "sold", 100-left, "left", left)
	counted(b, int(100-left), crowd)
	if 100-left == crowd-1 {
		return lab.Safe
	}
	return lab.Aborts
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
func leaveEarly(b *lab.Testbed) lab.Outcome {
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
		return lab.Aborts
	}
	return seen
}
