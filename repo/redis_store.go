package repo

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"fmt"
	"time"

	"example.com/stock/internal/redisscript"
	"example.com/stock/service"
)

// orderKeyed is where the order is that was written with an idempotency key.
func orderKeyed(sku service.SKU, key service.Key) string { return stockKey(sku) + ":key:" + key.ID }

// formerKey returns the key of the orders of an epoch that is over.
func formerKey(sku service.SKU, epoch uint64) string { return ordersKey(sku) + ":" + decimal(epoch) }

func pageKeys(sku service.SKU) []string { return []string{stockKey(sku), ordersKey(sku)} }

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

// Read is one round trip.
func (r *Redis) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "read stock"
	leave, err := r.enter(ctx, doing, stockKey(sku))
	if err != nil {
		return service.Stock{}, err
	}
	defer leave()
	values, err := r.client.HMGet(ctx, stockKey(sku), stockFields...).Result()
	if err != nil {
		return service.Stock{}, redisFault(ctx, doing, stockKey(sku), err)
	}
	r.countAnswer(nil)
	if values[4] == nil {
		return service.Stock{}, unknownSKU(sku)
	}
	f := fields{key: stockKey(sku), values: values}
	stock := f.stock(sku)
	return stock, f.err
}

// stockFields are the fields of the hash that are not of a segment.
var stockFields = []string{"quantity", "initial", "sold", "version", "epoch", "fence", "guard"}

// Write is one round trip.
func (r *Redis) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return r.write(ctx, o, "")
}

// Swap is one round trip.
func (r *Redis) Swap(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return r.write(ctx, o, decimal(o.Version))
}

// write writes o if the stock still has that version; "" stands for any.
func (r *Redis) write(ctx context.Context, o service.Order, version string) error {
	_, err := r.run(ctx, "write order", writeScript, keyedSaleKeys(o), r.writeArgs(o, version)...)
	return err
}

// writeArgs returns the arguments of write.lua.
func (r *Redis) writeArgs(o service.Order, version string) []any {
	return []any{
		decimal(o.Epoch), o.Strategy, decimal(o.Fence), o.Quantity, o.ID, writtenBy(o).UnixMilli(),
		o.Remaining, encodeOrder(o), segmentField(o.Segment, ""), version, o.Key.Fingerprint, r.keepKeys.Milliseconds(),
	}
}

// Deduct is one round trip. An o.Epoch of 0 stands for the current epoch.
func (r *Redis) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	o.Remaining = 0
	if err := checkOrder(o); err != nil {
		return o, err
	}
	const doing = "deduct"
	reply, err := r.run(ctx, doing, deductScript, keyedSaleKeys(o),
		decimalOrAny(o.Epoch), o.Strategy, decimal(o.Fence), o.Quantity, o.ID, writtenBy(o).UnixMilli(),
		encodeOrderTail(o), "", "", "", o.Key.Fingerprint, r.keepKeys.Milliseconds())
	if err != nil {
		return o, err
	}
	f := fields{key: stockKey(o.SKU), values: reply}
	o.Read, o.Remaining, o.Version, o.Epoch = f.integer(1), f.integer(2), f.natural(3), f.natural(4)
	return o, f.err
}

// Raise is one round trip. After an ErrOutcomeUnknown it may be called again: raising is idempotent.
func (r *Redis) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	_, err := r.run(ctx, "raise fence", raiseScript, stockKeys(sku),
		strategy, decimal(fence), segmentField(segment, ""))
	return err
}

//go:embed refuse.lua
var refuseLua string

//go:embed write.lua
var writeLua string

//go:embed deduct.lua
var deductLua string

//go:embed refill.lua
var refillLua string

//go:embed set.lua
var setLua string

//go:embed orders.lua
var ordersLua string

//go:embed settle.lua
var settleLua string

//go:embed find.lua
var findLua string

//go:embed raise.lua
var raiseLua string

var (
	writeScript  = redisscript.New(refuseLua + writeLua)
	deductScript = redisscript.New(refuseLua + deductLua)
	refillScript = redisscript.New(refillLua)
	setScript    = redisscript.New(setLua)
	ordersScript = redisscript.New(ordersLua)
	settleScript = redisscript.New(settleLua)
	findScript   = redisscript.New(findLua)
	raiseScript  = redisscript.New(raiseLua)
)

// An order in Redis is JSON. What the script of Deduct finds out comes first, so that the script can put it there
// without parsing the rest.
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

// encodeOrderTail encodes o without the opening brace and without what Deduct finds out.
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

// The interfaces of package service that Redis implements. It is not a Transactor: MULTI cannot read and then decide.
var (
	_ service.Store     = (*Redis)(nil)
	_ service.Deductor  = (*Redis)(nil)
	_ service.Batcher   = (*Redis)(nil)
	_ service.Fencer    = (*Redis)(nil)
	_ service.Segmenter = (*Redis)(nil)
	_ service.Inventory = (*Redis)(nil)
	_ service.Settler   = (*Redis)(nil)
	_ service.Replayer  = (*Redis)(nil)
	_ service.Origins   = (*Redis)(nil)
	_ service.Memory    = (*Redis)(nil)
)
