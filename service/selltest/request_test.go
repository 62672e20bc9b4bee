package selltest

import (
	"errors"
	"math"
	"testing"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// What is invalid is refused before the store is asked, which is down here.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	if _, err := s.SetStock(t.Context(), "here", s.sku, service.MaxStock); err != nil {
		t.Fatal(err)
	}
	if r, err := s.sell(t.Context(), quantity(service.MaxQuantity)); err != nil || r.Quantity != service.MaxQuantity {
		t.Errorf("the most that one may buy: %+v, %v", r, err)
	}
	s.keeping.turn(t, &driver.DownError{Server: "store", Reason: "the test says so"})
	for _, n := range []int64{0, -1, service.MaxQuantity + 1, math.MaxInt64, math.MinInt64} {
		_, err := s.sell(t.Context(), quantity(n))
		invalid(t, err, "quantity", "from-to (least=1, most=1000000)")
	}
	for _, n := range []int64{-1, service.MaxStock + 1} {
		_, err := s.SetStock(t.Context(), "", s.sku, n)
		invalid(t, err, "quantity", "from-to (least=0, most=1000000000)")
	}
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
	invalid(t, second(s.Settle(t.Context(), "", s.sku, "x")), "store", "missing-store")
	_, err := s.sell(t.Context(), func(r *service.Request) { r.Strategy = "nun" })
	fails(t, err, all(service.ErrUnknownStrategy))
}

func invalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	var told *service.InvalidError
	if !errors.As(err, &told) || told.Field != field || driver.Coded(told.Reason, told.Values) != reason {
		t.Errorf("err = %v, want an InvalidError of %s with %q", err, field, reason)
	}
}

// A request is sold from the store that it names, or from the default, or from the first of its strategy.
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
		for _, store := range []string{"redis", "mysql"} {
			stock, err := s.Stock(t.Context(), store, s.sku)
			if err != nil || (stock.Sold == 1) != (store == row.want) {
				t.Errorf("%s on %q: %s has %+v, %v; want it sold from %q",
					row.strategy, row.asked, store, stock, err, row.want)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
