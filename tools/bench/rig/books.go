package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/service/order"
)

// ErrBooks is that of a run whose sales the store does not bear out. No figure of it counts.
var ErrBooks = errors.New("the books do not balance")

// restBound is how long the requests that wrk cut off may go on selling.
const restBound = 20 * time.Second

// Balance waits until the stock is at rest, and checks it: initial = quantity + sold, and as many units and orders as
// the store itself counts, one for each unit. sure is how many sales were answered with 200; the requests that wrk had
// under way at its end, cut of them at most, may have sold, too. The error matches ErrBooks if that is not so.
func (s *Side) Balance(ctx context.Context, store, sku string, sure, cut int64) (loadtest.Stock, error) {
	stock, orders, units, err := s.rest(ctx, store, sku)
	if err != nil {
		return stock, fmt.Errorf("%s: read the books of %s on %s: %w", s.Name, sku, store, err)
	}
	if err := balanced(stock, orders, units, sure, cut); err != nil {
		return stock, fmt.Errorf("%w: %s, SKU %s on %s: %w", ErrBooks, s.Name, sku, store, err)
	}
	return stock, nil
}

// balanced is the sum of the books.
func balanced(stock loadtest.Stock, orders, units, sure, cut int64) error {
	gone := stock.Initial - stock.Quantity
	if gone != stock.Sold || gone != units || orders != units || gone < sure || gone > sure+cut {
		return fmt.Errorf("%d units of %d are left, so %d are gone; %d are told to be sold; the store has %d orders "+
			"of %d units in all; %d sales were answered with 200, and %d requests at most were cut off", stock.Quantity,
			stock.Initial, gone, stock.Sold, orders, units, sure, cut)
	}
	return nil
}

// rest counts the orders, and returns the stock if it was the same for a while before and still is after that.
func (s *Side) rest(ctx context.Context, store, sku string) (stock loadtest.Stock, orders, units int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restBound, fmt.Errorf("sales go on after %v", restBound))
	defer cancel()
	for {
		if stock, err = s.Stock(ctx, store, sku); err != nil {
			return stock, 0, 0, err
		}
		if loadtest.Sleep(ctx, 60*time.Millisecond) != nil {
			return stock, 0, 0, context.Cause(ctx)
		}
		if orders, units, err = s.countOrders(ctx, store, stock); err != nil {
			return stock, 0, 0, err
		}
		now, err := s.Stock(ctx, store, sku)
		if err != nil || now == stock {
			return stock, orders, units, err
		}
	}
}

// countOrders counts in the store itself, and asks no instance.
func (s *Side) countOrders(ctx context.Context, store string, stock loadtest.Stock) (orders, units int64, err error) {
	if store == "mysql" {
		err = s.DB.QueryRowContext(ctx, "SELECT COUNT(*), CAST(COALESCE(SUM(quantity), 0) AS SIGNED) FROM orders"+
			" WHERE sku = ? AND epoch = ?", stock.SKU, stock.Epoch).Scan(&orders, &units)
		return orders, units, err
	}
	// The list begins with an entry that is no order, so that it exists. All that is sold here is sold one by one.
	entries, err := s.Redis.LLen(ctx, orderList(stock.SKU)).Result()
	return entries - 1, entries - 1, err
}

// orderList is the key of the orders of a SKU, as package repo names it.
func orderList(sku string) string { return "stock:{" + sku + "}:orders" }

// Forget removes the orders of a SKU that is sold no more, so that every measurement begins with empty tables. In MySQL
// the orders of all SKUs go.
func (s *Side) Forget(ctx context.Context, store, sku string) error {
	if store == "mysql" {
		_, err := s.DB.ExecContext(ctx, "TRUNCATE TABLE orders")
		return err
	}
	return s.Redis.Unlink(ctx, orderList(sku)).Err()
}

// BalanceOrders is Balance for orders of customers in MySQL, each of a unit and with an idempotency key: the store
// itself must have as many orders, keys and movements as its counters say, and no units but those.
func (s *Side) BalanceOrders(ctx context.Context, sku string, sure, cut int64) error {
	b, err := s.restOfOrders(ctx, sku)
	if err != nil {
		return fmt.Errorf("%s: read the books of the orders of %s: %w", s.Name, sku, err)
	}
	if b.received != b.available+b.sold || b.reserved != 0 || b.orders != b.sold || b.keys != b.sold ||
		b.movements != b.sold || b.units != b.sold || b.sold < sure || b.sold > sure+cut {
		return fmt.Errorf("%w: %s, SKU %s: %d sales, and %d requests at most were cut off; the store has %+v", ErrBooks,
			s.Name, sku, sure, cut, b)
	}
	return nil
}

// orderBooks are the counters of a SKU, and what the store has of its orders.
type orderBooks struct {
	received, available, reserved, sold int64
	orders, keys, movements, units      int64
}

// restOfOrders reads the books when they are the same for a while.
func (s *Side) restOfOrders(ctx context.Context, sku string) (b orderBooks, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restBound, fmt.Errorf("sales go on after %v", restBound))
	defer cancel()
	for {
		before := b
		err := s.DB.QueryRowContext(ctx, "SELECT initial + adjusted, quantity, stock.reserved, stock.sold,"+
			" (SELECT COUNT(*) FROM customer_orders), (SELECT COUNT(*) FROM idempotency_keys),"+
			" COUNT(movements.sku), CAST(COALESCE(SUM(movements.sold), 0) AS SIGNED)"+
			" FROM stock LEFT JOIN movements ON movements.sku = stock.sku AND kind = ? WHERE stock.sku = ?",
			string(order.Sell), sku).
			Scan(&b.received, &b.available, &b.reserved, &b.sold, &b.orders, &b.keys, &b.movements, &b.units)
		if err != nil || b == before {
			return b, err
		}
		if loadtest.Sleep(ctx, 60*time.Millisecond) != nil {
			return b, context.Cause(ctx)
		}
	}
}

// ForgetOrders removes all orders of customers in MySQL, with what belongs to them.
func (s *Side) ForgetOrders(ctx context.Context) error {
	for _, table := range []string{"customer_orders", "idempotency_keys", "movements", "customer_limits"} {
		if _, err := s.DB.ExecContext(ctx, "TRUNCATE TABLE "+table); err != nil {
			return err
		}
	}
	return nil
}
