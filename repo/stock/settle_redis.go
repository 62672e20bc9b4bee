package stock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"strconv"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

//go:embed settle.lua
var settleLua string

//go:embed find.lua
var findLua string

var (
	settleScript = redisscript.New(settleLua)
	findScript   = redisscript.New(findLua)
)

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
	reply, err := r.run(ctx, doing, settleScript, []string{stockKey(sku), settledKey(sku)},
		id, made.Add(writeWithin).UnixMilli(), KeepOrders.Milliseconds(), maxSettled)
	if err != nil {
		return service.Order{}, false, repo.Idempotent(ctx, doing, err)
	}
	f := fields{key: stockKey(sku), values: reply}
	epoch, former, late := f.natural(1), f.natural(2), f.text(3) == "late"
	if f.err != nil {
		return service.Order{}, false, f.err
	}
	order, found, err := r.find(ctx, sku, epoch, former, id)
	if err == nil && !found && late {
		err = service.ErrTooOld
	}
	return order, found, repo.Idempotent(ctx, doing, err)
}

// find looks for an order in epoch, in former, the one before, and in earlier ones. It searches two keys for epoch,
// because a concurrent Set moves its orders to the second one.
func (r *Redis) find(
	ctx context.Context, sku service.SKU, epoch, former uint64, id string,
) (service.Order, bool, error) {
	order, _, err := r.findIn(ctx, sku, ordersKey(sku), epoch, id)
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
		reply, err := r.run(ctx, "find order", findScript, []string{key}, decimal(epoch), part, last, findPage)
		if err != nil {
			return service.Order{}, 0, err
		}
		f := fields{key: key, values: reply}
		text := f.text(1)
		last, former = f.text(2), f.natural(3)
		if f.err != nil {
			return service.Order{}, 0, f.err
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
