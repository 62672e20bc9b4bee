package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// operatorsRoutes are for operators and their tools, and not for the public.
func (a *App) operatorsRoutes() http.Handler {
	m := http.NewServeMux()
	// It asks no server: a restart does not repair a database.
	m.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	m.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		about := map[string]string{"version": a.version, "instance": a.c.Instance, "go": runtime.Version()}
		if err := json.NewEncoder(w).Encode(about); err != nil {
			slog.Debug("write the version", "error", err)
		}
	})
	m.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	return m
}

// ready says why customers should not be sent here. An issuer that is away is no reason, once its keys were read.
func (a *App) ready(ctx context.Context) error {
	if a.stopping.Load() {
		return errors.New("stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond) // probes wait for two seconds
	defer cancel()
	return errors.Join(a.watch.Ready(ctx), a.tokens.Ready())
}
