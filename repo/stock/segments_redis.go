package stock

import (
	"cmp"
	"context"
	_ "embed" // the script
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

//go:embed refill.lua
var refillLua string

var refillScript = redisscript.New(refillLua)

// segmentField returns the name of a segment's field in the hash of its SKU. Segments are in the same hash as the
// whole stock, so that one command reads all of them at the same moment. For segment 0, which stands for the whole
// stock, it returns "".
func segmentField(segment int, field string) string {
	if segment == 0 {
		return ""
	}
	return strconv.Itoa(segment) + "." + field
}

// Segments takes one round trip.
func (r *Redis) Segments(ctx context.Context, sku service.SKU) (service.Segments, error) {
	key := stockKey(sku)
	hash, err := repo.Ask(ctx, r.Redis, "read segments", key, func(c redis.UniversalClient) (map[string]string, error) {
		return c.HGetAll(ctx, key).Result()
	})
	switch {
	case err != nil:
		return service.Segments{}, err
	case hash["epoch"] == "":
		return service.Segments{}, unknownSKU(sku)
	}
	f := fields{key: key}
	for _, name := range stockFields {
		f.values = append(f.values, hash[name])
	}
	all := service.Segments{Stock: f.stock(sku)}
	all.Reserve = all.Quantity
	for name := range hash {
		number, ok := strings.CutSuffix(name, ".quantity")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(number)
		f.fail(err)
		row := segmentOf(&f, n, hash)
		all.Rows = append(all.Rows, row)
		all.Reserve -= row.Quantity
	}
	slices.SortFunc(all.Rows, func(a, b service.Segment) int { return cmp.Compare(a.Number, b.Number) })
	return all, f.err
}

// segmentOf returns segment n of the hash.
func segmentOf(f *fields, n int, hash map[string]string) service.Segment {
	own := fields{key: f.key, values: []any{
		hash[segmentField(n, "quantity")], hash[segmentField(n, "version")], hash[segmentField(n, "fence")],
	}}
	row := service.Segment{Number: n, Quantity: own.integer(0), Version: own.natural(1), Fence: own.natural(2)}
	f.fail(own.err)
	return row
}

// Refill takes one round trip.
func (r *Redis) Refill(ctx context.Context, f service.Refill) error {
	args := []any{
		decimal(f.Epoch), f.Strategy, f.Reserve, segmentField(f.Into.Number, ""),
		decimal(f.Into.Version), f.Into.Quantity,
	}
	for _, row := range f.From {
		args = append(args, segmentField(row.Number, ""), decimal(row.Version), row.Quantity)
	}
	const doing = "refill segment"
	_, err := r.run(ctx, doing, refillScript, []string{stockKey(f.SKU)}, args...)
	return repo.Idempotent(ctx, doing, err)
}
