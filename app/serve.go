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

// firstRequest is how long a connection that was accepted just before the listener closed has to send its request.
// http.Server.Shutdown gives it no time: it drops a request that it reads after the call (net/http, conn.serve).
const firstRequest = 100 * time.Millisecond

// Run serves until ctx ends. Then it stops the instance in order: /readyz fails, the listener closes, running
// requests finish, everything is closed. It can be called once.
func (a *App) Run(ctx context.Context) error {
	for _, doubt := range a.cfg.doubts() {
		a.log.Warn("configuration", "doubt", doubt)
	}
	background, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	a.startProbes(background)

	var draining atomic.Bool
	config := a.http(draining.Load)
	server := a.newServer(background, handler.New(config))
	operators := a.newServer(background, handler.NewAdmin(config))
	served, attended := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(a.listener) }()
	a.log.Info("serving", "addr", a.Addr().String(), "version", a.version)
	if a.operators != nil {
		go func() {
			err := operators.Serve(a.operators)
			if !errors.Is(err, http.ErrServerClosed) {
				a.log.Error("the admin listener has failed", "err", err) // sales continue
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
		return errors.Join(err, a.close())
	case <-ctx.Done():
	}
	a.log.Info("stopping: no longer ready", "drain", a.cfg.Drain, "stop", a.cfg.Stop)
	draining.Store(true)
	time.Sleep(a.cfg.Drain) // load balancers notice the drain, and connections close after their next reply
	_ = a.listener.Close()  // a connection that the kernel accepts at this moment is reset
	<-served
	time.Sleep(firstRequest)
	err := shutdown(server, a.cfg.Stop, cancel, a.log)
	// The server for operators stops last, so that the metrics show the draining.
	err = errors.Join(err, shutdownOperators(operators, a.cfg.Work+time.Second))
	<-attended
	err = errors.Join(err, a.close())
	a.log.Info("stopped")
	return err
}

func (a *App) newServer(background context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:     h,
		BaseContext: func(net.Listener) context.Context { return background },
		// There is no ReadTimeout: its deadline would pass while the handler waits for a lock, as if the client had
		// disconnected. The handler limits the time for the body and the reply.
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      2*service.MaxWait + 10*time.Second, // longest wait and longest hold in the lab
		IdleTimeout:       2 * time.Minute,                    // nginx closes its idle connections first
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
}

// shutdown waits for running requests. After limit it cancels their waits for locks. Critical sections, which have
// their own limit, still finish.
func shutdown(server *http.Server, limit time.Duration, cancel context.CancelCauseFunc, log *slog.Logger) error {
	for _, step := range []time.Duration{limit, service.MaxWait} {
		ctx, done := context.WithTimeout(context.Background(), step)
		err := server.Shutdown(ctx)
		done()
		if err == nil {
			return nil
		}
		log.Warn("cancelling the waits of running requests")
		cancel(service.ErrStopping)
	}
	return server.Close()
}

// shutdownOperators waits for the requests of operators, at most for limit. It does not wait for idle connections.
func shutdownOperators(operators *http.Server, limit time.Duration) error {
	ctx, done := context.WithTimeout(context.Background(), limit)
	defer done()
	err := operators.Shutdown(ctx)
	if err != nil {
		return operators.Close()
	}
	return nil
}
