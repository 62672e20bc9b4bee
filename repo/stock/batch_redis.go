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
	const doing = "deduct in a batch"
	args := make([]any, 0, 1+9*len(orders))
	args = append(args, service.KeepKeys.Milliseconds())
	keys := saleKeys(orders[0].SKU)
	for _, o := range orders {
		keyAt := 0 // index in KEYS, from 1; 0: no key
		if o.Key.ID != "" {
			keys = append(keys, orderKeyed(o.SKU, o.Key))
			keyAt = len(keys)
		}
		args = append(args, decimalOrAny(o.Epoch), o.Strategy, decimal(o.Fence), o.Quantity,
			o.ID, writtenBy(o).UnixMilli(), encodeOrderTail(o), keyAt, o.Key.Fingerprint)
	}
	sku := orders[0].SKU
	reply, err := r.run(ctx, doing, batchScript, keys, args...)
	if err != nil {
		return nil, err
	}
	f := fields{key: stockKey(sku), values: reply}
	epoch := f.natural(1)
	replies, _ := reply[len(reply)-1].([]any)
	if f.err != nil || len(replies) != len(orders) {
		// The orders may have been written, but this program does not understand the reply.
		odd := fmt.Errorf("%d replies to %d orders", len(replies), len(orders))
		return nil, repo.OutcomeUnknown(doing, errors.Join(odd, f.err))
	}
	results := make([]service.BatchResult, len(orders))
	for i := range orders {
		results[i].Order = orders[i]
		values, _ := replies[i].([]any)
		if err := refusal(doing, f.key, values); err != nil {
			results[i].Err = err
			continue
		}
		one, o := fields{key: f.key, values: values}, &results[i].Order
		o.Read, o.Remaining, o.Version, o.Epoch = one.integer(1), one.integer(2), one.natural(3), epoch
		results[i].Err = one.err
	}
	return results, nil
}

// decimalOrAny returns n in decimal. For 0 it returns "", which the scripts accept as any number.
func decimalOrAny(n uint64) string {
	if n == 0 {
		return ""
	}
	return decimal(n)
}
