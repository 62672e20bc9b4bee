package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
)

// Commit returns the revision from which this program was built.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// NewLogger returns the log of an instance, on w.
func NewLogger(w io.Writer, cfg Config) *slog.Logger {
	cfg.complete()
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // checked with the configuration
	options := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, options)
	if cfg.Log.Format == "text" {
		h = slog.NewTextHandler(w, options)
	}
	return slog.New(h).With("instance", cfg.Instance)
}

// LogRedis logs the Redis client's messages at level debug. The client reports every refused connection; the health
// check logs only once that a backend is down.
//
// The client has one logger for the whole process: call LogRedis once, before the first instance.
func LogRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}
