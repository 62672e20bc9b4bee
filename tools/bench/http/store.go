package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/gate"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/tools/bench/rig"
)

// The pools are as large as those of an instance: mysql.pool_size and mysql.queue.
const (
	poolSize  = 24
	poolQueue = 512
)

// A bare is the store without HTTP: callers in this process, who share as many services as there are instances, each
// with a pool and a gate of its own. A merged sale is thus in one of as many batches as behind nginx.
type bare struct {
	side     *rig.Side
	pool     *sql.DB // of the bare loop: as many connections as all services have
	services []*service.Service
	orders   map[string][]*order.Service // by how they write: each with the store of a service
	closers  []func() error
}

func openBare(side *rig.Side) (b *bare, err error) {
	b = &bare{side: side, orders: map[string][]*order.Service{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	url := side.Stack.Server("mysql").URL
	instances := len(side.Instances())
	if b.pool, err = sql.Open("mysql", url+"?interpolateParams=true&multiStatements=true"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.pool.Close)
	b.pool.SetMaxOpenConns(instances * poolSize)
	b.pool.SetMaxIdleConns(instances * poolSize)
	for i := range instances {
		db, err := repo.OpenMySQL(url, repo.Pool{Open: poolSize})
		if err != nil {
			return nil, err
		}
		pool, err := db.DB()
		if err != nil {
			return nil, err
		}
		b.closers = append(b.closers, pool.Close)
		store := repo.NewMySQL(db).Behind(repo.Gates{
			All: gate.New(gate.Limits{In: poolSize - 1, PerKey: (poolSize - 1) / 4, Waiting: poolQueue}),
		})
		s, err := service.New(service.Config{
			Instance: fmt.Sprintf("no-http-%d", i+1), DefaultStore: "mysql",
			Wait: 5 * time.Second, Work: 5 * time.Second,
			Stores: map[string]service.StoreConfig{"mysql": {Store: stock.NewMySQL(store), Needs: rig.Up{}}},
			Strategies: map[string]service.StrategyConfig{
				"atomic": {Seller: service.Atomically, Blocking: true},
				"merged": {Seller: service.Merged(service.MergeOptions{}), Blocking: true},
			},
		})
		if err != nil {
			return nil, err
		}
		b.services = append(b.services, s)
		config := order.Config{
			Store: ledger.NewMySQL(store), Needs: rig.Up{}, Work: 5 * time.Second, KeepKey: time.Hour,
			Owner: s.Instance,
		}
		b.orders["atomic"] = append(b.orders["atomic"], order.New(config))
		b.orders["merged"] = append(b.orders["merged"], order.New(config.Merged(order.MergeOptions{})))
	}
	return b, nil
}

func (b *bare) close() {
	for _, closer := range b.closers {
		_ = closer()
	}
}

// run lets the callers sell one unit after the other for a time.
func (b *bare) run(ctx context.Context, j job, sku string, last time.Duration) (o outcome, err error) {
	key, err := service.ParseSKU(sku)
	if err != nil {
		return o, err
	}
	if how, ok := strings.CutPrefix(j.Row, ordersOf); ok {
		return b.runOrders(ctx, j, b.orders[how], key, last)
	}
	stock, err := b.services[0].SetStock(ctx, "mysql", key, stockOf)
	if err != nil {
		return o, err
	}
	sell := func(ctx context.Context, _ int) error { return b.sellBare(ctx, sku, stock.Epoch) }
	if j.Row == readLoop {
		sell = func(ctx context.Context, _ int) error { return b.sellRead(ctx, sku) }
	}
	if strategy, ok := strings.CutPrefix(j.Row, loopOf); ok {
		sell = func(ctx context.Context, caller int) error {
			_, err := b.services[caller%len(b.services)].Deduct(ctx,
				service.Request{Strategy: strategy, SKU: key, Quantity: 1, RequestID: "bench"})
			return err
		}
	}
	o, inAll, err := b.load(ctx, j, last, sell)
	if err != nil {
		return o, err
	}
	if _, err := b.side.Balance(ctx, "mysql", sku, inAll, 0); err != nil {
		return o, err
	}
	return o, b.side.Forget(ctx, "mysql", sku)
}

// runOrders is run for orders of customers: each sale is of a customer of its own and with an idempotency key, and
// writes the order, the movement that is its event, and the key in one step.
func (b *bare) runOrders(
	ctx context.Context, j job, services []*order.Service, sku service.SKU, last time.Duration,
) (o outcome, err error) {
	if _, _, err := services[0].Set(ctx, "", sku, stockOf, service.Condition{}); err != nil {
		return o, err
	}
	o, inAll, err := b.load(ctx, j, last, func(ctx context.Context, caller int) error {
		customer := uuid.NewString()
		one := []order.Line{{SKU: sku, Quantity: 1}}
		_, _, err := services[caller%len(services)].Place(ctx, customer, customer, one)
		return err
	})
	if err != nil {
		return o, err
	}
	if err := b.side.BalanceOrders(ctx, string(sku), inAll, 0); err != nil {
		return o, err
	}
	return o, b.side.ForgetOrders(ctx)
}

// load lets the callers sell for a time, and counts the sales: those in time make the outcome.
func (b *bare) load(
	ctx context.Context, j job, last time.Duration, sell func(ctx context.Context, caller int) error,
) (o outcome, inAll int64, err error) {
	begun, self := b.side.Read(ctx), rig.SelfTime()
	began := time.Now()
	inTime, inAll, failed := contend(ctx, j.Callers, began.Add(last), sell)
	used := rig.SelfTime() - self
	o.Done, o.Other = inTime, map[string]int64{}
	o.use(b.side.Read(ctx).Since(begun), used, time.Since(began).Seconds())
	o.Rate = float64(inTime) / last.Seconds()
	if ctx.Err() != nil {
		return o, inAll, context.Cause(ctx)
	}
	for _, err := range failed {
		if !errors.Is(err, lock.ErrOverloaded) {
			return o, inAll, err
		}
		o.Other["overloaded"]++
	}
	if o.Done == 0 {
		return o, inAll, errors.New("nothing was sold")
	}
	return o, inAll, nil
}

// contend calls sell from that many goroutines until the deadline, and returns how many sales ended in time, how many
// in all, and what went wrong.
func contend(
	ctx context.Context, callers int, deadline time.Time, sell func(ctx context.Context, caller int) error,
) (inTime, inAll int64, failed []error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for caller := range callers {
		all.Go(func() {
			var early, done int64
			var wrong []error
			for ctx.Err() == nil && time.Now().Before(deadline) {
				if err := sell(ctx, caller); err != nil {
					wrong = append(wrong, err)
					continue
				}
				done++
				if time.Now().Before(deadline) {
					early++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			inTime, inAll, failed = inTime+early, inAll+done, append(failed, wrong...)
		})
	}
	all.Wait()
	return inTime, inAll, failed
}

// sellBare is the loop that every shop begins with: BEGIN, a conditional UPDATE, INSERT, COMMIT, and nothing else. It
// tells nobody what it read, and has no gate, no limits of time, and no promise about the order of orders.
func (b *bare) sellBare(ctx context.Context, sku string, epoch uint64) error {
	tx, err := b.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET quantity = quantity - 1, sold = sold + 1, version = version + 1"+
		" WHERE sku = ? AND quantity >= 1", sku); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read,"+
		" quantity_left, strategy, instance, request_id, fence, segment, created_at)"+
		" VALUES (?, ?, ?, 0, 1, 0, 0, 'bare', 'no-http-1', 'bench', 0, 0, UTC_TIMESTAMP(6))",
		uuid.NewString(), sku, epoch); err != nil {
		return err
	}
	return tx.Commit()
}

// sellRead is the least that a sale costs if its order records what it read: the two packets of ADR 19, sent by
// database/sql and nothing else. What [service.Atomically] takes besides is the cost of this project's code.
func (b *bare) sellRead(ctx context.Context, sku string) error {
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var quantity, version, epoch uint64
	rows, err := conn.QueryContext(ctx,
		"START TRANSACTION; SELECT quantity, version, epoch FROM stock WHERE sku = ? FOR UPDATE", sku)
	if err != nil {
		return err
	}
	if !rows.Next() {
		return errors.Join(errors.New("no row"), rows.Err())
	}
	if err := errors.Join(rows.Scan(&quantity, &version, &epoch), rows.Close()); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "UPDATE stock SET quantity = ?, sold = sold + 1, version = ? WHERE sku = ?; "+
		"INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy, instance,"+
		" request_id, fence, segment, created_at) VALUES (?, ?, ?, ?, 1, ?, ?, 'bare', 'no-http-1', 'bench', 0, 0,"+
		" UTC_TIMESTAMP(6)); COMMIT",
		quantity-1, version+1, sku, uuid.NewString(), sku, epoch, version, quantity, quantity-1)
	return err
}
