package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

func (l *Redis) Order(ctx context.Context, id string) (o order.Order, err error) {
	return o, l.record(ctx, "read order", orderKey(id), &o)
}

func (l *Redis) Reservation(ctx context.Context, id string) (r order.Reservation, err error) {
	return r, l.record(ctx, "read reservation", reservationKey(id), &r)
}

// record reads a JSON text. If there is none, it fails with order.ErrNotFound.
func (l *Redis) record(ctx context.Context, doing, key string, into any) error {
	var text string
	err := l.ask(ctx, doing, key, func() (err error) {
		text, err = l.redis.Client().Get(ctx, key).Result()
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

// ask runs commands that only read. It returns redis.Nil unchanged.
func (l *Redis) ask(ctx context.Context, doing, key string, do func() error) error {
	leave, err := l.redis.Enter(ctx, doing, key)
	if err != nil {
		return err
	}
	defer leave()
	if err = do(); err != nil && !errors.Is(err, redis.Nil) {
		return repo.RedisFault(ctx, doing, key, err)
	}
	l.redis.CountAnswer(nil)
	return err
}

// Orders takes two round trips, or one if there are none.
func (l *Redis) Orders(
	ctx context.Context, customer, cursor string, limit int,
) (page []order.Order, next string, err error) {
	const doing = "read orders"
	at, err := parsePlaceInOrders(cursor)
	if err == nil {
		err = repo.CheckLimit(limit)
	}
	if err != nil {
		return nil, "", err
	}
	// One more order than limit shows whether there is a next page.
	reply, err := l.read(ctx, doing, ledgerPageScript, []string{customerKey(customer)}, at.id, limit+1)
	if err != nil {
		return nil, "", err
	}
	f := repo.Fields{Key: customerKey(customer), Values: reply}
	if f.Text(1) == "" {
		return nil, "", wrongCursor()
	}
	ids, _ := reply[2].([]any)
	if len(ids) == 0 {
		return nil, "", nil
	}
	keys, texts, err := l.texts(ctx, doing, ids, orderKey)
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

// Level takes one round trip. It fails with a GuardError for a SKU that a strategy guards, because it has no ledger.
func (l *Redis) Level(ctx context.Context, sku service.SKU) (order.Level, error) {
	seen, err := l.see(ctx, scope{skus: []service.SKU{sku}})
	if err != nil {
		return order.Level{}, err
	}
	at := seen.levels[sku]
	switch {
	case !at.there():
		return order.Level{}, repo.UnknownSKU(sku)
	case at.guard != "" && at.guard != order.Guard:
		return order.Level{}, &service.GuardError{Guard: at.guard}
	}
	return at.level, nil
}

// Movements takes one round trip, or two if there are none. The movement that replaces the archived ones is in the hash
// stock:{<sku>}:carried. It cannot be in the stream, because an entry of a stream must have a larger id than the last
// one.
func (l *Redis) Movements(
	ctx context.Context, sku service.SKU, after uint64, limit int,
) (all []order.Movement, err error) {
	const doing = "read movements"
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	key := movementsKey(sku)
	var entries *redis.XMessageSliceCmd
	var carried *redis.StringCmd
	if after == math.MaxUint64 {
		_, err = l.Level(ctx, sku)
		return nil, err
	}
	err = l.ask(ctx, doing, repo.StockKey(sku), func() error {
		_, err := l.redis.Client().TxPipelined(ctx, func(p redis.Pipeliner) error {
			entries = p.XRangeN(ctx, key, movementID(after+1), "+", int64(limit))
			carried = p.HGet(ctx, carriedKey(sku), "m")
			return nil
		})
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	add := func(id, text string) error {
		var m order.Movement
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return fmt.Errorf("%s: %s of %s: %w", doing, id, key, err)
		}
		if m.Number > after && len(all) < limit {
			all = append(all, m)
		}
		return nil
	}
	if text := carried.Val(); text != "" {
		if err := add("carried", text); err != nil {
			return nil, err
		}
	}
	for _, entry := range entries.Val() {
		text, _ := entry.Values["m"].(string)
		if err := add(entry.ID, text); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		_, err = l.Level(ctx, sku) // fails if there is no such SKU
		return nil, err
	}
	return all, nil
}

// SetPolicy takes one round trip. It is idempotent, so a lost reply is lock.ErrDown.
func (l *Redis) SetPolicy(ctx context.Context, sku service.SKU, perCustomer int64) error {
	if err := repo.CheckQuantity("per_customer", perCustomer); err != nil {
		return err
	}
	_, err := l.read(ctx, "set policy", ledgerPolicyScript, []string{repo.StockKey(sku)}, perCustomer)
	return err
}

// Due takes two round trips, or one if there are none.
func (l *Redis) Due(ctx context.Context, skip, limit int) (due []order.Reservation, err error) {
	const doing = "look for what is due"
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	reply, err := l.read(ctx, doing, ledgerDueScript, []string{dueKey}, skip, limit)
	if err != nil {
		return nil, err
	}
	ids, _ := reply[1].([]any)
	if len(ids) == 0 {
		return nil, nil
	}
	due = make([]order.Reservation, len(ids))
	_, texts, err := l.texts(ctx, doing, ids, reservationKey)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		s, there := text.(string)
		if !there || json.Unmarshal([]byte(s), &due[i]) != nil {
			due[i] = order.Reservation{}
		}
		due[i].ID = fmt.Sprint(ids[i])
	}
	return due, nil
}

// texts reads the value of the key of(id) for each of ids.
func (l *Redis) texts(
	ctx context.Context, doing string, ids []any, of func(id string) string,
) (keys []string, texts []any, err error) {
	keys = make([]string, len(ids))
	for i, id := range ids {
		keys[i] = of(fmt.Sprint(id))
	}
	err = l.ask(ctx, doing, keys[0], func() (err error) {
		texts, err = l.redis.Client().MGet(ctx, keys...).Result()
		return err
	})
	return keys, texts, err
}

// The interfaces of package order that Redis implements.
var (
	_ order.Ledger  = (*Redis)(nil)
	_ order.Records = (*Redis)(nil)
	_ order.Book    = (*Redis)(nil)
	_ order.Sweeper = (*Redis)(nil)
)
