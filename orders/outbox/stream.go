package outbox

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Stream appends events to a Redis Stream, which Redis trims to about most entries, read or not; and Redis can lose its
// last second. The client should have MaxRetries -1, because the Sender tries again.
//
// Every error means that Redis is away: it does not look into an event, so LOADING, OOM, READONLY, MISCONF, WRONGTYPE
// or too many clients would be the answer to any other event as well, and would park one of every SKU.
func Stream(client redis.Cmdable, name string, most int64) Sink {
	return func(ctx context.Context, event string, body []byte) error {
		add := redis.XAddArgs{Stream: name, MaxLen: most, Approx: true, Values: []any{"id", event, "event", body}}
		if err := client.XAdd(ctx, &add).Err(); err != nil {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
		return nil
	}
}
