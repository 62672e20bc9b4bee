package stock_test

import (
	"context"
	"errors"
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// removeBooks deletes the stock of a SKU as a person or a loss of data does. With all it also deletes the orders and
// the segments, which a store keeps elsewhere.
func removeBooks(t *testing.T, s shop, sku service.SKU, all bool) {
	t.Helper()
	if r, is := s.(*stock.Redis); is {
		keys := []string{repo.StockKey(sku)}
		if all {
			keys = append(keys, repo.OrdersKey(sku), repo.SettledKey(sku))
		}
		if err := r.Client().Del(short(t), keys...).Err(); err != nil {
			t.Fatal(err)
		}
		return
	}
	tables := []string{"stock"}
	if all {
		tables = append(tables, "stock_segments", "orders")
	}
	for _, table := range tables {
		err := s.(*stock.MySQL).On(short(t)).Exec("DELETE FROM "+table+" WHERE sku = ?", string(sku)).Error
		if err != nil {
			t.Fatal(err)
		}
	}
}

// overwrite sets the quantity of a stock or of a segment and nothing else. So the stock has the same epoch and version
// as before, and other units: it is what a replica may have that has missed some writes and has made as many others.
func overwrite(t *testing.T, s shop, sku service.SKU, segment int, quantity int64) {
	t.Helper()
	var err error
	switch r, is := s.(*stock.Redis); {
	case is && segment == 0:
		err = r.Client().HSet(short(t), repo.StockKey(sku), "quantity", quantity).Err()
	case is:
		err = r.Client().HSet(short(t), repo.StockKey(sku), "1.quantity", quantity).Err()
	case segment == 0:
		err = s.(*stock.MySQL).On(short(t)).
			Exec("UPDATE stock SET quantity = ? WHERE sku = ?", quantity, string(sku)).Error
	default:
		err = s.(*stock.MySQL).On(short(t)).
			Exec("UPDATE stock_segments SET quantity = ? WHERE sku = ? AND segment = 1", quantity, string(sku)).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inTransaction writes o in a transaction, in which it reads first, as the strategy pessimistic does.
func inTransaction(s shop, ctx context.Context, o service.Order) error {
	return s.(service.Transactor).Transact(ctx, o.SKU, false, func(ctx context.Context, tx service.Store) error {
		if _, err := tx.Read(ctx, o.SKU); err != nil {
			return err
		}
		return tx.Write(ctx, o)
	})
}

func booksAnew(t *testing.T, s shop, sku service.SKU) {
	fenced := func(o service.Order) service.Order { o.Fence = 7; return o }
	writes := map[string]func(service.Order) error{
		"write":        func(o service.Order) error { return s.Write(short(t), o) },
		"fenced write": func(o service.Order) error { return s.Write(short(t), fenced(o)) },
		"swap":         func(o service.Order) error { return s.Swap(short(t), o) },
		"fenced swap":  func(o service.Order) error { return s.Swap(short(t), fenced(o)) },
		"deduct":       func(o service.Order) error { _, err := s.Deduct(short(t), o); return err },
		"batch":        func(o service.Order) error { return ways(s)["Batch"](short(t), o) },
	}
	if _, is := s.(service.Transactor); is {
		writes["transaction"] = func(o service.Order) error { return inTransaction(s, short(t), o) }
	}
	for what, write := range writes {
		for _, all := range []bool{true, false} {
			o := order(mustSet(t, s, sku, 100))
			o.Key = newKey(sku, what)
			removeBooks(t, s, sku, all)
			if err := write(o); !errors.Is(err, service.ErrUnknownSKU) {
				t.Errorf("%s into books that were deleted: %v, want ErrUnknownSKU", what, err)
			}
			books := mustSet(t, s, sku, 5)
			if books.Epoch <= o.Epoch {
				t.Errorf("epoch %d comes after epoch %d", books.Epoch, o.Epoch)
			}
			refused(t, s, sku, service.ErrStockReset, func() error { return write(o) })
			if _, found, err := s.Replay(short(t), sku, o.Key); found || err != nil {
				t.Errorf("%s: the key of a refused order is taken: %v", what, err)
			}
			if orders := allOrders(t, s, sku); len(orders) != 0 {
				t.Errorf("%s: new books begin with orders %+v", what, orders)
			}
		}
	}
}

func segmentsAnew(t *testing.T, s shop, sku service.SKU) {
	for _, all := range []bool{true, false} {
		old := parted(t, s, sku, 100)
		removeBooks(t, s, sku, all)
		parted(t, s, sku, 12)
		o := order(service.Stock{
			SKU: sku, Quantity: old.Row(1).Quantity, Version: old.Row(1).Version, Epoch: old.Epoch,
		})
		o.Segment = 1
		into := service.Refill{SKU: sku, Epoch: old.Epoch, Strategy: "none", Into: old.Row(1), Reserve: 1}
		refused(t, s, sku, service.ErrStockReset, func() error { return s.Swap(short(t), o) })
		refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), o) })
		refused(t, s, sku, service.ErrStockReset, func() error { return s.Refill(short(t), into) })
	}
}

// parted sets the stock, and moves 10 units into segment 1.
func parted(t *testing.T, s shop, sku service.SKU, quantity int64) service.Segments {
	t.Helper()
	g := service.Refill{
		SKU: sku, Epoch: mustSet(t, s, sku, quantity).Epoch, Strategy: "none", Into: service.Segment{Number: 1},
		Reserve: 10,
	}
	if err := s.Refill(short(t), g); err != nil {
		t.Fatal(err)
	}
	all, err := s.Segments(short(t), sku)
	if err != nil || len(all.Rows) != 1 {
		t.Fatalf("%+v, %v; want one segment", all, err)
	}
	return all
}

func clockBehind(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 5)
	const late = uint64(1<<60 + 1) // by a clock that was ahead; no double can hold it
	var err error
	if r, is := s.(*stock.Redis); is {
		err = errors.Join(
			r.Client().HSet(short(t), repo.StockKey(sku), "epoch", late).Err(),
			r.Client().LSet(short(t), repo.OrdersKey(sku), 0, late).Err())
	} else {
		err = s.(*stock.MySQL).On(short(t)).Exec("UPDATE stock SET epoch = ? WHERE sku = ?", late, string(sku)).Error
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(2) {
		if got := mustSet(t, s, sku, 5); got.Epoch != late+1+n {
			t.Errorf("epoch %d, want %d", got.Epoch, late+1+n)
		}
	}
}

func comparesQuantity(t *testing.T, s shop, sku service.SKU) {
	seen := mustSet(t, s, sku, 90)
	overwrite(t, s, sku, 0, 80)
	o := order(seen)
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), o) })
	refused(t, s, sku, service.ErrPrecondition, func() error {
		_, err := s.SetIf(short(t), sku, 90, service.Condition{Match: []string{seen.Tag()}})
		return err
	})

	all := parted(t, s, sku, 90)
	overwrite(t, s, sku, 0, 75) // the total in Redis, the reserve in MySQL
	overwrite(t, s, sku, 1, 5)
	row := all.Row(1)
	o = order(service.Stock{SKU: sku, Quantity: row.Quantity, Version: row.Version, Epoch: all.Epoch})
	o.Segment = 1
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), o) })
	into := service.Refill{SKU: sku, Epoch: all.Epoch, Strategy: "none", Into: row, Reserve: 1}
	refused(t, s, sku, service.ErrConflict, func() error { return s.Refill(short(t), into) })
	from := service.Refill{
		SKU: sku, Epoch: all.Epoch, Strategy: "none", Into: service.Segment{Number: 2}, From: []service.Segment{row},
	}
	refused(t, s, sku, service.ErrConflict, func() error { return s.Refill(short(t), from) })
}
