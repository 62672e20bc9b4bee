package repo

import (
	"context"
	"errors"
	"strconv"

	"example.com/stock/service"
)

// findPage is how many orders Redis looks through in one go, some 0.3 ms: others wait for that.
const findPage = 1000

// Settle declares the id absent, so that no script writes an order with it any more, and then looks whether one was
// written before: in the orders of this epoch and in those of earlier ones that are still kept, from the last on.
//
// It is one round trip, and one for each 1000 orders and for each earlier epoch. While a cluster is moving the slot it
// waits.
//
// What the answer rests on: Redis remembers the id for KeepOrders by its own clock, and refuses an order that was made
// longer ago than half of that, in whatever socket buffer, proxy or process it has been since. So it holds while the
// clocks of Redis and of the instances differ by less than half of KeepOrders. It does not hold after a failover, or a
// restart, that loses the last writes, or when an old state is restored.
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
			return service.Order{}, false, harmless(ctx, doing, err) // the script only reads
		case err == nil && !found && late:
			return service.Order{}, false, service.ErrTooOld
		}
		return order, found, err
	}
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = harmless(ctx, doing, err) // to settle twice is to settle once
	}
	return service.Order{}, false, err
}

// find looks for an order of epoch or of an earlier one. The orders of one may become those of a former epoch
// meanwhile.
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
			break // Those of earlier epochs have expired before.
		}
		keys = []string{formerKey(sku, epoch-1)}
	}
	return service.Order{}, false, nil
}

// findIn fails with service.ErrStockReset if the orders of that epoch are not under that key.
func (r *Redis) findIn(
	ctx context.Context, sku service.SKU, key string, epoch uint64, id string,
) (service.Order, bool, error) {
	// Text of an order has its quotes escaped, so nothing but an id looks like that.
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

var _ service.Settler = (*Redis)(nil)
