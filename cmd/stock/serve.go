package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"example.com/stock/handler"
	"example.com/stock/service"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one instance of the service",
		Long: `Run one instance of the service.

It starts whether or not its servers are up: strategies whose server is missing answer 503 with the reason, and work
as soon as it is there. On SIGTERM /readyz fails first, then nobody else is let in, requests in flight are finished and held
locks released.
A second signal ends the process at once.

There are two listeners. --addr is for customers; /metrics, /v1/locks and the lab's /v1/lab are on --admin-addr alone,
which is for operators and Prometheus and by default reached from this computer only. Several instances on one computer
need an address each.`,
		Example: "  stock serve\n" +
			"  stock serve --addr :8089 --admin-addr 127.0.0.1:9091 --instance app-2 --redis-addrs redis:6379\n" +
			"  STOCK_MYSQL_DSN='stock:secret@tcp(db:3306)/stock' stock serve --config stock.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", cfg.Addr)
			if err != nil {
				return fmt.Errorf("listen (choose another address with --addr or STOCK_ADDR): %w", err)
			}
			var admin net.Listener
			if cfg.Admin.Addr != "" {
				if admin, err = (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", cfg.Admin.Addr); err != nil {
					listener.Close()
					return fmt.Errorf("listen for operators "+
						`(choose another address with --admin-addr or STOCK_ADMIN_ADDR, or "" for none): %w`, err)
				}
			}
			log := newLogger(cmd.ErrOrStderr(), cfg)
			redis.SetLogger(redisLog{log}) // the client has one for the whole process
			return serve(cmd.Context(), cfg, listener, admin, log)
		},
	}
	addConfigFlags(cmd.Flags())
	return cmd
}

// A redisLog takes what the Redis client would print on its own, such as every refused connection while the server is down:
// of interest to whoever asks for it. That a backend is down is logged once, by its health.
type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}

func newLogger(w io.Writer, cfg Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // checked with the configuration
	options := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, options)
	if cfg.Log.Format == "text" {
		h = slog.NewTextHandler(w, options)
	}
	return slog.New(h).With("instance", cfg.Instance)
}

// serve runs an instance on listener, and for operators on admin (nil: none), until ctx ends, and then stops it in
// order. It closes both.
func serve(ctx context.Context, cfg Config, listener, admin net.Listener, log *slog.Logger) error {
	for _, doubt := range cfg.doubts() {
		log.Warn("configuration", "doubt", doubt)
	}
	a, err := openApp(cfg, log)
	if err != nil {
		listener.Close()
		if admin != nil {
			admin.Close()
		}
		return err
	}
	background, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	a.start(background)

	var draining atomic.Bool
	face := handler.Config{
		Seller: a.service, Inventory: a.service, Locks: a.service, Pauses: &a.pauses,
		Strategies: a.offers, Backends: a.listBackends(),
		Instance: cfg.Instance, DefaultSKU: service.SKU(cmp.Or(cfg.Seed.SKU, defaultSKU)), Store: cfg.Store,
		AdminToken: cfg.AdminToken, Lab: cfg.Lab, Version: buildVersion(cfg.Instance),
		Meter: a.metrics, Metrics: a.metrics.Handler(), Log: log, Draining: draining.Load,
	}
	newServer := func(h http.Handler) *http.Server {
		return &http.Server{
			Handler:     h,
			BaseContext: func(net.Listener) context.Context { return background },
			// No ReadTimeout: its deadline stays on the connection while the handler waits for a lock, and looks like a
			// client that went away. The header has a limit here, the body and the reply have theirs in the handler.
			ReadHeaderTimeout: 5 * time.Second,
			WriteTimeout:      2*service.MaxWait + 10*time.Second, // longest wait, longest hold in the lab
			IdleTimeout:       2 * time.Minute,                    // nginx closes its idle connections first
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		}
	}
	server, operators := newServer(handler.New(face)), newServer(handler.NewAdmin(face))
	entrance := newDoor(listener)
	server.ConnState = entrance.watch
	served, attended := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(entrance) }()
	log.Info("serving", "addr", listener.Addr().String(), "version", version)
	if admin != nil {
		go func() {
			err := operators.Serve(admin)
			if !errors.Is(err, http.ErrServerClosed) {
				log.Error("operators cannot ask any more", "err", err) // no reason to stop selling
			}
			attended <- err
		}()
		log.Info("serving operators", "addr", admin.Addr().String())
	} else {
		attended <- http.ErrServerClosed
	}

	select {
	case err := <-served:
		err = errors.Join(fmt.Errorf("serve: %w", err), operators.Close())
		<-attended
		return errors.Join(err, a.close())
	case <-ctx.Done():
	}
	log.Info("stopping: not ready any more", "drain", cfg.Drain, "stop", cfg.Stop)
	draining.Store(true)
	time.Sleep(cfg.Drain) // load balancers notice, and connections are closed one by one after their next reply
	entrance.shut(server)
	end := time.Now().Add(cfg.Stop)
	entrance.emptied(cfg.Drain, cfg.Stop)
	err = shutdown(server, time.Until(end), cancel, log)
	<-served
	// The operators' is the last to go: until then the metrics tell how the draining goes.
	err = errors.Join(err, dismiss(operators, cfg.Work+time.Second))
	<-attended
	err = errors.Join(err, a.close())
	log.Info("stopped")
	return err
}

// shutdown finishes the requests that are still in flight. What is left after limit is told to leave: waits end, critical sections, which are
// bounded, are still finished.
func shutdown(server *http.Server, limit time.Duration, cancel context.CancelCauseFunc, log *slog.Logger) error {
	for _, step := range []time.Duration{limit, service.MaxWait} {
		ctx, done := context.WithTimeout(context.Background(), step)
		err := server.Shutdown(ctx)
		done()
		if err == nil {
			return nil
		}
		log.Warn("requests in flight are told to leave")
		cancel(errors.New("the instance is stopping"))
	}
	return server.Close()
}

// dismiss finishes what operators have asked for, which takes no longer than limit. It does not wait for connections
// without a request.
func dismiss(operators *http.Server, limit time.Duration) error {
	ctx, done := context.WithTimeout(context.Background(), limit)
	defer done()
	if operators.Shutdown(ctx) == nil {
		return nil
	}
	return operators.Close()
}

func (a *app) listBackends() []handler.Backend {
	var list []handler.Backend
	for name := range a.backends {
		list = append(list, a.usable(name))
	}
	return list
}
