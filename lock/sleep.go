package lock

import (
	"context"
	"time"
)

// Sleep pauses for d, or until ctx ends. The error is the cause of ctx, also if ctx ended at the same moment as d.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return context.Cause(ctx)
}
