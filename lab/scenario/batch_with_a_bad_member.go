package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func batchBadMember() lab.Scenario {
	return lab.Scenario{
		Name: "batch-with-a-bad-member", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "one-error-for-all", Want: lab.Forecast{Outcome: lab.Aborts}},
				{Code: "fixed", Variant: "then-one-by-one", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			on("mysql", lab.Stated(lab.Safe, "", "merged")),
		),
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return insertTogether(b)
			}
			h := holdABatch(b, 100)
			snare, ids := h.holdOrders()
			db := b.ServiceDB()
			takeID(newSession(b, db, "X"), ids[crowd*2/3])
			b.Defer(func() { _, _ = db.Exec("DELETE FROM orders WHERE sku = ?", takenFor) })
			snare.Release()
			sorts := h.crowd.Count()
			b.Require(b.Judge().Seen().Outcome == lab.Safe, "no stock is lost")
			switch served := sorts[string(loadtest.Accepted)]; served {
			case crowd - 1:
				return lab.Safe.Seen()
			case 0:
				return lab.Aborts.Seen()
			default:
				b.Fatalf("%d of the batch are served: %v", served, sorts)
				panic("unreachable")
			}
		},
	}
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
func insertTogether(b *lab.Testbed) lab.Observation {
	db := newTables(b, stockTable, "orders (id VARCHAR(64) PRIMARY KEY)")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 100)")
	b.Exec("mysql", db, "INSERT INTO orders VALUES (?)", naiveOrder(20))
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
		return lab.Safe.Seen()
	}
	return lab.Aborts.Seen()
}
