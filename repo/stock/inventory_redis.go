package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Set takes two round trips, and two more for each concurrent Set of the SKU. While a cluster is moving the slot, Set
// waits.
func (r *Redis) Set(ctx context.Context, sku service.SKU, quantity int64) (service.Stock, error) {
	return r.SetIf(ctx, sku, quantity, service.Condition{})
}

// SetIf takes the round trips of Set. The script that writes also checks the condition.
func (r *Redis) SetIf(
	ctx context.Context, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	if err := repo.CheckQuantity("quantity", quantity); err != nil {
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
		if !errors.Is(err, service.ErrStockReset) || attempt == repo.Attempts {
			return service.Stock{}, err
		}
	}
	f := repo.Fields{Key: repo.StockKey(sku), Values: reply}
	return service.Stock{
		SKU: sku, Quantity: quantity, Initial: quantity, Version: f.Natural(1), Epoch: f.Natural(2),
	}, f.Err
}

// epoch returns the current epoch, 0 if there is none.
func (r *Redis) epoch(ctx context.Context, doing string, sku service.SKU) (uint64, error) {
	leave, err := r.Enter(ctx, doing)
	if err != nil {
		return 0, err
	}
	defer leave()
	text, err := r.Client().HGet(ctx, repo.StockKey(sku), "epoch").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return 0, nil
	case err != nil:
		return 0, repo.RedisFault(ctx, doing, repo.StockKey(sku), err)
	}
	f := repo.Fields{Key: repo.StockKey(sku), Values: []any{text}}
	return f.Natural(0), f.Err
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
		keys, over = append(keys, formerKey(sku, epoch)), repo.Decimal(epoch)
	}
	return r.Run(ctx, doing, setScript, keys,
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
	if err == nil {
		err = repo.CheckLimit(limit)
	}
	if err != nil {
		return nil, "", err
	}
	epoch := ""
	if at.epoch != 0 {
		epoch = repo.Decimal(at.epoch)
	}
	// One more order than limit shows whether there is a next page.
	reply, err := r.Run(ctx, "read orders", ordersScript, pageKeys(sku), epoch, at.after+1, at.after+1+int64(limit))
	if errors.Is(err, service.ErrOutcomeUnknown) {
		return nil, "", repo.IdempotentFailure(ctx, "read orders", err) // the script only reads
	}
	if err != nil {
		return nil, "", err
	}
	f := repo.Fields{Key: repo.StockKey(sku), Values: reply}
	at.epoch = f.Natural(1)
	list, _ := reply[2].([]any)
	if f.Err != nil {
		return nil, "", f.Err
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
			return nil, "", fmt.Errorf("order %d in %s: %w", at.after+1+int64(i), repo.OrdersKey(sku), err)
		}
	}
	return page, next, nil
}

// findPage is the number of orders that one script searches, which blocks other clients for some 0.3 ms.
const findPage = 1000

// Settle declares the id absent, so that no script writes an order with it any more. Then it looks for an order that
// was written before, in the orders of this epoch and of the earlier epochs that are still kept, the latest epoch
// first.
//
// It takes one round trip, and one more for each 1000 orders and for each earlier epoch. While a cluster is moving the
// slot, Settle waits.
//
// Redis remembers the id for KeepOrders by its own clock, and refuses an order that is older than half of KeepOrders,
// whatever delayed it. So the answer of Settle is final if the clocks of Redis and of the instances differ by less than
// half of KeepOrders. It is not final after a failover or a restart that loses the last writes, or after a backup was
// restored.
func (r *Redis) Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error) {
	const doing = "settle order"
	made, err := madeAt(id)
	if err != nil {
		return service.Order{}, false, err
	}
	reply, err := r.Run(ctx, doing, settleScript, []string{repo.StockKey(sku), repo.SettledKey(sku)},
		id, made.Add(writeWithin).UnixMilli(), KeepOrders.Milliseconds(), repo.MaxSettled)
	if err == nil {
		f := repo.Fields{Key: repo.StockKey(sku), Values: reply}
		epoch, late := f.Natural(1), f.Text(3) == "late"
		former := formerEpoch(&f, 2, epoch)
		if f.Err != nil {
			return service.Order{}, false, f.Err
		}
		order, found, err := r.find(ctx, sku, epoch, former, id)
		switch {
		case errors.Is(err, service.ErrOutcomeUnknown):
			return service.Order{}, false, repo.IdempotentFailure(ctx, doing, err) // the script only reads
		case err == nil && !found && late:
			return service.Order{}, false, service.ErrTooOld
		}
		return order, found, err
	}
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = repo.IdempotentFailure(ctx, doing, err) // settling is idempotent
	}
	return service.Order{}, false, err
}

// formerEpoch returns field i, the epoch before this one. If it is "", this is the first epoch of the SKU, or it was
// begun by an earlier version of this service, which counted epochs.
func formerEpoch(f *repo.Fields, i int, epoch uint64) uint64 {
	if f.Text(i) == "" {
		return epoch - 1
	}
	return f.Natural(i)
}

// find looks for an order in epoch, in former, the one before, and in earlier ones. It searches two keys for epoch,
// because a concurrent Set moves its orders to the second one.
func (r *Redis) find(
	ctx context.Context, sku service.SKU, epoch, former uint64, id string,
) (service.Order, bool, error) {
	order, _, err := r.findIn(ctx, sku, repo.OrdersKey(sku), epoch, id)
	if errors.Is(err, service.ErrStockReset) {
		order, _, err = r.findIn(ctx, sku, formerKey(sku, epoch), epoch, id)
	}
	for err == nil && order.ID == "" && former > 0 {
		epoch = former
		order, former, err = r.findIn(ctx, sku, formerKey(sku, epoch), epoch, id)
	}
	if errors.Is(err, service.ErrStockReset) {
		err = nil // the orders of this epoch and of earlier ones have expired
	}
	return order, err == nil && order.ID != "", err
}

// findIn looks for an order in one list. If it is not there, order is zero, and former is the epoch before. It fails
// with service.ErrStockReset if the list is not of epoch.
func (r *Redis) findIn(
	ctx context.Context, sku service.SKU, key string, epoch uint64, id string,
) (order service.Order, former uint64, err error) {
	// Quotes in the values of an order are escaped, so part can match only the id.
	part := `"order_id":` + strconv.Quote(id)
	for last := ""; ; {
		reply, err := r.Run(ctx, "find order", findScript, []string{key}, repo.Decimal(epoch), part, last, findPage)
		if err != nil {
			return service.Order{}, 0, err
		}
		f := repo.Fields{Key: key, Values: reply}
		text := f.Text(1)
		last, former = f.Text(2), formerEpoch(&f, 3, epoch)
		if f.Err != nil {
			return service.Order{}, 0, f.Err
		}
		if text != "" {
			order, err = decodeOrder(sku, text)
			return order, 0, err
		}
		if last == "" {
			return service.Order{}, former, nil
		}
	}
}
