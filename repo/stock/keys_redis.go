package stock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// orderKeyed returns the Redis key of the order that was written with an idempotency key.
func orderKeyed(sku service.SKU, key service.Key) string {
	return stockKey(sku) + ":key:" + key.ID
}

// Replay takes one round trip. Idempotency keys are kept for each SKU, so Replay does not notice that a key was used
// for another SKU.
func (r *Redis) Replay(ctx context.Context, sku service.SKU, key service.Key) (o service.Order, found bool, err error) {
	const doing = "look for the order of a key"
	kept, err := repo.Ask(ctx, r.Redis, doing, stockKey(sku), func(c redis.UniversalClient) (string, error) {
		return c.Get(ctx, orderKeyed(sku, key)).Result()
	})
	switch {
	case errors.Is(err, redis.Nil):
		return o, false, nil
	case err != nil:
		return o, false, err
	case len(kept) < service.KeyLength || kept[:service.KeyLength] != key.Fingerprint:
		return o, false, service.ErrKeyReused
	}
	o, err = decodeOrder(sku, kept[service.KeyLength:])
	return o, err == nil, err
}
