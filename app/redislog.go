package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogRedis logs at level debug what the Redis client would print itself, such as every refused connection while the
// server is down. The health check logs once that a backend is down.
//
// The client has one logger for the whole process: call LogRedis once, before the first instance.
func LogRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}
