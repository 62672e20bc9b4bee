package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/order"
	"example.com/stock/service"
)

// Order is one round trip.
func (l *RedisLedger) Order(ctx context.Context, id string) (o order.Order, err error) {
	return o, l.record(ctx, "read order", orderKey(id), &o)
}

// Reservation is one round trip.
func (l *RedisLedger) Reservation(ctx context.Context, id string) (r order.Reservation, err error) {
	return r, l.record(ctx, "read reservation", reservationKey(id), &r)
}

// record reads a JSON text, or fails with order.ErrNotFound.
func (l *RedisLedger) record(ctx context.Context, doing, key string, into any) error {
	var text string
	err := l.ask(ctx, doing, key, func() (err error) {
		text, err = l.redis.client.Get(ctx, key).Result()
		return err
	})
	switch {
	case errors.Is(err, redis.Nil):
		return order.ErrNotFound
	case err != nil:
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%s: key %s: %w", doing, key, err)
	}
	return nil
}

// ask runs commands that only read. An error that is redis.Nil is returned as it is.
func (l *RedisLedger) ask(ctx context.Context, doing, key string, do func() error) error {
	leave, err := l.redis.enter(ctx, doing, key)
	if err != nil {
		return err
	}
	defer leave()
	if err = do(); err != nil && !errors.Is(err, redis.Nil) {
		return redisFault(ctx, doing, key, err)
	}
	l.redis.countAnswer(nil)
	return err
}

// Orders is two round trips, one if there are none.
func (l *RedisLedger) Orders(
	ctx context.Context, customer, cursor string, limit int,
) (page []order.Order, next string, err error) {
	const doing = "read orders"
	at, err := parsePlaceInOrders(cursor)
	if err == nil {
		err = checkLimit(limit)
	}
	if err != nil {
		return nil, "", err
	}
	// One order more than asked for shows whether there is a next page.
	reply, err := l.read(ctx, doing, ledgerPageScript, []string{customerKey(customer)}, at.id, limit+1)
	if err != nil {
		return nil, "", err
	}
	f := fields{key: customerKey(customer), values: reply}
	if f.text(1) == "" {
		return nil, "", wrongCursor()
	}
	ids, _ := reply[2].([]any)
	if len(ids) == 0 {
		return nil, "", nil
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = orderKey(fmt.Sprint(id))
	}
	var texts []any
	err = l.ask(ctx, doing, keys[0], func() (err error) {
		texts, err = l.redis.client.MGet(ctx, keys...).Result()
		return err
	})
	if err != nil {
		return nil, "", err
	}
	page = make([]order.Order, len(texts))
	for i, text := range texts {
		s, _ := text.(string)
		if err := json.Unmarshal([]byte(s), &page[i]); err != nil {
			return nil, "", fmt.Errorf("%s: key %s: %w", doing, keys[i], err)
		}
	}
	if len(page) > limit {
		page = page[:limit]
		next = placeOf(page[limit-1]).String()
	}
	return page, next, nil
}

// Level is one round trip. For a SKU that a strategy guards it fails with a GuardError: it has no ledger.
func (l *RedisLedger) Level(ctx context.Context, sku service.SKU) (order.Level, error) {
	seen, err := l.see(ctx, order.About{}, []service.SKU{sku})
	if err != nil {
		return order.Level{}, err
	}
	at := seen.stock[sku]
	switch {
	case !at.there():
		return order.Level{}, unknownSKU(sku)
	case at.guard != "" && at.guard != order.Guard:
		return order.Level{}, &service.GuardError{Guard: at.guard}
	}
	at.level.Taken = 0
	return at.level, nil
}

// Movements is one round trip, two if there are none.
func (l *RedisLedger) Movements(
	ctx context.Context, sku service.SKU, after uint64, limit int,
) (all []order.Movement, err error) {
	const doing = "read movements"
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	key := movementsKey(sku)
	var entries []redis.XMessage
	if after < after+1 {
		err = l.ask(ctx, doing, stockKey(sku), func() (err error) {
			entries, err = l.redis.client.XRangeN(ctx, key, movementID(after+1), "+", int64(limit)).Result()
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		_, err = l.Level(ctx, sku) // is there such a SKU?
		return nil, err
	}
	all = make([]order.Movement, len(entries))
	for i, entry := range entries {
		text, _ := entry.Values["m"].(string)
		if err := json.Unmarshal([]byte(text), &all[i]); err != nil {
			return nil, fmt.Errorf("%s: %s of %s: %w", doing, entry.ID, key, err)
		}
	}
	return all, nil
}

// SetPolicy is one round trip. It may be repeated, so a lost reply is lock.ErrDown.
func (l *RedisLedger) SetPolicy(ctx context.Context, sku service.SKU, perCustomer int64) error {
	if err := checkQuantity("per_customer", perCustomer); err != nil {
		return err
	}
	_, err := l.read(ctx, "set policy", ledgerPolicyScript, stockKeys(sku), perCustomer)
	return err
}

// Due is one round trip.
func (l *RedisLedger) Due(ctx context.Context, limit int) (ids []string, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	reply, err := l.read(ctx, "look for what is due", ledgerDueScript, []string{dueKey}, limit)
	if err != nil {
		return nil, err
	}
	list, _ := reply[1].([]any)
	for _, id := range list {
		ids = append(ids, fmt.Sprint(id))
	}
	return ids, nil
}

// Forget does nothing: Redis itself removes a key when it is old. See KeepKeysFor.
func (l *RedisLedger) Forget(context.Context, time.Time, int) (int, error) { return 0, nil }

// Behind is two round trips, one if all was delivered. It costs nothing for SKUs of which all was delivered.
func (l *RedisLedger) Behind(ctx context.Context, after service.SKU, limit int) (all []order.Delivered, err error) {
	const doing = "look for what is to be delivered"
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		from = "(" + string(after)
	}
	var names []string
	err = l.ask(ctx, doing, behindKey, func() (err error) {
		by := &redis.ZRangeBy{Min: from, Max: "+", Count: int64(limit)}
		names, err = l.redis.client.ZRangeByLex(ctx, behindKey, by).Result()
		return err
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	numbers := make([]*redis.StringCmd, len(names))
	err = l.ask(ctx, doing, behindKey, func() error {
		_, err := l.redis.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				numbers[i] = p.HGet(ctx, deliveredKey(service.SKU(name)), "number")
			}
			return nil
		})
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	for i, name := range names {
		d := order.Delivered{SKU: service.SKU(name)}
		text, err := numbers[i].Result()
		if err == nil {
			f := fields{key: deliveredKey(d.SKU), values: []any{text}}
			d.Number, err = f.natural(0), f.err
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Delivered is one round trip. It may be repeated, so a lost reply is lock.ErrDown.
func (l *RedisLedger) Delivered(ctx context.Context, d order.Delivered, fence uint64) error {
	_, err := l.read(ctx, "record what was delivered", ledgerDeliveredScript,
		[]string{stockKey(d.SKU), deliveredKey(d.SKU), behindKey}, string(d.SKU), decimal(d.Number), decimal(fence))
	return err
}

// The interfaces of package order that RedisLedger implements.
var (
	_ order.Ledger  = (*RedisLedger)(nil)
	_ order.Records = (*RedisLedger)(nil)
	_ order.Book    = (*RedisLedger)(nil)
	_ order.Sweeper = (*RedisLedger)(nil)
	_ order.Outbox  = (*RedisLedger)(nil)
)
