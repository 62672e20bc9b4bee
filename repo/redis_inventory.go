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

// Set is two round trips, and two more for each other Set that comes between them. On a cluster that is moving the slot
// it waits for the end of the move.
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
			reply, err = r.set(ctx, doing, sku, quantity, epoch, c, "")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, service.ErrStockReset) || attempt == attempts {
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

// neverThere makes set refuse a SKU of which anything is left.
const neverThere = "never there"

// set ends that epoch and begins the next. If another client has done so, or the SKU was there and only is neverThere,
// it fails with service.ErrStockReset.
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

// tags returns list as set.lua takes it: each tag between blanks, "" for no list.
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
	// One order more than asked for shows whether there is a next page.
	reply, err := r.run(ctx, "read orders", ordersScript, pageKeys(sku), epoch, at.after+1, at.after+1+int64(limit))
	if errors.Is(err, service.ErrOutcomeUnknown) {
		return nil, "", idempotentFailure(ctx, "read orders", err) // the script only reads
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

// findPage is the number of orders that Redis searches at a time. It takes some 0.3 ms, for which other clients wait.
const findPage = 1000

// Settle declares the id absent, so that no script writes an order with it any more. Then it looks for an order that
// was written before: in the orders of this epoch and in those of earlier ones that are still kept, the last one first.
//
// It is one round trip, one more for each 1000 orders, and one for each earlier epoch. While a cluster is moving the
// slot it waits.
//
// Redis remembers the id for KeepOrders by its own clock. It refuses an order that was made longer ago than half of
// that, in whatever socket buffer, proxy or process the order has been since. So the answer holds while the clocks of
// Redis and of the instances differ by less than half of KeepOrders. It does not hold after a failover, or a restart,
// that loses the last writes, nor after an old state was restored.
func (r *Redis) Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error) {
	const doing = "settle order"
	made, err := madeAt(id)
	if err != nil {
		return service.Order{}, false, err
	}
	reply, err := r.run(ctx, doing, settleScript, []string{stockKey(sku), settledKey(sku)},
		id, made.Add(writeWithin).UnixMilli(), KeepOrders.Milliseconds(), maxSettled)
	if err == nil {
		f := fields{key: stockKey(sku), values: reply}
		epoch, late := f.natural(1), f.text(2) == "late"
		if f.err != nil {
			return service.Order{}, false, f.err
		}
		order, found, err := r.find(ctx, sku, epoch, id)
		switch {
		case errors.Is(err, service.ErrOutcomeUnknown):
			return service.Order{}, false, idempotentFailure(ctx, doing, err) // the script only reads
		case err == nil && !found && late:
			return service.Order{}, false, service.ErrTooOld
		}
		return order, found, err
	}
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = idempotentFailure(ctx, doing, err) // settling is idempotent
	}
	return service.Order{}, false, err
}

// find looks for an order of epoch or of an earlier one. If the stock is set meanwhile, the orders of epoch get the key
// of a former epoch.
func (r *Redis) find(ctx context.Context, sku service.SKU, epoch uint64, id string) (service.Order, bool, error) {
	keys := []string{ordersKey(sku), formerKey(sku, epoch)}
	for ; epoch > 0; epoch-- {
		kept := false
		for _, key := range keys {
			order, found, err := r.findIn(ctx, sku, key, epoch, id)
			if errors.Is(err, service.ErrStockReset) {
				continue
			}
			if err != nil || found {
				return order, found, err
			}
			kept = true
			break
		}
		if !kept {
			break // the orders of earlier epochs expired before
		}
		keys = []string{formerKey(sku, epoch-1)}
	}
	return service.Order{}, false, nil
}

// findIn looks for an order in one list. It fails with service.ErrStockReset if the key does not hold the orders of
// epoch.
func (r *Redis) findIn(
	ctx context.Context, sku service.SKU, key string, epoch uint64, id string,
) (service.Order, bool, error) {
	// Quotes in the text of an order are escaped, so only its id can look like that.
	part := `"order_id":` + strconv.Quote(id)
	for last := ""; ; {
		reply, err := r.run(ctx, "find order", findScript, []string{key}, decimal(epoch), part, last, findPage)
		if err != nil {
			return service.Order{}, false, err
		}
		f := fields{key: key, values: reply}
		text := f.text(1)
		if last = f.text(2); f.err != nil {
			return service.Order{}, false, f.err
		}
		switch {
		case text != "":
			order, err := decodeOrder(sku, text)
			return order, err == nil, err
		case last == "":
			return service.Order{}, false, nil
		}
	}
}
