package stock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

//go:embed set.lua
var setLua string

//go:embed orders.lua
var ordersLua string

var (
	setScript    = redisscript.New(fenceLua + setLua)
	ordersScript = redisscript.New(ordersLua)
)

// Set takes two round trips, and two more for each concurrent Set of the SKU. While a cluster is moving the slot, Set
// waits. The script that writes also checks the condition.
func (r *Redis) Set(
	ctx context.Context, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	const doing = "set stock"
	var reply []any
	for attempt := 1; ; attempt++ {
		epoch, err := r.epoch(ctx, doing, sku)
		if err == nil {
			reply, err = r.set(ctx, doing, sku, quantity, epoch, c, "")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, service.ErrStockReset) || attempt == repo.Attempts {
			return service.Stock{}, err
		}
	}
	f := fields{key: stockKey(sku), values: reply}
	return service.Stock{
		SKU: sku, Quantity: quantity, Initial: quantity, Version: f.natural(1), Epoch: f.natural(2),
	}, f.err
}

// epoch returns the current epoch, 0 if there is none.
func (r *Redis) epoch(ctx context.Context, doing string, sku service.SKU) (uint64, error) {
	key := stockKey(sku)
	text, err := repo.Ask(ctx, r.Redis, doing, key, func(c redis.UniversalClient) (string, error) {
		return c.HGet(ctx, key, "epoch").Result()
	})
	switch {
	case errors.Is(err, redis.Nil):
		return 0, nil
	case err != nil:
		return 0, err
	}
	f := fields{key: key, values: []any{text}}
	return f.natural(0), f.err
}

// neverThere makes set fail if any key of the SKU exists.
const neverThere = "never there"

// set ends epoch and begins the next one. It fails with service.ErrStockReset if another client has already ended
// epoch, or if only is neverThere and the SKU has ever existed.
func (r *Redis) set(
	ctx context.Context, doing string, sku service.SKU, quantity int64, epoch uint64, c service.Condition, only string,
) ([]any, error) {
	keys, over := saleKeys(sku), ""
	if epoch != 0 {
		keys, over = append(keys, formerKey(sku, epoch)), decimal(epoch)
	}
	return r.run(ctx, doing, setScript, keys,
		quantity, over, int64(KeepOrders.Seconds()), tags(c.Match), tags(c.NoneMatch), only)
}

// tags returns list in the form of set.lua: each tag between blanks, or "" for no list.
func tags(list []string) string {
	if list == nil {
		return ""
	}
	return " " + strings.Join(list, " ") + " "
}

// Orders takes one round trip. It fails with service.ErrStockReset if the epoch of the cursor has ended.
func (r *Redis) Orders(ctx context.Context, sku service.SKU, from string, limit int) ([]service.Order, string, error) {
	at, err := parseCursor(from)
	if err != nil {
		return nil, "", err
	}
	// One more order than limit shows whether there is a next page.
	const doing = "read orders"
	reply, err := r.run(ctx, doing, ordersScript, []string{stockKey(sku), ordersKey(sku)},
		decimalOrAny(at.epoch), at.after+1, at.after+1+int64(limit))
	if err != nil {
		return nil, "", repo.Idempotent(ctx, doing, err)
	}
	f := fields{key: stockKey(sku), values: reply}
	at.epoch = f.natural(1)
	list, _ := reply[2].([]any)
	if f.err != nil {
		return nil, "", f.err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = cursor{at.epoch, at.after + int64(limit)}.String()
	}
	page := make([]service.Order, len(list))
	for i, item := range list {
		text, _ := item.(string)
		if page[i], err = decodeOrder(sku, text); err != nil {
			return nil, "", fmt.Errorf("order %d in %s: %w", at.after+1+int64(i), ordersKey(sku), err)
		}
	}
	return page, next, nil
}
