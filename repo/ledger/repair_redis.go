package ledger

import (
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"

	"example.com/stock/internal/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

//go:embed repair.lua
var ledgerRepairLua string

var ledgerRepairScript = redisscript.New(ledgerRepairLua)

var _ order.Repairable = (*Redis)(nil)

// Claims scans about limit keys of any kind in two round trips. Its pages go through all keys twice, as those of Old.
func (l *Redis) Claims(ctx context.Context, cursor string, limit int) (page []order.Claim, next string, err error) {
	const doing = "read who has units"
	if cursor == "" {
		cursor = "o0"
	}
	kind, at := cursor[:1], cursor[1:]
	begin := map[string]string{"o": orderKey(""), "r": reservationKey("")}[kind]
	if begin == "" {
		return nil, "", wrongCursor()
	}
	names, next, err := l.scan(ctx, doing, begin, "", at, limit)
	if err != nil {
		return nil, "", err
	}
	switch {
	case next != "":
		next = kind + next
	case kind == "o":
		next = "r0"
	}
	if len(names) == 0 {
		return nil, next, nil
	}
	ids := make([]any, len(names))
	for i, name := range names {
		ids[i] = name
	}
	keys, texts, err := l.texts(ctx, doing, ids, func(id string) string { return begin + id })
	if err != nil {
		return nil, "", err
	}
	for i, text := range texts {
		s, there := text.(string)
		if !there { // it was archived meanwhile
			continue
		}
		var o order.Order
		var r order.Reservation
		if kind == "o" {
			err = json.Unmarshal([]byte(s), &o)
		} else {
			err = json.Unmarshal([]byte(s), &r)
		}
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%s: key %s: %w", doing, keys[i], err)
		case o.State == order.Placed:
			page = append(page, o.Claim())
		case r.State == order.Held:
			page = append(page, order.Claim{ID: r.ID, Reserved: true, Lines: r.Lines})
		}
	}
	return page, next, nil
}

// Correct takes two round trips.
func (l *Redis) Correct(ctx context.Context, c order.Correction) error {
	const doing = "correct the books"
	sku := c.Movement.SKU
	seen, err := l.see(ctx, scope{skus: []service.SKU{sku}})
	if err != nil {
		return err
	}
	at := seen.levels[sku]
	if at.level != c.Was {
		return order.ErrMoved
	}
	c.Movement.At = seen.now
	initial := at.stock.Initial
	_, err = l.redis.Run(service.Begin(ctx), doing, ledgerRepairScript,
		[]string{repo.StockKey(sku), movementsKey(sku), carriedKey(sku), behindKey},
		string(sku), lastMovementID(c.Last),
		initial, c.Was.Received-initial, c.Was.Available, c.Was.Reserved, c.Was.Sold, repo.Decimal(c.Was.Number),
		c.Is.Received-initial, c.Is.Available, c.Is.Reserved, c.Is.Sold, repo.Decimal(c.Is.Number),
		repo.Encode(c.Movement))
	if errors.Is(err, service.ErrConflict) {
		return order.ErrMoved
	}
	return err
}
