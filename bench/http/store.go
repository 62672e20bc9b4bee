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

	"example.com/stock/bench/rig"
	"example.com/stock/gate"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/service"
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
	closers  []func() error
}

func openBare(side *rig.Side) (b *bare, err error) {
	b = &bare{side: side}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	url := side.Stack.Server("mysql").URL
	instances := len(side.Instances())
	if b.pool, err = sql.Open("mysql", url+"?interpolateParams=true"); err != nil {
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
			Instance: fmt.Sprintf("no-http-%d", i+1), DefaultStore: "mysql", Wait: 5 * time.Second, Work: 5 * time.Second,
			Stores: map[string]service.StoreConfig{"mysql": {Store: store, Needs: up{}}},
			Strategies: map[string]service.StrategyConfig{
				"atomic": {Seller: service.Atomically, Blocking: true},
				"merged": {Seller: service.Merged(service.MergeOptions{}), Blocking: true},
			},
		})
		if err != nil {
			return nil, err
		}
		b.services = append(b.services, s)
	}
	return b, nil
}

func (b *bare) close() {
	for _, closer := range b.closers {
		_ = closer()
	}
}

// up is a server that is always up.
type up struct{}

func (up) Err() error { return nil }
func (up) While(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// run lets the callers sell one unit after the other for a time.
func (b *bare) run(ctx context.Context, j job, sku string, last time.Duration) (o outcome, err error) {
	key, err := service.ParseSKU(sku)
	if err != nil {
		return o, err
	}
	stock, err := b.services[0].SetStock(ctx, "mysql", key, stockOf)
	if err != nil {
		return o, err
	}
	sell := func(ctx context.Context, _ int) error { return b.sellBare(ctx, sku, stock.Epoch) }
	if strategy, ok := strings.CutPrefix(j.Row, loopOf); ok {
		sell = func(ctx context.Context, caller int) error {
			_, err := b.services[caller%len(b.services)].Deduct(ctx,
				service.Request{Strategy: strategy, SKU: key, Quantity: 1, RequestID: "bench"})
			return err
		}
	}
	begun, self := b.side.Read(ctx), rig.SelfTime()
	began := time.Now()
	inTime, inAll, failed := contend(ctx, j.Callers, began.Add(last), sell)
	used := rig.SelfTime() - self
	o.Done, o.Other = inTime, map[string]int64{}
	o.use(b.side.Read(ctx).Since(begun), used, time.Since(began).Seconds())
	o.Rate = float64(inTime) / last.Seconds()
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	for _, err := range failed {
		if !errors.Is(err, lock.ErrOverloaded) {
			return o, err
		}
		o.Other["overloaded"]++
	}
	if o.Done == 0 {
		return o, errors.New("nothing was sold")
	}
	if _, err := b.side.Balance(ctx, "mysql", sku, inAll, 0); err != nil {
		return o, err
	}
	return o, b.side.Forget(ctx, "mysql", sku)
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
