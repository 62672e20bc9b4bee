package stock_test

import (
	"errors"
	"testing"

	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// removeBooks deletes the stock of a SKU as a person or a loss of data does. With all it also deletes the orders and
// the segments, which a store keeps elsewhere.
func removeBooks(t *testing.T, s shop, sku service.SKU, all bool) {
	t.Helper()
	if r, is := s.(*stock.Redis); is {
		keys := []string{stockKey(sku)}
		if all {
			keys = append(keys, stockKey(sku)+":orders", stockKey(sku)+":settled")
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

// overwrite sets the quantity of a stock or of segment 1 and nothing else. So the stock has the same epoch and version
// as before, and other units: it is what a replica may have that has missed some writes and has made as many others.
func overwrite(t *testing.T, s shop, sku service.SKU, segment int, quantity int64) {
	t.Helper()
	field, table := "quantity", "stock"
	if segment == 1 {
		field, table = "1.quantity", "stock_segments"
	}
	var err error
	if r, is := s.(*stock.Redis); is {
		err = r.Client().HSet(short(t), stockKey(sku), field, quantity).Err()
	} else {
		err = s.(*stock.MySQL).On(short(t)).
			Exec("UPDATE "+table+" SET quantity = ? WHERE sku = ?", quantity, string(sku)).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

func booksAnew(t *testing.T, s shop, sku service.SKU) {
	for what, write := range ways(s) {
		for _, all := range []bool{true, false} {
			o := order(mustSet(t, s, sku, 100))
			o.Key = newKey(sku, what)
			removeBooks(t, s, sku, all)
			if err := write(short(t), o); !errors.Is(err, service.ErrUnknownSKU) {
				t.Errorf("%s into books that were deleted: %v, want ErrUnknownSKU", what, err)
			}
			books := mustSet(t, s, sku, 5)
			if books.Epoch <= o.Epoch {
				t.Errorf("epoch %d comes after epoch %d", books.Epoch, o.Epoch)
			}
			for _, o.Fence = range []uint64{0, 7} {
				refused(t, s, sku, service.ErrStockReset, func() error { return write(short(t), o) })
			}
			if _, found, err := s.Replay(short(t), sku, o.Key); found || err != nil {
				t.Errorf("%s: the key of a refused order is taken: %v", what, err)
			}
			balanced(t, s, sku, 0)
		}
	}
}

func segmentsAnew(t *testing.T, s shop, sku service.SKU) {
	for _, all := range []bool{true, false} {
		mustSet(t, s, sku, 100)
		refill(t, s, sku, 1, 10)
		old := parts(t, s, sku)
		removeBooks(t, s, sku, all)
		mustSet(t, s, sku, 12)
		refill(t, s, sku, 1, 10)
		o := fromSegment(old, 1)
		refused(t, s, sku, service.ErrStockReset, func() error { return s.Swap(short(t), o) })
		refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), o) })
		refused(t, s, sku, service.ErrStockReset, func() error { return s.Refill(short(t), refillOf(old, 1, 1)) })
	}
}

func clockBehind(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 5)
	const late = uint64(1<<60 + 1) // by a clock that was ahead; no double can hold it
	var err error
	if r, is := s.(*stock.Redis); is {
		err = errors.Join(
			r.Client().HSet(short(t), stockKey(sku), "epoch", late).Err(),
			r.Client().LSet(short(t), stockKey(sku)+":orders", 0, late).Err())
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
		_, err := s.Set(short(t), sku, 90, service.Condition{Match: []string{seen.Tag()}})
		return err
	})

	mustSet(t, s, sku, 90)
	refill(t, s, sku, 1, 10)
	all := parts(t, s, sku)
	overwrite(t, s, sku, 0, 75) // the total in Redis, the reserve in MySQL
	overwrite(t, s, sku, 1, 5)
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), fromSegment(all, 1)) })
	refused(t, s, sku, service.ErrConflict, func() error { return s.Refill(short(t), refillOf(all, 1, 1)) })
	refused(t, s, sku, service.ErrConflict, func() error { return s.Refill(short(t), refillOf(all, 2, 0, 1)) })
}
