package stock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// originKey is the key of the hash of the store's origin. In Redis Cluster it is not in the slots of the stock.
const originKey = "stock:origin"

//go:embed origin.lua
var originLua string

//go:embed origin_seeded.lua
var originSeededLua string

var (
	replaceOrigin = redisscript.New(originLua)
	noteSeeded    = redisscript.New(originSeededLua)
)

// Origin takes one round trip.
func (r *Redis) Origin(ctx context.Context) (service.Origin, error) {
	const doing = "read the origin"
	values, err := r.Client().HMGet(ctx, originKey, "id", "generation", "lost").Result()
	if err != nil {
		return service.Origin{}, repo.RedisFault(ctx, doing, "", err)
	}
	if values[0] == nil {
		return service.Origin{}, nil
	}
	f := fields{key: originKey, values: values}
	o := service.Origin{ID: f.text(0), Generation: f.natural(1), Lost: f.text(2) == "1"}
	return o, f.err
}

// Replace takes one round trip.
func (r *Redis) Replace(ctx context.Context, was, is service.Origin) error {
	return r.note(ctx, "record the origin", replaceOrigin,
		was.ID, decimal(was.Generation), digit(was.Lost), is.ID, decimal(is.Generation), digit(is.Lost))
}

// Seed takes one round trip, or three if the seeding is not recorded. The SKU and the origin may be in different slots,
// so one step creates the SKU, and another records the seeding with the origin. If an instance crashes between the two
// steps, the next Seed still does not create the SKU again: it finds the SKU's list of orders or its set of settled
// ids, which remain even if somebody deletes the stock by hand.
func (r *Redis) Seed(ctx context.Context, o service.Origin, sku service.SKU, quantity int64) error {
	const doing = "seed stock"
	values, err := r.Client().HMGet(ctx, originKey, "id", "lost", "seeded:"+string(sku)).Result()
	if err != nil {
		return repo.RedisFault(ctx, doing, "", err)
	}
	if values[0] != o.ID || values[1] != "0" || values[2] != nil {
		return nil
	}
	_, err = r.set(ctx, doing, sku, quantity, 0, service.Condition{}, neverThere)
	if err != nil && !errors.Is(err, service.ErrStockReset) { // ErrStockReset: it exists, or has existed
		return err
	}
	return r.note(ctx, doing, noteSeeded, o.ID, string(sku))
}

// note runs an idempotent script on the origin. A lost reply is reported as a server that is down.
func (r *Redis) note(ctx context.Context, doing string, s *redisscript.Script, args ...any) error {
	if err := s.Run(ctx, r.Client(), []string{originKey}, args...).Err(); err != nil {
		return fmt.Errorf("%s: %w", originKey, repo.RedisFault(ctx, doing, "", err))
	}
	return nil
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
