package stock

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

//go:embed batch.lua
var batchLua string

var batchScript = redisscript.New(fenceLua + batchLua)

// Batch takes one round trip. The script takes some 6 µs for each order, so 0.7 ms for a batch of 128. Meanwhile Redis
// serves no other client.
func (r *Redis) Batch(ctx context.Context, orders []service.Order) ([]service.BatchResult, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	if err := checkBatch(orders); err != nil {
		return nil, err
	}
	const doing = "deduct in a batch"
	args := make([]any, 0, 1+9*len(orders))
	args = append(args, service.KeepKeys.Milliseconds())
	keys := saleKeys(orders[0].SKU)
	results := make([]service.BatchResult, len(orders))
	sent := make([]int, 0, len(orders)) // indexes of the orders that are sent
	for i, o := range orders {
		results[i].Order = o
		o.Remaining = 0
		if err := checkOrder(o); err != nil {
			results[i].Err = err
			continue
		}
		sent = append(sent, i)
		keyAt := 0 // index in KEYS, from 1; 0: no key
		if o.Key.ID != "" {
			keys = append(keys, orderKeyed(o.SKU, o.Key))
			keyAt = len(keys)
		}
		args = append(args, decimalOrAny(o.Epoch), o.Strategy, repo.Decimal(o.Fence), o.Quantity,
			o.ID, writtenBy(o).UnixMilli(), encodeOrderTail(o), keyAt, o.Key.Fingerprint)
	}
	if len(sent) == 0 {
		return results, nil
	}
	sku := orders[0].SKU
	reply, err := r.Run(ctx, doing, batchScript, keys, args...)
	if err != nil {
		return nil, err
	}
	f := repo.Fields{Key: repo.StockKey(sku), Values: reply}
	epoch := f.Natural(1)
	replies, _ := reply[len(reply)-1].([]any)
	if f.Err != nil || len(replies) != len(sent) {
		// The orders may have been written, but this program does not understand the reply.
		odd := fmt.Errorf("%d replies to %d orders", len(replies), len(sent))
		return nil, repo.OutcomeUnknown(doing, errors.Join(odd, f.Err))
	}
	for n, i := range sent {
		values, _ := replies[n].([]any)
		if err := repo.Refusal(doing, f.Key, values); err != nil {
			results[i].Err = err
			continue
		}
		one, o := repo.Fields{Key: f.Key, Values: values}, &results[i].Order
		o.Read, o.Remaining, o.Version, o.Epoch = one.Integer(1), one.Integer(2), one.Natural(3), epoch
		results[i].Err = one.Err
	}
	return results, nil
}

// decimalOrAny returns n in decimal. For 0 it returns "", which the scripts accept as any number.
func decimalOrAny(n uint64) string {
	if n == 0 {
		return ""
	}
	return repo.Decimal(n)
}
