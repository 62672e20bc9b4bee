package order

import (
	"context"

	"example.com/stock/service"
)

// admin is the caller in the idempotency keys of an operator's requests. No customer has this name, because it contains
// a blank.
const admin = "the admin"

// Adjust adds delta units to the available ones for a delivery, or, if delta is negative, removes units for a loss, but
// never below zero. It fails with service.ErrPrecondition if c does not hold.
func (s *Service) Adjust(
	ctx context.Context, key string, sku service.SKU, delta int64, reason string, c service.Condition,
) (Entry, bool, error) {
	if err := between("delta", delta, -service.MaxStock, service.MaxStock); err != nil {
		return Entry{}, false, err
	}
	if delta == 0 {
		return Entry{}, false, service.Invalid("delta", "nothing")
	}
	return step[Entry](ctx, s, call{
		about: About{SKUs: []service.SKU{sku}}, decide: adjust(sku, delta, reason, c),
		key: key, caller: admin, operation: "POST /v1/stock/" + string(sku) + "/adjustments", asked: struct {
			Delta  int64
			Reason string
		}{delta, reason},
	})
}

// Set makes quantity units available, and creates the SKU if it does not exist. Reserved and sold units do not change.
// Only a person should call it: if the store had lost its data, all of its SKUs are sold again afterwards. A replay
// sets nothing, so after a data loss it fails with a service.DataLostError. Then send another key, or none.
func (s *Service) Set(
	ctx context.Context, key string, sku service.SKU, quantity int64, c service.Condition,
) (Entry, bool, error) {
	if err := between("quantity", quantity, 0, service.MaxStock); err != nil {
		return Entry{}, false, err
	}
	entry, replayed, err := step[Entry](ctx, s, call{
		about: About{SKUs: []service.SKU{sku}, Create: true}, decide: set(sku, quantity, c),
		key: key, caller: admin, operation: "PUT /v1/stock/" + string(sku), asked: quantity, ends: c.None(),
	})
	switch {
	case err != nil || s.Data == nil:
	case replayed:
		err = s.Data.Look(ctx)
	default:
		err = s.Data.Renew(ctx) // after the stock is set, so that readers of the new origin see it
	}
	return entry, replayed, err
}

// Level returns the counters of the SKU. Number is 0 if the SKU has no movement yet.
func (s *Service) Level(ctx context.Context, sku service.SKU) (Level, error) {
	return read(ctx, s, func(ctx context.Context) (Level, error) { return s.Store.Level(ctx, sku) })
}

// Movements returns up to limit movements of the SKU with a number greater than after, in order.
func (s *Service) Movements(ctx context.Context, sku service.SKU, after uint64, limit int) ([]Movement, error) {
	if err := between("limit", int64(limit), 1, service.MaxPage); err != nil {
		return nil, err
	}
	return read(ctx, s, func(ctx context.Context) ([]Movement, error) {
		return s.Store.Movements(ctx, sku, after, limit)
	})
}

// SetPolicy sets the most units of a SKU that one customer may have, reserved and sold; 0: no limit. A customer who
// has more keeps them. It is idempotent, so it needs no key.
func (s *Service) SetPolicy(ctx context.Context, sku service.SKU, perCustomer int64) error {
	if err := between("per_customer", perCustomer, 0, MaxPolicy); err != nil {
		return err
	}
	_, err := read(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Store.SetPolicy(ctx, sku, perCustomer)
	})
	return err
}
