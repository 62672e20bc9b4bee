package app

import (
	"io"
	"log/slog"
	"runtime/debug"
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
