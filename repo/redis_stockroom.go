package repo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"example.com/stock/service"
)

// Set is one round trip.
func (r *Redis) Set(ctx context.Context, sku service.SKU, quantity int64) (service.Stock, error) {
	return r.SetIf(ctx, sku, quantity, service.Condition{})
}

// SetIf is one round trip.
func (r *Redis) SetIf(
	ctx context.Context, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	if err := checkQuantity("quantity", quantity); err != nil {
		return service.Stock{}, err
	}
	reply, err := r.run(ctx, "set stock", setScript, sku,
		quantity, "", int64(KeepOrders.Seconds()), tags(c.Match), tags(c.NoneMatch))
	if err != nil {
		return service.Stock{}, err
	}
	f := fields{key: stockKey(sku), values: reply}
	return service.Stock{SKU: sku, Quantity: quantity, Initial: quantity, Version: f.natural(1), Epoch: f.natural(2)}, f.err
}

// Seed is one round trip.
func (r *Redis) Seed(ctx context.Context, sku service.SKU, quantity int64) error {
	if err := checkQuantity("quantity", quantity); err != nil {
		return err
	}
	_, err := r.run(ctx, "seed stock", setScript, sku, quantity, "seed", int64(KeepOrders.Seconds()), "", "")
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
	reply, err := r.run(ctx, "read orders", ordersScript, sku, epoch, at.after, at.after+int64(limit))
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
			return nil, "", fmt.Errorf("order %d in %s:orders:%d: %w", at.after+int64(i), stockKey(sku), at.epoch, err)
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
