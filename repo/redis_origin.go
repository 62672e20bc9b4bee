package repo

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/service"
)

// The origin of the store, and the origins that it remembers of other stores, have keys of their own. In Redis Cluster
// they are in other slots than the stock.
const (
	originKey     = "stock:origin"
	rememberedKey = "stock:remembered"
)

//go:embed origin.lua
var originLua string

//go:embed origin_first.lua
var originFirstLua string

//go:embed origin_remember.lua
var originRememberLua string

var (
	replaceOrigin  = redis.NewScript(originLua)
	firstOfOrigin  = redis.NewScript(originFirstLua)
	rememberOrigin = redis.NewScript(originRememberLua)
)

// Origin is one round trip.
func (r *Redis) Origin(ctx context.Context) (service.Origin, error) {
	const doing = "read the origin"
	values, err := r.client.HMGet(ctx, originKey, "id", "generation", "lost").Result()
	if err != nil {
		return service.Origin{}, redisFault(ctx, doing, "", err)
	}
	if values[0] == nil {
		return service.Origin{}, nil
	}
	f := fields{key: originKey, values: values}
	o := service.Origin{ID: f.text(0), Generation: f.natural(1), Lost: f.text(2) == "1"}
	return o, f.err
}

// Replace is one round trip.
func (r *Redis) Replace(ctx context.Context, was, is service.Origin) (bool, error) {
	return r.note(ctx, "record the origin", replaceOrigin, originKey,
		was.ID, decimal(was.Generation), digit(was.Lost), is.ID, decimal(is.Generation), digit(is.Lost))
}

// First is one round trip.
func (r *Redis) First(ctx context.Context, o service.Origin, sku service.SKU) (bool, error) {
	return r.note(ctx, "note the seed", firstOfOrigin, originKey, o.ID, string(sku))
}

// Recall is one round trip.
func (r *Redis) Recall(ctx context.Context, store string) (service.Origin, error) {
	const doing = "recall an origin"
	text, err := r.client.HGet(ctx, rememberedKey, store).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return service.Origin{}, nil
	case err != nil:
		return service.Origin{}, redisFault(ctx, doing, "", err)
	}
	generation, id, _ := strings.Cut(text, " ")
	f := fields{key: rememberedKey, values: []any{generation}}
	return service.Origin{ID: id, Generation: f.natural(0)}, f.err
}

// Remember is one round trip.
func (r *Redis) Remember(ctx context.Context, store string, o service.Origin) error {
	_, err := r.note(ctx, "remember an origin", rememberOrigin, rememberedKey, store, decimal(o.Generation), o.ID)
	return err
}

// note runs a script that answers 1 if it has changed something. The script may be repeated, so a lost reply means only
// that the server is down.
func (r *Redis) note(ctx context.Context, doing string, s *redis.Script, key string, args ...any) (bool, error) {
	n, err := s.Run(ctx, r.client, []string{key}, args...).Int()
	if err != nil {
		return false, fmt.Errorf("%s: %w", key, redisFault(ctx, doing, "", err))
	}
	return n == 1, nil
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
