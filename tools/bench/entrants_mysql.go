package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

const pool = 40

func orderOf(sku service.SKU, stock service.Stock) service.Order {
	return service.Order{
		ID: uuid.NewString(), SKU: sku, Quantity: 1, Read: stock.Quantity, Remaining: stock.Quantity - 1,
		Version: stock.Version, Epoch: stock.Epoch, Strategy: namePessimist, Instance: "bench", CreatedAt: time.Now(),
	}
}

func openStore(t task) (*stock.MySQL, error) {
	db, err := repo.OpenMySQL(t.MySQL, repo.Pool{Open: pool})
	if err != nil {
		return nil, err
	}
	return stock.NewMySQL(repo.NewMySQL(db)), nil
}

func openAtomic(_ context.Context, t task) ([]turn, error) {
	store, err := openStore(t)
	if err != nil {
		return nil, err
	}
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		_, err := store.Deduct(ctx, orderOf(service.SKU(key), service.Stock{}))
		return err == nil, err
	}), nil
}

func openPessimistic(_ context.Context, t task) ([]turn, error) {
	store, err := openStore(t)
	if err != nil {
		return nil, err
	}
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		err := store.Transact(ctx, service.SKU(key), false, func(ctx context.Context, tx service.Store) error {
			stock, err := tx.Read(ctx, service.SKU(key))
			if err != nil {
				return err
			}
			return tx.Write(ctx, orderOf(service.SKU(key), stock))
		})
		return err == nil, err
	}), nil
}

// openBareSQL sends the statements that gorm and the store send, by hand. It shows what those two cost.
func openBareSQL(_ context.Context, t task) ([]turn, error) {
	c, err := mysql.ParseDSN(t.MySQL)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w", err)
	}
	c.ParseTime, c.Loc, c.InterpolateParams = true, time.UTC, true
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(pool)
	db.SetMaxIdleConns(pool)
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		err := bareSale(ctx, db, key)
		return err == nil, err
	}), nil
}

func bareSale(ctx context.Context, db *sql.DB, sku string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	var s service.Stock
	err = tx.QueryRowContext(ctx, "SELECT sku, quantity, initial, sold, version, epoch, fence, guard FROM stock"+
		" WHERE sku = ? LIMIT 1 FOR UPDATE", sku).
		Scan(&s.SKU, &s.Quantity, &s.Initial, &s.Sold, &s.Version, &s.Epoch, &s.Fence, &s.Guard)
	if err != nil {
		return err
	}
	o := orderOf(service.SKU(sku), s)
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET sold = sold + ?, version = version + 1, guard = ?, quantity = ?"+
		" WHERE sku = ? AND guard IN ('', ?) AND epoch = ?",
		o.Quantity, o.Strategy, o.Remaining, sku, o.Strategy, o.Epoch); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx,
		"INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy, instance,"+
			" request_id, fence, segment, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		o.ID, sku, o.Epoch, o.Version, o.Quantity, o.Read, o.Remaining, o.Strategy, o.Instance, o.RequestID, o.Fence,
		o.Segment, o.CreatedAt.UTC()); err != nil {
		return err
	}
	return tx.Commit()
}
