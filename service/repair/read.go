package repair

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A Store is what a repair needs of a ledger.
type Store interface {
	order.Repairable
	order.Records
	// Archived returns the last part that was archived; see order.Archivable.
	Archived(ctx context.Context) (last order.Part, now time.Time, err error)
}

const (
	pageSize = 1000
	// perCall limits one call of the store.
	perCall = 30 * time.Second
)

// Make returns a plan for those of skus whose books do not balance, or of all SKUs of the ledger if skus is empty. It
// writes nothing, and can run while the service sells.
//
// It reads all orders of the store and all movements of the SKUs, and needs some 150 bytes of memory for each order of
// these SKUs. Errors match lock.ErrDown, service.ErrUnknownSKU, or service.GuardError.
func Make(ctx context.Context, s Store, place Place, skus []service.SKU) (Plan, error) {
	p := Plan{Version: Version, Store: place, Made: time.Now().UTC().Truncate(time.Second), SKUs: []Mend{}}
	books, err := read(ctx, s, skus)
	if err != nil {
		return Plan{}, err
	}
	for _, b := range books {
		if !b.balances() {
			p.SKUs = append(p.SKUs, decide(b))
		}
	}
	p.ID = p.digest()
	return p, nil
}

// A reading has what was read of a SKU before its movements.
type reading struct {
	level  order.Level
	claims map[string]order.Claim // with the units of this SKU only
}

// read reads the books of skus. Every SKU is read as of the movement that was its last one at the beginning. Records
// are read later, so the movements since then say which records have changed meanwhile, and what they were before.
func read(ctx context.Context, s Store, skus []service.SKU) ([]Books, error) {
	if len(skus) == 0 {
		var err error
		if skus, err = all(ctx, s); err != nil {
			return nil, err
		}
	}
	skus = slices.Compact(slices.Sorted(slices.Values(skus)))
	readings := make(map[service.SKU]reading, len(skus))
	for _, sku := range skus {
		level, err := call(ctx, func(ctx context.Context) (order.Level, error) { return s.Level(ctx, sku) })
		if err != nil {
			return nil, &SKUError{sku, err}
		}
		readings[sku] = reading{level, map[string]order.Claim{}}
	}
	last, err := call(ctx, func(ctx context.Context) (order.Part, error) {
		last, _, err := s.Archived(ctx)
		return last, err
	})
	if err != nil {
		return nil, err
	}
	err = pages(ctx, s.Claims, func(c order.Claim) {
		for _, l := range c.Lines {
			if r, is := readings[l.SKU]; is {
				of := c
				of.Lines = []order.Line{l}
				r.claims[c.ID] = of
			}
		}
	})
	if err != nil {
		return nil, err
	}
	books := make([]Books, 0, len(skus))
	for _, sku := range skus {
		b, err := readings[sku].books(ctx, s, sku, last.Number == 0)
		if err != nil {
			return nil, &SKUError{sku, err}
		}
		books = append(books, b)
	}
	return books, nil
}

// A SKUError names the SKU that Err is about.
type SKUError struct {
	SKU service.SKU
	Err error
}

func (e *SKUError) Error() string { return string(e.SKU) + ": " + e.Err.Error() }
func (e *SKUError) Unwrap() error { return e.Err }

// all returns all SKUs of the ledger.
func all(ctx context.Context, s Store) (skus []service.SKU, err error) {
	err = pages(ctx, s.Positions, func(p order.Position) { skus = append(skus, p.SKU) })
	return skus, err
}

// pages calls do for each item of all pages.
func pages[T any](
	ctx context.Context, read func(ctx context.Context, cursor string, limit int) ([]T, string, error), do func(T),
) error {
	for cursor := ""; ; {
		next := ""
		page, err := call(ctx, func(ctx context.Context) (page []T, err error) {
			page, next, err = read(ctx, cursor, pageSize)
			return page, err
		})
		if err != nil {
			return err
		}
		for _, item := range page {
			do(item)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func call[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, perCall)
	defer cancel()
	return do(ctx)
}

func (r reading) books(ctx context.Context, s Store, sku service.SKU, ordersKnown bool) (b Books, err error) {
	account, later, last, err := audit(ctx, s, sku, r.level, r.level.Number)
	if err != nil {
		return b, err
	}
	if last > r.level.Number {
		// The movements after the counters are those of customers who came meanwhile, or the counters were set back.
		// Counters are written together with movements, so only in the second case are they still behind.
		now, err := call(ctx, func(ctx context.Context) (order.Level, error) { return s.Level(ctx, sku) })
		if err != nil {
			return b, err
		}
		if now.Number < last {
			r.level = now
			if account, later, _, err = audit(ctx, s, sku, now, math.MaxUint64); err != nil {
				return b, err
			}
		}
	}
	b = Books{
		SKU: sku, Counters: amounts(r.level), Number: r.level.Number,
		Movements: amounts(account.Sum), Last: account.Sum.Number, Damage: []string{},
	}
	for _, problem := range account.Problems {
		switch problem.Kind {
		case order.Gap, order.Law, order.OtherSKU:
			if !slices.Contains(b.Damage, problem.Kind) {
				b.Damage = append(b.Damage, problem.Kind)
			}
		}
	}
	ordered, err := r.claimed(ctx, s, &b, later)
	if ordersKnown {
		b.Ordered = &ordered
	}
	return b, err
}

// audit audits the movements up to a number. later has the first later movement of each reference. last is the number
// of the last movement of all.
func audit(
	ctx context.Context, s Store, sku service.SKU, level order.Level, to uint64,
) (account order.Account, later map[string]order.Movement, last uint64, err error) {
	later = map[string]order.Movement{}
	account = order.Audit(sku, level, func(yield func(order.Movement) bool) {
		for m, failed := range order.MovementsAfter(0, pageSize, func(after uint64) ([]order.Movement, error) {
			return call(ctx, func(ctx context.Context) ([]order.Movement, error) {
				return s.Movements(ctx, sku, after, pageSize)
			})
		}) {
			if err = failed; err != nil {
				return
			}
			last = m.Number
			if m.Number <= to {
				if !yield(m) {
					return
				}
			} else if _, there := later[m.Ref]; !there && m.Ref != "" {
				later[m.Ref] = m
			}
		}
	})
	return account, later, last, err
}

// claimed sets b.Held, and returns the units in orders, both before the later movements. What a record was before is
// the opposite of its first later movement: it had the units that the movement took from it, or it did not exist.
func (r reading) claimed(
	ctx context.Context, s Store, b *Books, later map[string]order.Movement,
) (ordered int64, err error) {
	for _, c := range r.claims {
		_, changed := later[c.ID]
		_, began := later[c.From]
		switch {
		case changed, began && c.From != "":
		case c.Reserved:
			b.Held += c.Lines[0].Quantity
		default:
			ordered += c.Lines[0].Quantity
		}
	}
	for ref, m := range later {
		b.Held += max(0, -m.Reserved)
		if m.Sold >= 0 {
			continue
		}
		o, err := call(ctx, func(ctx context.Context) (order.Order, error) { return s.Order(ctx, ref) })
		if err != nil && !errors.Is(err, order.ErrNotFound) {
			return 0, err
		}
		if _, there := later[o.Reservation]; !there { // otherwise the order was made meanwhile, too
			ordered -= m.Sold
		}
	}
	return ordered, nil
}
