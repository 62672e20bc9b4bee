package stock_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// A wholeStore is all that both stores can do.
type wholeStore interface {
	shop
	Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error)
	Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error
	CanWrite(ctx context.Context) error
}

// operations are those of both stores.
func operations(r wholeStore) map[string]repotest.Operation {
	sold := func(do func(context.Context, service.Order) error) repotest.Operation {
		return func(t *testing.T, sku service.SKU) func(context.Context) error {
			o := order(mustSet(t, r, sku, 10))
			return func(ctx context.Context) error { return do(ctx, o) }
		}
	}
	read := func(do func(context.Context, service.SKU) error) repotest.Operation {
		return func(t *testing.T, sku service.SKU) func(context.Context) error {
			mustSet(t, r, sku, 10)
			return func(ctx context.Context) error { return do(ctx, sku) }
		}
	}
	return map[string]repotest.Operation{
		"Write": sold(r.Write),
		"Swap":  sold(r.Swap),
		"Deduct": sold(func(ctx context.Context, o service.Order) error {
			_, err := r.Deduct(ctx, o)
			return err
		}),
		"Batch": sold(func(ctx context.Context, o service.Order) error {
			_, err := r.Batch(ctx, []service.Order{o})
			return err
		}),
		"Set": read(func(ctx context.Context, sku service.SKU) error {
			_, err := r.Set(ctx, sku, 5)
			return err
		}),
		"Read": read(func(ctx context.Context, sku service.SKU) error {
			_, err := r.Read(ctx, sku)
			return err
		}),
		"Orders": read(func(ctx context.Context, sku service.SKU) error {
			_, _, err := r.Orders(ctx, sku, "", 5)
			return err
		}),
		"Settle": read(func(ctx context.Context, sku service.SKU) error {
			_, _, err := r.Settle(ctx, sku, uuid.Must(uuid.NewV7()).String())
			return err
		}),
		"Segments": read(func(ctx context.Context, sku service.SKU) error {
			_, err := r.Segments(ctx, sku)
			return err
		}),
		"Refill": sold(func(ctx context.Context, o service.Order) error {
			return r.Refill(ctx, service.Refill{
				SKU: o.SKU, Epoch: o.Epoch, Strategy: "none", Into: service.Segment{Number: 1}, Reserve: 1,
			})
		}),
		"Raise": read(func(ctx context.Context, sku service.SKU) error { return r.Raise(ctx, sku, 0, "none", 7) }),
		"Replay": read(func(ctx context.Context, sku service.SKU) error {
			_, _, err := r.Replay(ctx, sku, service.Key{ID: uuid.Must(uuid.NewV7()).String(), Fingerprint: "f"})
			return err
		}),
		"CanWrite": read(func(ctx context.Context, _ service.SKU) error { return r.CanWrite(ctx) }),
	}
}

// Whichever command of an operation does not reach the server, the operation fails, and says so.
func TestNoFaultIsSwallowed(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r, fault := repotest.LameRedis(t)
		fault.NoneSwallowed(t, operations(stock.NewRedis(r)))
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		m, fault := repotest.LameMySQL(t)
		s := stock.NewMySQL(m)
		all := operations(s)
		all["Transact"] = func(t *testing.T, sku service.SKU) func(context.Context) error {
			o := order(mustSet(t, s, sku, 10))
			return func(ctx context.Context) error {
				return s.Transact(ctx, sku, false, func(ctx context.Context, tx service.Store) error {
					if _, err := tx.Read(ctx, sku); err != nil {
						return err
					}
					return tx.Write(ctx, o)
				})
			}
		}
		fault.NoneSwallowed(t, all)
	})
}
