package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// Run serves until ctx ends, and then stops the instance in order: /readyz fails, the listener closes, the requests in
// flight finish, everything is closed. Then it returns. It can be called once.
func (a *App) Run(ctx context.Context) error {
	for _, doubt := range a.cfg.doubts() {
		a.log.Warn("configuration", "doubt", doubt)
	}
	background, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	a.startProbes(background)
	stopRelay := a.startRelay(ctx) // it ends with the first signal: another instance goes on at once

	if a.orders != nil {
		a.probes.Go(func() { a.orders.Sweep(a.probing) })
	}

	var draining atomic.Bool
	config := a.http(draining.Load)
	server, operators := a.newServer(background, handler.New(config)), a.newServer(background, handler.NewAdmin(config))
	server.ConnState = a.connections.track
	served, attended := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(a.listener) }()
	a.log.Info("serving", "addr", a.Addr().String(), "version", a.version)
	if a.operators != nil {
		go func() {
			err := operators.Serve(a.operators)
			if !errors.Is(err, http.ErrServerClosed) {
				a.log.Error("operators cannot ask any more", "err", err) // no reason to stop selling
			}
			attended <- err
		}()
		a.log.Info("serving operators", "addr", a.operators.Addr().String())
	} else {
		attended <- http.ErrServerClosed
	}

	select {
	case err := <-served:
		err = errors.Join(fmt.Errorf("serve: %w", err), operators.Close())
		<-attended
		stopRelay()
		return errors.Join(err, a.close())
	case <-ctx.Done():
	}
	a.log.Info("stopping: not ready any more", "drain", a.cfg.Drain, "stop", a.cfg.Stop)
	draining.Store(true)
	time.Sleep(a.cfg.Drain) // load balancers notice, and each connection is closed after its next reply
	a.connections.serveBacklog(server)
	end := time.Now().Add(a.cfg.Stop)
	a.connections.drain(a.cfg.Drain, a.cfg.Stop)
	err := shutdown(server, time.Until(end), cancel, a.log)
	<-served
	// The server for operators stops last: until then the metrics show the draining.
	err = errors.Join(err, shutdownOperators(operators, a.cfg.Work+time.Second))
	<-attended
	stopRelay()
	err = errors.Join(err, a.close())
	a.log.Info("stopped")
	return err
}

func (a *App) newServer(background context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:     h,
		BaseContext: func(net.Listener) context.Context { return background },
		// No ReadTimeout: its deadline stays on the connection while the handler waits for a lock, and looks like a
		// client that went away. The header has a limit here, the body and the reply have theirs in the handler.
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      2*service.MaxWait + 10*time.Second, // longest wait, longest hold in the lab
		IdleTimeout:       2 * time.Minute,                    // nginx closes its idle connections first
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
}

// shutdown finishes the requests that are still in flight. After limit it ends their waits. Critical sections, which
// are bounded, still finish.
func shutdown(server *http.Server, limit time.Duration, cancel context.CancelCauseFunc, log *slog.Logger) error {
	for _, step := range []time.Duration{limit, service.MaxWait} {
		ctx, done := context.WithTimeout(context.Background(), step)
		err := server.Shutdown(ctx)
		done()
		if err == nil {
			return nil
		}
		log.Warn("requests in flight are told to leave")
		cancel(service.ErrStopping)
	}
	return server.Close()
}

// shutdownOperators finishes the requests of operators, within limit. It does not wait for connections without a
// request.
func shutdownOperators(operators *http.Server, limit time.Duration) error {
	ctx, done := context.WithTimeout(context.Background(), limit)
	defer done()
	if operators.Shutdown(ctx) == nil {
		return nil
	}
	return operators.Close()
}
