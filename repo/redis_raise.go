package repo

import (
	"context"
	_ "embed" // the script

	"example.com/stock/service"
)

//go:embed raise.lua
var raiseLua string

var raiseScript = newScript(raiseLua)

// Raise is one round trip. An ErrOutcomeUnknown may be tried again: to raise twice is to raise once.
func (r *Redis) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	_, err := r.run(ctx, "raise fence", raiseScript, stockKeys(sku),
		strategy, decimal(fence), segmentField(segment, ""))
	return err
}

var _ service.Fencer = (*Redis)(nil)
