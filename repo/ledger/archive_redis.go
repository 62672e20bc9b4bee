package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

var _ order.Archivable = (*Redis)(nil)

// archivedKey is the key of the last archived part, as JSON.
const archivedKey = "ledger:archived"

// Archived takes two round trips.
func (l *Redis) Archived(ctx context.Context) (last order.Part, now time.Time, err error) {
	const doing = "read what was archived"
	if err = l.record(ctx, doing, archivedKey, &last); err != nil && !errors.Is(err, order.ErrNotFound) {
		return last, now, err
	}
	seen, err := l.see(ctx, scope{})
	if err != nil {
		return last, now, err
	}
	return last, seen.now, nil
}

// scan makes one step of SCAN through all keys. It returns the keys with the prefix begin and the suffix end, and cuts
// both off. A page can have more keys than limit, or none.
func (l *Redis) scan(
	ctx context.Context, doing, begin, end, cursor string, limit int,
) (names []string, next string, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return nil, "", err
	}
	at, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil {
		return nil, "", wrongCursor()
	}
	var keys []string
	err = l.ask(ctx, doing, begin, func() (err error) {
		keys, at, err = l.redis.Client().Scan(ctx, at, begin+"*"+end, int64(limit)).Result()
		return err
	})
	for _, key := range keys {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(key, begin), end))
	}
	if at != 0 {
		next = strconv.FormatUint(at, 10)
	}
	return names, next, err
}

// Positions scans about limit keys of any kind in one round trip. It takes one more if SKUs are among them.
func (l *Redis) Positions(
	ctx context.Context, cursor string, limit int,
) (page []order.Position, next string, err error) {
	const doing = "read SKUs"
	if cursor == "" {
		cursor = "0"
	}
	names, next, err := l.scan(ctx, doing, "stock:{", "}:movements", cursor, limit)
	if err != nil || len(names) == 0 {
		return nil, next, err
	}
	values := make([]*redis.SliceCmd, len(names))
	err = l.ask(ctx, doing, names[0], func() error {
		_, err := l.redis.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				values[i] = p.HMGet(ctx, deliveredKey(service.SKU(name)), "number", "fence")
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	for i, name := range names {
		s := order.Position{Delivered: order.Delivered{SKU: service.SKU(name)}}
		if v := values[i].Val(); v[0] != nil {
			f := repo.Fields{Key: deliveredKey(s.SKU), Values: v}
			s.Number, s.Fence = f.Natural(0), f.Natural(1)
			err = errors.Join(err, f.Err)
		}
		page = append(page, s)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	return page, next, nil
}

// Old scans about limit keys of any kind in two round trips. There is no index of all orders, so the pages go through
// all keys twice, for orders and for reservations. Each page blocks the server for some 0.1 ms. The cursor is "o" or
// "r", followed by the cursor of SCAN.
func (l *Redis) Old(
	ctx context.Context, before time.Time, cursor string, limit int,
) (page order.Old, next string, err error) {
	const doing = "read what is old"
	if cursor == "" {
		cursor = "o0"
	}
	kind, at := cursor[:1], cursor[1:]
	begin := map[string]string{"o": orderKey(""), "r": reservationKey("")}[kind]
	if begin == "" {
		return page, "", wrongCursor()
	}
	names, next, err := l.scan(ctx, doing, begin, "", at, limit)
	if err != nil {
		return page, "", err
	}
	switch {
	case next != "":
		next = kind + next
	case kind == "o":
		next = "r0"
	}
	end := order.FirstID(before.Add(lateID))
	var ids []any
	for _, name := range names {
		if name < end {
			ids = append(ids, name)
		}
	}
	if len(ids) == 0 {
		return page, next, nil
	}
	_, texts, err := l.texts(ctx, doing, ids, func(id string) string { return begin + id })
	for _, text := range texts {
		s, there := text.(string)
		switch {
		case !there:
			continue
		case kind == "o":
			var o order.Order
			err = errors.Join(err, json.Unmarshal([]byte(s), &o))
			if o.CreatedAt.Before(before) && o.Ended().Before(before) {
				page.Orders = append(page.Orders, o)
			}
			continue
		}
		var r order.Reservation
		err = errors.Join(err, json.Unmarshal([]byte(s), &r))
		if r.State != order.Held && r.CreatedAt.Before(before) && r.EndedAt != nil && r.EndedAt.Before(before) {
			page.Reservations = append(page.Reservations, r)
		}
	}
	if err != nil {
		return order.Old{}, "", fmt.Errorf("%s: %w", doing, err)
	}
	return page, next, nil
}

// Present takes one round trip.
func (l *Redis) Present(ctx context.Context, ids []string) (there []string, err error) {
	const doing = "look for what was archived"
	if len(ids) == 0 {
		return nil, nil
	}
	found := make([]*redis.IntCmd, len(ids))
	err = l.ask(ctx, doing, ids[0], func() error {
		_, err := l.redis.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range ids {
				found[i] = p.Exists(ctx, orderKey(id), reservationKey(id))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if found[i].Val() > 0 {
			there = append(there, id)
		}
	}
	return there, nil
}

// TakeAway takes three round trips. The last one runs write.lua, which removes t only if none of its records has
// changed.
func (l *Redis) TakeAway(ctx context.Context, t order.Taking) error {
	const doing = "take away what was archived"
	last, now, err := l.Archived(ctx)
	if err != nil {
		return err
	}
	if is, err := t.Part.Follows(last); is || err != nil {
		return err
	}
	w := &redisStep{until: now.Add(stepWithin), index: map[string]int{}}
	was := ""
	if last.Number > 0 {
		was = digest(repo.Encode(last))
	}
	w.check("text", archivedKey, was)
	orders, reservations := t.IDs()
	for i, id := range orders {
		w.check("text", orderKey(id), digest(repo.Encode(t.Orders[i])))
		w.do("DEL", orderKey(id))
		w.do("ZREM", customerKey(t.Orders[i].Customer), id)
	}
	for i, id := range reservations {
		w.check("text", reservationKey(id), digest(repo.Encode(t.Reservations[i])))
		w.do("DEL", reservationKey(id))
		w.do("HDEL", heldKey(t.Reservations[i].Customer), id) // as an older instance may have left it
	}
	for _, c := range t.Carries {
		carried := ""
		if c.First > 1 {
			carried = repo.Decimal(c.First - 1)
		}
		// The stream must begin with the first movement of t, because the earlier ones are archived.
		w.check("first", movementsKey(c.SKU), movementID(c.First), w.key(carriedKey(c.SKU)), carried)
		w.do("XTRIM", movementsKey(c.SKU), "MINID", movementID(c.Number+1))
		w.do("HSET", carriedKey(c.SKU), "number", repo.Decimal(c.Number), "m", repo.Encode(c.Movement))
	}
	w.do("SET", archivedKey, repo.Encode(t.Part))
	_, err = l.redis.Run(service.Begin(ctx), doing, ledgerWriteScript, w.keys, w.args()...)
	if errors.Is(err, service.ErrConflict) {
		// The last part is read again, because another archiver may have removed another part, or this one.
		if last, _, err = l.Archived(ctx); err != nil {
			return err
		}
		if is, err := t.Part.Follows(last); is || err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", doing, order.ErrMoved)
	}
	return err
}
