// Package app opens the database, wires the parts, serves, and stops.
package app

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/orders/config"
	"example.com/stock/orders/handler"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

const (
	finish     = 20 * time.Second // for requests that are under way at the end: the longest a step can take
	sweepEvery = 250 * time.Millisecond
)

// An App is an instance of the service.
type App struct {
	c       *config.Config
	version string
	store   *repo.Store
	watch   *repo.Store // with connections of its own: the database is not down when customers use all of theirs
	tokens  *handler.Tokens
	metrics *metrics
	traces  *traces
	send    func(context.Context) // sends the events of the outbox until ctx ends; nil: there are none

	customers, operators net.Listener
	stopping             atomic.Bool
}

// Open opens what the instance needs, its ports included. It connects to nothing: if MySQL is away, the instance
// serves, is not ready, and answers 503 until MySQL is back.
func Open(ctx context.Context, c *config.Config, version string) (_ *App, err error) {
	a := &App{c: c, version: version, metrics: newMetrics(version)}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.tokens, err = handler.NewTokens(handler.TokenOptions{
		Issuer: c.Auth.Issuer, Audience: c.Auth.Audience, KeysURL: c.Auth.KeysURL, Secret: c.Auth.Secret,
	}); err != nil {
		return nil, err
	}
	if a.traces, err = newTraces(ctx, c, version); err != nil {
		return nil, err
	}
	if a.store, err = repo.Open(c.MySQL.DSN, repo.Options{
		Connections: c.MySQL.Connections, Events: c.Outbox.Sink != "none", Pool: a.pool, Moved: a.metrics.moved,
	}); err != nil {
		return nil, err
	}
	if a.watch, err = repo.Open(c.MySQL.DSN, repo.Options{Connections: 4}); err != nil {
		return nil, err
	}
	if a.send, err = newSender(c, a.watch); err != nil {
		return nil, err
	}
	a.metrics.watch(a)
	if a.customers, err = listen(ctx, "http.address", c.HTTP.Address); err != nil {
		return nil, err
	}
	a.operators, err = listen(ctx, "http.operators", c.HTTP.Operators)
	return a, err
}

func listen(ctx context.Context, setting, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return l, nil
}

// pool opens the customers' connections, with traces and statistics.
func (a *App) pool(c driver.Connector) *sql.DB {
	pool := a.traces.open(c)
	a.metrics.pool(pool)
	return pool
}

// Customers and Operators return where they are served.
func (a *App) Customers() net.Addr { return a.customers.Addr() }
func (a *App) Operators() net.Addr { return a.operators.Addr() }

// Run serves until ctx ends. Then it is not ready, but still serves for the time to drain; finishes the requests under
// way; ends its tasks; and stops to serve operators last.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	routes, err := handler.New(handler.Options{
		Store: a.store, Who: a.tokens, Instance: a.c.Instance, Most: a.c.HTTP.Most,
		Limits:  service.Limits{Open: int64(a.c.Reservations.Open), Units: int64(a.c.Reservations.Units)},
		Metrics: a.metrics.registry, Traces: a.traces.tracer(),
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	failed := make(chan error, 2)
	var tasks, serving sync.WaitGroup
	customers, operators := handler.Server("", a.leaving(routes)), handler.Server("", a.operatorsRoutes())
	serve := func(s *http.Server, l net.Listener) {
		serving.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	serve(operators, a.operators)
	serve(customers, a.customers)
	tasks.Go(func() { a.tokens.Run(running) })
	tasks.Go(func() {
		a.migrate(running)
		for _, task := range []func(context.Context){a.sweep, a.forget, a.send} {
			if task != nil {
				tasks.Go(func() { task(running) })
			}
		}
	})
	if a.c.Auth.Secret != "" {
		slog.WarnContext(ctx, "tokens are signed with auth.secret, which is for development")
	}
	slog.InfoContext(ctx, "serving", "version", a.version, "customers", a.Customers().String(),
		"operators", a.Operators().String())
	select {
	case err = <-failed:
	case <-ctx.Done():
		slog.InfoContext(ctx, "stopping", "drain", a.c.HTTP.Drain.String())
		a.stopping.Store(true)
		select {
		case err = <-failed:
		case <-time.After(a.c.HTTP.Drain):
		}
	}
	limit, cancel := context.WithTimeout(running, finish)
	defer cancel()
	err = errors.Join(err, end(limit, customers))
	stop()
	tasks.Wait()
	err = errors.Join(err, end(context.Background(), operators))
	serving.Wait()
	return err
}

// leaving ends each connection with the next reply while the instance drains. Otherwise a load balancer could send a
// request on one at the moment when it is closed, and could not say whether the request was executed.
func (a *App) leaving(routes http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		routes.ServeHTTP(w, r)
	})
}

// end lets the requests of a server end, as long as ctx lasts. Those that have not ended then are cut off.
func end(ctx context.Context, s *http.Server) error {
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests that did not end: %w", errors.Join(err, s.Close()))
	}
	return nil
}

func (a *App) close() {
	var bad []error
	for _, l := range []net.Listener{a.customers, a.operators} {
		if l != nil {
			_ = l.Close() // a server has closed it already
		}
	}
	for _, s := range []*repo.Store{a.store, a.watch} {
		if s != nil {
			bad = append(bad, s.Close())
		}
	}
	if err := errors.Join(append(bad, a.traces.close())...); err != nil {
		slog.Error("stop", "error", err)
	}
}

// migrate brings the schema up to date, if that is wanted, as soon as the database answers.
func (a *App) migrate(ctx context.Context) {
	if !a.c.MySQL.Migrate {
		return
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	every(ctx, "migrate the schema", time.Second, func(ctx context.Context) error {
		applied, err := a.watch.Migrate(ctx)
		if err == nil {
			slog.InfoContext(ctx, "the schema is up to date", "applied", applied)
			done()
		}
		return err
	})
}

// sweep ends the reservations that have expired, also while the instance drains.
func (a *App) sweep(ctx context.Context) {
	every(ctx, "end expired reservations", sweepEvery, func(ctx context.Context) error {
		_, err := a.store.Sweep(ctx, 100)
		if err == nil {
			a.metrics.swept.SetToCurrentTime()
		}
		return err
	})
}

// forget removes old idempotency keys.
func (a *App) forget(ctx context.Context) {
	const page = 1000
	every(ctx, "forget idempotency keys", time.Minute, func(ctx context.Context) error {
		for n := page; n == page && ctx.Err() == nil; {
			var err error
			if n, err = a.store.Forget(ctx, a.c.Keys.Keep, page); err != nil {
				return err
			}
		}
		return nil
	})
}

// every does a task until ctx ends. It logs that the task fails once, and once that it no longer does: while the
// database is away, the log is for other news.
func every(ctx context.Context, name string, pause time.Duration, task func(context.Context) error) {
	failing := false
	for ctx.Err() == nil {
		err := task(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			slog.ErrorContext(ctx, name, "error", err)
		case err == nil && failing:
			slog.InfoContext(ctx, name+": it works again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
