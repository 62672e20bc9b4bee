package repo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// A store whose server is gone says so within 3 s, and works again when the server does.
func TestOutage(t *testing.T) {
	for _, kind := range []stack.Kind{stack.Redis, stack.MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			server := stacktest.Server(t, kind)
			var s shop
			if kind == stack.Redis {
				s = repo.NewRedis(dialRedis(t, server.Addr))
			} else {
				s = repo.NewMySQL(migrated(t, server.URL))
			}
			const sku = service.SKU("outage")
			stock := mustSet(t, s, sku, 100)

			t.Run("paused", func(t *testing.T) {
				if err := server.Pause(); err != nil {
					t.Fatal(err)
				}
				// The first write goes out on an open connection, and is answered or not. The next needs a new
				// connection, gets none, and was never sent.
				silent := service.ErrOutcomeUnknown
				if kind == stack.MySQL {
					silent = lock.ErrDown // it hangs before COMMIT
				}
				write := func(ctx context.Context) error { return s.Write(ctx, order(stock)) }
				down(t, "Write", write, silent)
				down(t, "Write", write, lock.ErrDown)
				down(t, "Read", func(ctx context.Context) error { _, err := s.Read(ctx, sku); return err }, lock.ErrDown)
				if err := server.Resume(); err != nil {
					t.Fatal(err)
				}
				recovers(t, s, sku)
			})
			t.Run("stopped", func(t *testing.T) {
				if err := server.Stop(); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					down(t, "Read", func(ctx context.Context) error { _, err := s.Read(ctx, sku); return err }, lock.ErrDown)
					down(t, "Write", func(ctx context.Context) error { return s.Write(ctx, order(stock)) }, lock.ErrDown)
					down(t, "Deduct", func(ctx context.Context) error { _, err := s.Deduct(ctx, order(stock)); return err }, lock.ErrDown)
					down(t, "Orders", func(ctx context.Context) error { _, _, err := s.Orders(ctx, sku, "", 1); return err }, lock.ErrDown)
				}
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				recovers(t, s, sku)
			})
		})
	}
}

// down wants target, and nothing else, within 3 s, or on a busy computer 10.
func down(t *testing.T, what string, op func(context.Context) error, target error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	asked := time.Now()
	err := op(ctx)
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("%s took %v", what, took)
	}
	if !errors.Is(err, target) || errors.Is(err, lock.ErrDown) == errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

// recovers polls until the stock can be set, and wants all to work then.
func recovers(t *testing.T, s shop, sku service.SKU) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		stock, err := s.Set(ctx, sku, 100)
		if err == nil {
			if err := s.Write(ctx, order(stock)); err != nil {
				t.Errorf("after the outage: %v", err)
			}
			balanced(t, s, sku, 1)
			return
		}
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("does not recover: %w", err))
		}
	}
}
