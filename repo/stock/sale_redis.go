package stock

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// The keys of a SKU's stock, of its orders, and of the ids that were settled as absent.
func stockKey(sku service.SKU) string   { return "stock:{" + string(sku) + "}" }
func ordersKey(sku service.SKU) string  { return stockKey(sku) + ":orders" }
func settledKey(sku service.SKU) string { return stockKey(sku) + ":settled" }

// formerKey returns the key of the orders of an ended epoch.
func formerKey(sku service.SKU, epoch uint64) string {
	return ordersKey(sku) + ":" + decimal(epoch)
}

func saleKeys(sku service.SKU) []string {
	return []string{stockKey(sku), ordersKey(sku), settledKey(sku)}
}

func keyedSaleKeys(o service.Order) []string {
	keys := saleKeys(o.SKU)
	if o.Key.ID != "" {
		keys = append(keys, orderKeyed(o.SKU, o.Key))
	}
	return keys
}

// Read takes one round trip.
func (r *Redis) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	key := stockKey(sku)
	values, err := repo.Ask(ctx, r.Redis, "read stock", key, func(c redis.UniversalClient) ([]any, error) {
		return c.HMGet(ctx, key, stockFields...).Result()
	})
	switch {
	case err != nil:
		return service.Stock{}, err
	case values[4] == nil:
		return service.Stock{}, unknownSKU(sku)
	}
	f := fields{key: key, values: values}
	stock := f.stock(sku)
	return stock, f.err
}

// stockFields are the fields of the hash that belong to the whole stock, not to a segment.
var stockFields = []string{"quantity", "initial", "sold", "version", "epoch", "fence", "guard"}

// Swap takes one round trip.
func (r *Redis) Swap(ctx context.Context, o service.Order) error { return r.write(ctx, o, sameVersion) }

func (r *Redis) write(ctx context.Context, o service.Order, version check) error {
	_, err := r.run(ctx, "write order", writeScript, keyedSaleKeys(o), writeArgs(o, version)...)
	return err
}

// writeArgs returns the arguments of write.lua.
func writeArgs(o service.Order, wanted check) []any {
	version := "" // any
	if wanted == sameVersion {
		version = decimal(o.Version)
	}
	return []any{
		decimal(o.Epoch), o.Strategy, decimal(o.Fence), o.Quantity, o.ID, writtenBy(o).UnixMilli(),
		o.Remaining, encodeOrder(o), segmentField(o.Segment, ""), version, o.Key.Fingerprint,
		service.KeepKeys.Milliseconds(), o.Read,
	}
}

// Deduct takes one round trip. An o.Epoch of 0 stands for the current epoch.
func (r *Redis) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	const doing = "deduct"
	reply, err := r.run(ctx, doing, deductScript, keyedSaleKeys(o),
		decimalOrAny(o.Epoch), o.Strategy, decimal(o.Fence), o.Quantity, o.ID, writtenBy(o).UnixMilli(),
		encodeOrderTail(o), "", "", "", o.Key.Fingerprint, service.KeepKeys.Milliseconds())
	if err != nil {
		return o, err
	}
	f := fields{key: stockKey(o.SKU), values: reply}
	o.Read, o.Remaining, o.Version, o.Epoch = f.integer(1), f.integer(2), f.natural(3), f.natural(4)
	return o, f.err
}

//go:embed refuse.lua
var refuseLua string

//go:embed write.lua
var writeLua string

//go:embed deduct.lua
var deductLua string

var (
	writeScript  = redisscript.New(fenceLua + refuseLua + writeLua)
	deductScript = redisscript.New(fenceLua + refuseLua + deductLua)
)

// An order in Redis is JSON. The fields that the script of Deduct computes come first, so that the script can prepend
// them without parsing the rest.
type (
	redisOrder struct {
		redisResult
		redisRequest
	}
	redisResult struct {
		Read      int64  `json:"read"`
		Remaining int64  `json:"remaining"`
		Version   uint64 `json:"version"`
		Epoch     uint64 `json:"epoch"`
	}
	redisRequest struct {
		ID        string    `json:"order_id"`
		Quantity  int64     `json:"quantity"`
		Strategy  string    `json:"strategy"`
		Instance  string    `json:"instance"`
		RequestID string    `json:"request_id"`
		Fence     uint64    `json:"fence"`
		Segment   int       `json:"segment,omitempty"`
		CreatedAt time.Time `json:"created_at"`
	}
)

func requestOf(o service.Order) redisRequest {
	return redisRequest{o.ID, o.Quantity, o.Strategy, o.Instance, o.RequestID, o.Fence, o.Segment, o.CreatedAt.UTC()}
}

func encodeOrder(o service.Order) string {
	return encode(redisOrder{redisResult{o.Read, o.Remaining, o.Version, o.Epoch}, requestOf(o)})
}

// encode returns v as JSON. It cannot fail for the types of this project, except for times after the year 9999.
func encode(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// encodeOrderTail encodes o without the opening brace and without the fields that Deduct computes.
func encodeOrderTail(o service.Order) string { return encode(requestOf(o))[1:] }

func decodeOrder(sku service.SKU, text string) (service.Order, error) {
	var o redisOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return service.Order{}, fmt.Errorf("decode order: %w", err)
	}
	return service.Order{
		ID: o.ID, SKU: sku, Quantity: o.Quantity,
		Read: o.Read, Remaining: o.Remaining, Version: o.Version, Epoch: o.Epoch,
		Strategy: o.Strategy, Instance: o.Instance, RequestID: o.RequestID,
		Fence: o.Fence, Segment: o.Segment, CreatedAt: o.CreatedAt,
	}, nil
}
