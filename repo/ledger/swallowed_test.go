package ledger_test

import (
	"context"
	"testing"
	"time"

	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// A wholeLedger is all that both ledgers can do.
type wholeLedger interface {
	books
	orders.Outbox
	orders.DeadLetters
}

// operations are those of both ledgers. The desk is on the same connection.
func operations(d desk) map[string]repotest.Operation {
	books := d.books.(wholeLedger)
	read := func(do func(context.Context, service.SKU) error) repotest.Operation {
		return func(t *testing.T, sku service.SKU) func(context.Context) error {
			mustSet(t, d.shop(), sku, 10)
			return func(ctx context.Context) error { return do(ctx, sku) }
		}
	}
	kept := func(do func(context.Context, service.SKU) error) repotest.Operation {
		return func(t *testing.T, sku service.SKU) func(context.Context) error {
			stocked(t, d, sku, 10)
			held(t, d, "ann", time.Microsecond, line(sku, 1))
			ordered(t, d, "ann", line(sku, 1))
			return func(ctx context.Context) error { return do(ctx, sku) }
		}
	}
	known := func(do func(context.Context, string, string) error) repotest.Operation {
		return func(t *testing.T, sku service.SKU) func(context.Context) error {
			stocked(t, d, sku, 10)
			reservation, order := held(t, d, "ann", time.Hour, line(sku, 1)), ordered(t, d, "ann", line(sku, 1))
			return func(ctx context.Context) error { return do(ctx, reservation, order) }
		}
	}
	return map[string]repotest.Operation{
		"Now": read(func(ctx context.Context, _ service.SKU) error { _, err := books.Now(ctx); return err }),
		"Park": read(func(ctx context.Context, sku service.SKU) error {
			return books.Park(ctx, orders.DeadLetter{SKU: sku, Number: 1})
		}),
		"Parked": read(func(ctx context.Context, _ service.SKU) error {
			_, err := books.Parked(ctx, "", 5)
			return err
		}),
		"Decide": func(t *testing.T, sku service.SKU) func(context.Context) error {
			if err := books.Park(short(t), orders.DeadLetter{SKU: sku, Number: 1}); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error { return books.Decide(ctx, sku, 1, orders.Skip) }
		},
		"Step": kept(func(ctx context.Context, sku service.SKU) error {
			about := orders.About{SKUs: []service.SKU{sku}, Customer: "bob", Key: keyed("1")}
			_, _, err := books.Step(ctx, about, place(newID(), "bob", line(sku, 1)))
			return err
		}),
		"Batch of steps": kept(func(ctx context.Context, sku service.SKU) error {
			return books.Batch(ctx, []orders.Request{{
				About: orders.About{SKUs: []service.SKU{sku}}, Decide: adjust(sku, 1),
			}})[0].Err
		}),
		"Step of a reservation": known(func(ctx context.Context, reservation, _ string) error {
			_, _, err := books.Step(ctx, orders.About{Reservation: reservation}, end(orders.Released, ""))
			return err
		}),
		"Step of an order": known(func(ctx context.Context, _, order string) error {
			_, _, err := books.Step(ctx, orders.About{Order: order}, giveBack)
			return err
		}),
		"Order": known(func(ctx context.Context, _, order string) error {
			_, err := books.Order(ctx, order)
			return err
		}),
		"Reservation": known(func(ctx context.Context, reservation, _ string) error {
			_, err := books.Reservation(ctx, reservation)
			return err
		}),
		"Orders of a customer": kept(func(ctx context.Context, _ service.SKU) error {
			_, _, err := books.Orders(ctx, "ann", "", 5)
			return err
		}),
		"Level": kept(func(ctx context.Context, sku service.SKU) error {
			_, err := books.Level(ctx, sku)
			return err
		}),
		"Movements": kept(func(ctx context.Context, sku service.SKU) error {
			_, err := books.Movements(ctx, sku, 0, 5)
			return err
		}),
		"Movements that are none": read(func(ctx context.Context, sku service.SKU) error {
			_, err := books.Movements(ctx, sku, 99, 5)
			return err
		}),
		"SetPolicy": kept(func(ctx context.Context, sku service.SKU) error { return books.SetPolicy(ctx, sku, 3) }),
		"Due": kept(func(ctx context.Context, _ service.SKU) error {
			_, err := books.Due(ctx, 0, 5)
			return err
		}),
		"Behind": kept(func(ctx context.Context, _ service.SKU) error {
			_, err := books.Behind(ctx, "", 5)
			return err
		}),
		"Delivered": kept(func(ctx context.Context, sku service.SKU) error {
			return books.Delivered(ctx, orders.Delivered{SKU: sku, Number: 1}, 1)
		}),
	}
}

// Whichever command of an operation does not reach the server, the operation fails, and says so.
func TestNoFaultIsSwallowed(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r, fault := repotest.LameRedis(t)
		fault.NoneSwallowed(t, operations(deskOn(t, r)))
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		m, fault := repotest.LameMySQL(t)
		books := ledger.NewMySQL(m)
		d := desk{books, books, m}
		all := operations(d)
		all["Forget"] = func(*testing.T, service.SKU) func(context.Context) error {
			return func(ctx context.Context) error { _, err := books.Forget(ctx, time.Hour, 5); return err }
		}
		all["CanWrite"] = func(*testing.T, service.SKU) func(context.Context) error { return books.CanWrite }
		fault.NoneSwallowed(t, all)
	})
}
