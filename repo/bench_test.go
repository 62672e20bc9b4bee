package repo_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/stock/repo"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// BenchmarkPessimistic is the sale of the strategy "pessimistic": through gorm, and by hand with database/sql, once
// with parameters interpolated by the client and once prepared by the server for every statement, as a plain DSN does.
// The server's fsync is off, so that what is compared is ours.
func BenchmarkPessimistic(b *testing.B) {
	dsn := database(b)
	db := openMySQL(b, dsn)
	if err := db.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 0").Error; err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1") })
	s := repo.NewMySQL(db)

	b.Run("store", func(b *testing.B) {
		mustSet(b, s, "sku", service.MaxStock)
		for b.Loop() {
			if err := s.Transact(context.Background(), "sku", false, sellIn("sku", uuid.NewString(), nil)); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, params := range map[string]string{
		"bare-interpolated": "?parseTime=true&interpolateParams=true", "bare-prepared": "?parseTime=true",
	} {
		b.Run(name, func(b *testing.B) {
			mustSet(b, s, "sku", service.MaxStock)
			pool, err := sql.Open("mysql", dsn+params)
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			for b.Loop() {
				if err := bareSale(pool, "sku"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func bareSale(pool *sql.DB, sku string) error {
	tx, err := pool.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var stock service.Stock
	err = tx.QueryRow("SELECT sku, quantity, initial, sold, version, epoch, fence, guard FROM stock"+
		" WHERE sku = ? FOR UPDATE", sku).
		Scan(&stock.SKU, &stock.Quantity, &stock.Initial, &stock.Sold,
			&stock.Version, &stock.Epoch, &stock.Fence, &stock.Guard)
	if err != nil {
		return err
	}
	o := order(stock)
	if _, err := tx.Exec(
		"UPDATE stock SET quantity = ?, sold = sold + ?, version = version + 1, guard = ? WHERE sku = ?",
		o.Remaining, o.Quantity, o.Strategy, sku,
	); err != nil {
		return err
	}
	if _, err := tx.Exec(
		"INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy, instance,"+
			" request_id, fence, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		o.ID,
		sku,
		o.Epoch,
		o.Version,
		o.Quantity,
		o.Read,
		o.Remaining,
		o.Strategy,
		o.Instance,
		o.RequestID,
		o.Fence,
		o.CreatedAt,
	); err != nil {
		return err
	}
	return tx.Commit()
}

// BenchmarkLedgerSteps compares ways to sell one unit of one SKU, by so many callers at a time: Deduct, which writes an
// order and no movement, customer or key; a step of the ledger with its movement alone; one with customer and key; and
// the same in batches. The ways take turns, so that what else the computer does befalls all of them, and the median of
// the rounds counts: in sales a second, and as a share of Deduct's.
//
//	go test ./repo -run '^$' -bench LedgerSteps -benchtime 1x
func BenchmarkLedgerSteps(b *testing.B) {
	const rounds, turn = 5, 400 * time.Millisecond
	for _, store := range []struct {
		name string
		open func(testing.TB) desk
	}{{"mysql", mysqlDesk}, {"redis", redisDesk}} {
		d := store.open(b)
		together := merged(d)
		sku, plain := newSKU("place"), newSKU("deduct")
		stocked(b, d, sku, service.MaxStock)
		mustSet(b, d.shop, plain, service.MaxStock)
		order := func(d desk, about orders.About) error {
			about.SKUs = []service.SKU{sku}
			_, _, err := d.Step(context.Background(), about, place(newID(), about.Customer, line(sku, 1)))
			return err
		}
		ways := []struct {
			name string
			sell func() error
		}{
			{"deduct", func() error {
				_, err := d.shop.Deduct(context.Background(), unread(plain, 1))
				return err
			}},
			{"step", func() error { return order(d, orders.About{}) }},
			{"step-key", func() error { return order(d, orders.About{Customer: newID(), Key: keyed("1")}) }},
			{"batched-key", func() error { return order(together, orders.About{Customer: newID(), Key: keyed("1")}) }},
		}
		for _, callers := range []int{1, 30, 128} {
			b.Run(fmt.Sprintf("%s/%d", store.name, callers), func(b *testing.B) {
				for b.Loop() {
					rates := make([][]float64, len(ways))
					for range rounds {
						for i, way := range ways {
							rates[i] = append(rates[i], rateOf(b, callers, turn, way.sell))
						}
					}
					for i, way := range ways {
						slices.Sort(rates[i])
						b.ReportMetric(rates[i][rounds/2], way.name+"/s")
						if i > 0 {
							b.ReportMetric(rates[i][rounds/2]/rates[0][rounds/2], way.name+"/deduct")
						}
					}
				}
			})
		}
	}
}

// rateOf returns how often a second callers do something.
func rateOf(b *testing.B, callers int, turn time.Duration, do func() error) float64 {
	b.Helper()
	var all sync.WaitGroup
	var n atomic.Int64
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < turn {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}
