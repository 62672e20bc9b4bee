package stock_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/service"
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
	s := onMySQL(db)

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
