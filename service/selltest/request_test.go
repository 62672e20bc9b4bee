package selltest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

func TestQuantityBounds(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	if _, err := s.SetStock(t.Context(), "here", s.sku, service.MaxStock); err != nil {
		t.Fatal(err)
	}
	down := &driver.DownError{Server: "store", Reason: "the test says so"}
	for quantity, ok := range map[int64]bool{
		1: true, 2: true, service.MaxQuantity: true,
		0: false, -1: false, service.MaxQuantity + 1: false, math.MaxInt64: false, math.MinInt64: false,
	} {
		before, err := s.Stock(t.Context(), "", s.sku)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			s.keeping.turn(t, down) // what is invalid is refused before the store is asked
		}
		receipt, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = quantity })
		s.keeping.turn(t, nil)
		after, _ := s.Stock(t.Context(), "", s.sku)
		if ok {
			if err != nil || receipt.Quantity != quantity || after.Quantity != before.Quantity-quantity ||
				after.Sold != before.Sold+quantity {
				t.Errorf("quantity %d: %+v, %v; %d left of %d", quantity, receipt, err, after.Quantity, before.Quantity)
			}
			continue
		}
		invalid(t, err, "quantity", "from-to (least=1, most=1000000)")
		if after != before {
			t.Errorf("quantity %d: refused, but the stock went from %+v to %+v", quantity, before, after)
		}
	}
}

func invalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	var told *service.InvalidError
	if !errors.As(err, &told) || told.Field != field || driver.Coded(told.Reason, told.Values) != reason {
		t.Errorf("err = %v, want an InvalidError of %s with %q", err, field, reason)
	}
}

func TestUnknownStrategy(t *testing.T) {
	t.Parallel()
	s := stage(t, service.Atomically, redisStore(t))
	_, err := s.sell(t.Context(), func(r *service.Request) { r.Strategy = "nun" })
	fails(t, err, all(service.ErrUnknownStrategy))
}

func TestWhichStore(t *testing.T) {
	t.Parallel()
	red, my := redisStore(t), mysqlStore(t)
	s := stage(t, service.Atomically, red, func(c *service.Config) {
		c.DefaultStore = "redis"
		onRedis, onMySQL := c.Stores["here"], c.Stores["here"]
		onRedis.Store, onMySQL.Store = red, my
		c.Stores["redis"], c.Stores["mysql"] = onRedis, onMySQL
		anywhere := c.Strategies["it"]
		sqlOnly, both := anywhere, anywhere
		sqlOnly.Stores, both.Stores = []string{"mysql"}, []string{"mysql", "redis"}
		c.Strategies = map[string]service.StrategyConfig{"anywhere": anywhere, "sql-only": sqlOnly, "both": both}
	})
	for _, row := range []struct {
		strategy, asked string
		want            string // store, or
		reason          string // why the store is refused
	}{
		{"anywhere", "", "redis", ""},
		{"anywhere", "redis", "redis", ""},
		{"anywhere", "mysql", "mysql", ""},
		{"anywhere", "oracle", "", "one-of (list=[here mysql redis])"},
		{"sql-only", "", "mysql", ""}, // its own, where the default is not one of them
		{"sql-only", "mysql", "mysql", ""},
		{"sql-only", "redis", "", "stores-for (stores=[mysql], strategy=sql-only)"},
		{"both", "", "redis", ""}, // the default, if it is one of them, before the offer's first
		{"both", "mysql", "mysql", ""},
		{"both", "here", "", "stores-for (stores=[mysql redis], strategy=both)"},
	} {
		for _, store := range []string{"redis", "mysql"} {
			if _, err := s.SetStock(t.Context(), store, s.sku, initial); err != nil {
				t.Fatal(err)
			}
		}
		receipt, err := s.sell(t.Context(), func(r *service.Request) { r.Strategy, r.Store = row.strategy, row.asked })
		if row.reason != "" {
			invalid(t, err, "store", row.reason)
		} else if err != nil || receipt.Store != row.want {
			t.Errorf("%s on %q: store %q, %v; want %q", row.strategy, row.asked, receipt.Store, err, row.want)
		}
		var where []string
		for _, store := range []string{"mysql", "redis"} {
			stock, err := s.Stock(t.Context(), store, s.sku)
			if err != nil {
				t.Fatal(err)
			}
			if stock.Sold == 1 && stock.Quantity == initial-1 {
				where = append(where, store)
			}
		}
		if want := slices.DeleteFunc([]string{row.want}, func(s string) bool { return s == "" }); !slices.Equal(
			where, want,
		) {
			t.Errorf("%s on %q was sold from %v, want %v", row.strategy, row.asked, where, want)
		}
		for _, asked := range []string{"", "redis"} {
			if stock, err := s.Stock(t.Context(), asked, s.sku); err != nil ||
				(stock.Sold == 1) != (row.want == "redis") {
				t.Errorf("Stock(%q) = %+v, %v", asked, stock, err)
			}
		}
	}
}

func TestStockroomBounds(t *testing.T) {
	t.Parallel()
	s := stage(t, service.Atomically, redisStore(t))
	s.keeping.turn(t, &driver.DownError{Server: "store", Reason: "the test says so"}) // it is not asked
	for _, quantity := range []int64{-1, service.MaxStock + 1} {
		_, err := s.SetStock(t.Context(), "", s.sku, quantity)
		invalid(t, err, "quantity", "from-to (least=0, most=1000000000)")
	}
	s.keeping.turn(t, nil)
	for _, limit := range []int{0, -1, service.MaxPage + 1} {
		_, err := s.Orders(t.Context(), "", s.sku, "", limit)
		invalid(t, err, "limit", "from-to (least=1, most=1000)")
	}
	for _, err := range []error{
		second(s.Stock(t.Context(), "oracle", s.sku)), second(s.SetStock(t.Context(), "oracle", s.sku, 1)),
		second(s.Orders(t.Context(), "oracle", s.sku, "", 1)),
	} {
		invalid(t, err, "store", "one-of (list=[here])")
	}
	s.sold(t, 0)
}

func TestSettleNamesItsStore(t *testing.T) {
	s := stage(t, service.Atomically, redisStore(t))
	r, err := s.sell(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Settle(t.Context(), "", s.sku, r.ID)
	invalid(t, err, "store", "missing-store")
	if settled, err := s.Settle(t.Context(), "here", s.sku, r.ID); err != nil || !settled.Written {
		t.Errorf("%+v, %v; want the order", settled, err)
	}
}

func second[T any](_ T, err error) error { return err }
