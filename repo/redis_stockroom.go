package repo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/service"
)

// Set is two round trips, and two more for each Set of another's that comes between them. On a cluster that is moving
// the slot it waits for the end of that.
func (r *Redis) Set(ctx context.Context, sku service.SKU, quantity int64) (service.Stock, error) {
	return r.SetIf(ctx, sku, quantity, service.Condition{})
}

// SetIf costs what Set does. The condition is checked in the same step as the write.
func (r *Redis) SetIf(
	ctx context.Context, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	if err := checkQuantity("quantity", quantity); err != nil {
		return service.Stock{}, err
	}
	const doing = "set stock"
	var reply []any
	for attempt := 1; ; attempt++ {
		epoch, err := r.epoch(ctx, doing, sku)
		if err == nil {
			reply, err = r.set(ctx, doing, sku, quantity, epoch, c)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, service.ErrStockReset) || attempt == attempts {
			return service.Stock{}, err
		}
	}
	f := fields{key: stockKey(sku), values: reply}
	return service.Stock{SKU: sku, Quantity: quantity, Initial: quantity, Version: f.natural(1), Epoch: f.natural(2)}, f.err
}

// epoch is the current one, 0 if there is none.
func (r *Redis) epoch(ctx context.Context, doing string, sku service.SKU) (uint64, error) {
	leave, err := r.enter(ctx, doing, stockKey(sku))
	if err != nil {
		return 0, err
	}
	defer leave()
	text, err := r.client.HGet(ctx, stockKey(sku), "epoch").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return 0, nil
	case err != nil:
		return 0, redisFault(ctx, doing, stockKey(sku), err)
	}
	f := fields{key: stockKey(sku), values: []any{text}}
	return f.natural(0), f.err
}

// set begins the epoch after that one, unless another has: then it fails with service.ErrStockReset.
func (r *Redis) set(
	ctx context.Context, doing string, sku service.SKU, quantity int64, epoch uint64, c service.Condition,
) ([]any, error) {
	keys, over := saleKeys(sku), ""
	if epoch != 0 {
		keys, over = append(keys, formerKey(sku, epoch)), decimal(epoch)
	}
	return r.run(ctx, doing, setScript, keys,
		quantity, over, int64(KeepOrders.Seconds()), tags(c.Match), tags(c.NoneMatch))
}

// Seed is one round trip, two if it makes the SKU.
func (r *Redis) Seed(ctx context.Context, sku service.SKU, quantity int64) error {
	if err := checkQuantity("quantity", quantity); err != nil {
		return err
	}
	const doing = "seed stock"
	epoch, err := r.epoch(ctx, doing, sku)
	if err != nil || epoch != 0 {
		return err
	}
	if _, err = r.set(ctx, doing, sku, quantity, 0, service.Condition{}); errors.Is(err, service.ErrStockReset) {
		return nil // another was quicker
	}
	return err
}

// tags is a list as set.lua has it: each between blanks, "" for no list.
func tags(list []string) string {
	if list == nil {
		return ""
	}
	return " " + strings.Join(list, " ") + " "
}

// Orders is one round trip. A cursor of an epoch that is over fails with service.ErrStockReset.
func (r *Redis) Orders(ctx context.Context, sku service.SKU, from string, limit int) ([]service.Order, string, error) {
	at, err := parseCursor(from)
	if err == nil {
		err = checkLimit(limit)
	}
	if err != nil {
		return nil, "", err
	}
	epoch := ""
	if at.epoch != 0 {
		epoch = decimal(at.epoch)
	}
	// One more than asked for tells whether there is a next page.
	reply, err := r.run(ctx, "read orders", ordersScript, pageKeys(sku), epoch, at.after+1, at.after+1+int64(limit))
	if errors.Is(err, service.ErrOutcomeUnknown) {
		// The script only reads: whether it ran makes no difference.
		return nil, "", harmless(ctx, "read orders", err)
	}
	if err != nil {
		return nil, "", err
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

// fields are strings that Redis answered. The first that is not what it should be becomes err.
type fields struct {
	key    string
	values []any
	err    error
}

func (f *fields) text(i int) string {
	if i < len(f.values) {
		if s, ok := f.values[i].(string); ok {
			return s
		}
	}
	f.fail(errors.New("a field is missing"))
	return ""
}

func (f *fields) integer(i int) int64 {
	n, err := strconv.ParseInt(f.text(i), 10, 64)
	f.fail(err)
	return n
}

func (f *fields) natural(i int) uint64 {
	n, err := strconv.ParseUint(f.text(i), 10, 64)
	f.fail(err)
	return n
}

func (f *fields) fail(err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("key %s is not stock of this service, set the stock again: %w", f.key, err)
	}
}
