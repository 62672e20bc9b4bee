package driver

import (
	"context"
	"time"
)

// Sleep pauses for d, or until ctx ends. If ctx has ended, even at the same moment as d, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return context.Cause(ctx)
}
