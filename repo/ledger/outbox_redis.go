package ledger

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

//go:embed delivered.lua
var ledgerDeliveredLua string

var ledgerDeliveredScript = redisscript.New(ledgerDeliveredLua)

var _ order.Outbox = (*Redis)(nil)

// Behind takes two round trips, or one if everything was delivered. It reads only the SKUs with undelivered movements.
func (l *Redis) Behind(ctx context.Context, after service.SKU, limit int) (all []order.Delivered, err error) {
	const doing = "look for what is to be delivered"
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		from = "(" + string(after)
	}
	var names []string
	err = l.ask(ctx, doing, behindKey, func() (err error) {
		by := &redis.ZRangeBy{Min: from, Max: "+", Count: int64(limit)}
		names, err = l.redis.Client().ZRangeByLex(ctx, behindKey, by).Result()
		return err
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	numbers := make([]*redis.StringCmd, len(names))
	err = l.ask(ctx, doing, behindKey, func() error {
		_, err := l.redis.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				numbers[i] = p.HGet(ctx, deliveredKey(service.SKU(name)), "number")
			}
			return nil
		})
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	for i, name := range names {
		d := order.Delivered{SKU: service.SKU(name)}
		text, err := numbers[i].Result()
		if err == nil {
			f := repo.Fields{Key: deliveredKey(d.SKU), Values: []any{text}}
			d.Number, err = f.Natural(0), f.Err
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Now takes one round trip.
func (l *Redis) Now(ctx context.Context) (time.Time, error) { return l.redis.Now(ctx) }

// Delivered takes one round trip. It is idempotent, so a lost reply is lock.ErrDown.
func (l *Redis) Delivered(ctx context.Context, d order.Delivered, fence uint64) error {
	_, err := l.read(ctx, "record what was delivered", ledgerDeliveredScript,
		[]string{repo.StockKey(d.SKU), deliveredKey(d.SKU), behindKey},
		string(d.SKU), repo.Decimal(d.Number), repo.Decimal(fence))
	return err
}

func deliveredKey(sku service.SKU) string { return repo.StockKey(sku) + ":delivered" }
