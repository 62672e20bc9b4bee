package stock

import (
	"context"
	_ "embed" // the scripts

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/service"
)

// fenceLua is put in front of every script that compares fences.
//
//go:embed fence.lua
var fenceLua string

//go:embed raise.lua
var raiseLua string

var raiseScript = redisscript.New(fenceLua + raiseLua)

// Raise takes one round trip. It is idempotent, so it may be called again after an ErrOutcomeUnknown.
func (r *Redis) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	_, err := r.run(ctx, "raise fence", raiseScript, []string{stockKey(sku)},
		strategy, decimal(fence), segmentField(segment, ""))
	return err
}
