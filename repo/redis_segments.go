package repo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"example.com/stock/service"
)

// segmentField returns the name of a segment's field in the hash of its SKU. Segments are in the same hash as the
// whole, so that one command reads all of them as they are at one moment. Segment 0, the whole stock, has no prefix and
// no fields of its own: its name is "".
func segmentField(segment int, field string) string {
	if segment == 0 {
		return ""
	}
	return strconv.Itoa(segment) + "." + field
}

// Segments is one round trip.
func (r *Redis) Segments(ctx context.Context, sku service.SKU) (service.Segments, error) {
	const doing = "read segments"
	leave, err := r.enter(ctx, doing, stockKey(sku))
	if err != nil {
		return service.Segments{}, err
	}
	defer leave()
	hash, err := r.client.HGetAll(ctx, stockKey(sku)).Result()
	switch {
	case err != nil:
		return service.Segments{}, redisFault(ctx, doing, stockKey(sku), err)
	case hash["epoch"] == "":
		return service.Segments{}, unknownSKU(sku)
	}
	f := fields{key: stockKey(sku)}
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
		row := f.segment(n, hash)
		all.Rows = append(all.Rows, row)
		all.Reserve -= row.Quantity
	}
	slices.SortFunc(all.Rows, func(a, b service.Segment) int { return cmp.Compare(a.Number, b.Number) })
	return all, f.err
}

// segment returns segment n of the hash.
func (f *fields) segment(n int, hash map[string]string) service.Segment {
	own := fields{key: f.key, values: []any{
		hash[segmentField(n, "quantity")], hash[segmentField(n, "version")], hash[segmentField(n, "fence")],
	}}
	row := service.Segment{Number: n, Quantity: own.integer(0), Version: own.natural(1), Fence: own.natural(2)}
	f.fail(own.err)
	return row
}

// Refill is one round trip.
func (r *Redis) Refill(ctx context.Context, f service.Refill) error {
	if err := checkRefill(f); err != nil {
		return err
	}
	args := []any{decimal(f.Epoch), f.Strategy, f.Reserve, segmentField(f.Into.Number, ""), decimal(f.Into.Version)}
	for _, row := range f.From {
		args = append(args, segmentField(row.Number, ""), decimal(row.Version))
	}
	const doing = "refill segment"
	_, err := r.run(ctx, doing, refillScript, stockKeys(f.SKU), args...)
	if errors.Is(err, service.ErrOutcomeUnknown) {
		return idempotentFailure(ctx, doing, err)
	}
	return err
}
