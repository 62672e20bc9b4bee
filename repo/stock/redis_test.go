package stock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

func TestRedisKeys(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := dialRedis(t, servertest.Redis(t).Addr)
	s := onRedis(c)
	const sku = service.SKU("keys")
	o := order(mustSet(t, s, sku, 100))
	o.Fence = 1_800_000_000_000_000
	if err := s.Write(ctx, o); err != nil {
		t.Fatal(err)
	}
	if got := c.HGet(ctx, "stock:{keys}", "fence").Val(); got != "1800000000000000" {
		t.Errorf("fence is stored as %q", got)
	}
	mustSet(t, s, sku, 100)
	if _, err := s.Deduct(ctx, order(service.Stock{SKU: sku})); err != nil {
		t.Fatal(err)
	}
	former := "stock:{keys}:orders:" + fmt.Sprint(o.Epoch)
	if got := c.TTL(ctx, former).Val(); got < stock.KeepOrders-time.Minute || got > stock.KeepOrders {
		t.Errorf("the orders of the epoch that is over are kept for %v, want %v", got, stock.KeepOrders)
	}
	for _, key := range []string{"stock:{keys}", "stock:{keys}:orders", "stock:{keys}:settled"} {
		if got := c.TTL(ctx, key).Val(); got != -1 {
			t.Errorf("%s expires in %v, want never", key, got)
		}
	}
}

// What Redis refuses is not written, not even half, and the error says what to do.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, row := range []struct {
		name, says string
		err        error
		breaks     func(t *testing.T, c redis.UniversalClient) error
	}{
		{"flushed", "", nil, func(_ *testing.T, c redis.UniversalClient) error { return c.ScriptFlush(ctx).Err() }},
		{"memory", "out-of-memory", lock.ErrDown, func(_ *testing.T, c redis.UniversalClient) error {
			return c.ConfigSet(ctx, "maxmemory", "1").Err()
		}},
		{"hash", "stock:{sku} must be a hash", nil, func(_ *testing.T, c redis.UniversalClient) error {
			return errors.Join(c.Del(ctx, "stock:{sku}").Err(), c.Set(ctx, "stock:{sku}", "x", 0).Err())
		}},
		{"list", "stock:{sku}:orders a list", nil, func(_ *testing.T, c redis.UniversalClient) error {
			return c.Set(ctx, "stock:{sku}:orders", "x", 0).Err()
		}},
		{"no-list", "stock:{sku}:orders is not the orders", nil, func(_ *testing.T, c redis.UniversalClient) error {
			return c.Del(ctx, "stock:{sku}:orders").Err()
		}},
		{"settled", "stock:{sku}:settled a sorted set", nil, func(_ *testing.T, c redis.UniversalClient) error {
			return errors.Join(c.Del(ctx, "stock:{sku}:settled").Err(), c.Set(ctx, "stock:{sku}:settled", "x", 0).Err())
		}},
		{"number", "key stock:{sku} is not stock", nil, func(_ *testing.T, c redis.UniversalClient) error {
			return c.HSet(ctx, "stock:{sku}", "quantity", "many").Err()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := dialRedis(t, servertest.Redis(t).Addr)
			s := onRedis(c)
			stock := mustSet(t, s, "sku", 100)
			if err := row.breaks(t, c); err != nil {
				t.Fatal(err)
			}
			before := c.Dump(ctx, "stock:{sku}").Val()
			write := s.Write
			if row.name == "number" { // a write does not look at the quantity: that is what it is
				write = func(ctx context.Context, o service.Order) error { _, err := s.Read(ctx, o.SKU); return err }
			}
			err := write(short(t), order(stock))
			switch {
			case row.says == "":
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			case err == nil || !strings.Contains(err.Error(), row.says):
				t.Errorf("error %v, want one that says %q", err, row.says)
			case errors.Is(err, lock.ErrDown) != (row.err == lock.ErrDown) || errors.Is(err, service.ErrOutcomeUnknown):
				t.Errorf("error %v matches what it must not, or does not match %v", err, row.err)
			}
			if after := c.Dump(ctx, "stock:{sku}").Val(); after != before {
				t.Errorf("the refusal changed the stock")
			}
		})
	}
}
