package stock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// originKey is the key of the hash of the store's own origin, and rememberedKey the key of the hash of the remembered
// origins of other stores. In Redis Cluster they are not in the slots of the stock.
const (
	originKey     = "stock:origin"
	rememberedKey = "stock:remembered"
)

//go:embed origin.lua
var originLua string

//go:embed origin_seeded.lua
var originSeededLua string

//go:embed origin_remember.lua
var originRememberLua string

var (
	replaceOrigin  = redisscript.New(originLua)
	noteSeeded     = redisscript.New(originSeededLua)
	rememberOrigin = redisscript.New(originRememberLua)
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
	f := repo.Fields{Key: originKey, Values: values}
	o := service.Origin{ID: f.Text(0), Generation: f.Natural(1), Lost: f.Text(2) == "1"}
	return o, f.Err
}

// Replace takes one round trip.
func (r *Redis) Replace(ctx context.Context, was, is service.Origin) (bool, error) {
	return r.note(ctx, "record the origin", replaceOrigin, originKey,
		was.ID, repo.Decimal(was.Generation), digit(was.Lost), is.ID, repo.Decimal(is.Generation), digit(is.Lost))
}

// Seed takes one round trip, or three if the seeding is not recorded. The SKU and the origin may be in different slots,
// so one step creates the SKU, and another records the seeding with the origin. If an instance crashes between the two
// steps, the next Seed still does not create the SKU again: it finds the SKU's list of orders or its set of settled
// ids, which remain even if somebody deletes the stock by hand.
func (r *Redis) Seed(ctx context.Context, o service.Origin, sku service.SKU, quantity int64) error {
	const doing = "seed stock"
	if err := repo.CheckQuantity("quantity", quantity); err != nil {
		return err
	}
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
	_, err = r.note(ctx, doing, noteSeeded, originKey, o.ID, string(sku))
	return err
}

// Recall takes one round trip.
func (r *Redis) Recall(ctx context.Context, store string) (service.Origin, error) {
	const doing = "recall an origin"
	text, err := r.Client().HGet(ctx, rememberedKey, store).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return service.Origin{}, nil
	case err != nil:
		return service.Origin{}, repo.RedisFault(ctx, doing, "", err)
	}
	generation, id, _ := strings.Cut(text, " ")
	f := repo.Fields{Key: rememberedKey, Values: []any{generation}}
	return service.Origin{ID: id, Generation: f.Natural(0)}, f.Err
}

// Remember takes one round trip.
func (r *Redis) Remember(ctx context.Context, store string, o service.Origin) error {
	_, err := r.note(ctx, "remember an origin", rememberOrigin, rememberedKey, store, repo.Decimal(o.Generation), o.ID)
	return err
}

// note runs an idempotent script that returns 1 if it has changed anything. A lost reply is reported as a server that
// is down.
func (r *Redis) note(ctx context.Context, doing string, s *redisscript.Script, key string, args ...any) (bool, error) {
	n, err := s.Run(ctx, r.Client(), []string{key}, args...).Int()
	if err != nil {
		return false, fmt.Errorf("%s: %w", key, repo.RedisFault(ctx, doing, "", err))
	}
	return n == 1, nil
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
