package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogRedis logs the Redis client's messages at level debug. The client reports every refused connection; the health
// check logs only once that a backend is down.
//
// The client has one logger for the whole process: call LogRedis once, before the first instance.
func LogRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}
