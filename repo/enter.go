package repo

import (
	"context"
	"fmt"
	"time"

	"example.com/stock/gate"
	"example.com/stock/service"
)

// enter waits for a turn at g: for half of the time that is left at most, so that what is let in can be served.
func enter(ctx context.Context, g *gate.Gate, doing, key string) (leave func(), err error) {
	turn := gate.Turn{Key: key, Begun: service.HasBegun(ctx)}
	if deadline, ok := ctx.Deadline(); ok {
		turn.Until = time.Now().Add(time.Until(deadline) / 2)
	}
	leave, err = g.Enter(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return leave, nil
}
