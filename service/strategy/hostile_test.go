package strategy_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"example.com/stock/app/health"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// On a server whose defaults are meant for somebody else's program every strategy that uses MySQL, for its lock or for
// the stock alone, sells one after the other and all at once without losing a unit.
func TestMySQLStrategiesUnderHostileDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	dsn := servertest.MariaDB(t)
	admin, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, isolation := range []string{"SERIALIZABLE", "READ-UNCOMMITTED"} {
		if _, err := admin.Exec("SET GLOBAL autocommit = 0, GLOBAL tx_isolation = '" + isolation +
			"', GLOBAL sql_mode = 'ANSI_QUOTES', GLOBAL time_zone = '+05:45', GLOBAL completion_type = 1"); err != nil {
			t.Fatal(err)
		}
		stocks := orm(t, dsn)
		migrator, err := repo.NewMigrator(stocks)
		if err == nil {
			_, err = migrator.Up(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		locks, err := orm(t, dsn).DB()
		if err != nil {
			t.Fatal(err)
		}
		up := health.New("mysql", func(context.Context) error { return nil })
		if now, _ := up.Probe(t.Context()); now != nil {
			t.Fatal(now)
		}
		for _, name := range []string{
			"mysql-table", "mysql-for-update", "mysql-get-lock", "pessimistic", "optimistic", "atomic", "merged",
		} {
			t.Run(isolation+"/"+name, func(t *testing.T) {
				s, err := strategy.Lookup(name)
				if err != nil {
					t.Fatal(err)
				}
				seller, closer := s.Build(strategy.Servers{MySQL: locks}, nil)
				defer closer()
				shop, err := service.New(service.Config{
					Instance:     "app-1",
					DefaultStore: strategy.MySQL,
					Wait:         time.Minute,
					Work:         20 * time.Second,
					Strategies:   map[string]service.StrategyConfig{name: {Seller: seller, Blocking: true}},
					Stores: map[string]service.StoreConfig{
						strategy.MySQL: {
							Store: stock.NewMySQL(repo.NewMySQL(stocks)), Needs: up, Data: service.Trusted{},
						},
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				sellAll(t, shop, name)
			})
		}
	}
}

func sellAll(t *testing.T, shop *service.Service, name string) {
	sku := service.SKU("hostile-" + name)
	if _, err := shop.SetStock(t.Context(), strategy.MySQL, sku, 100); err != nil {
		t.Fatal(err)
	}
	sell := func() {
		_, err := shop.Deduct(t.Context(), service.Request{Strategy: name, SKU: sku, Quantity: 1, RequestID: "r"})
		if err != nil {
			t.Error(err)
		}
	}
	look := func(sold int64) {
		t.Helper()
		stock, err := shop.Stock(t.Context(), strategy.MySQL, sku)
		if err != nil || stock.Quantity != 100-sold || stock.Sold != sold {
			t.Errorf("after %d sales: %+v, %v", sold, stock, err)
		}
	}
	for n := range int64(10) {
		sell()
		look(n + 1)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(sell)
	}
	all.Wait()
	look(20)
}
