package order

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"example.com/stock/service"
)

// Place sells a cart to a customer, all or nothing. Lines of one SKU are merged.
func (s *Service) Place(ctx context.Context, key, customer string, lines []Line) (Order, bool, error) {
	lines, id, err := newCart(lines)
	if err != nil {
		return Order{}, false, err
	}
	return step[Order](ctx, s, call{
		about: About{SKUs: skusOf(lines), Customer: customer}, decide: place(id, customer, lines),
		key: key, caller: customer, operation: "POST /v1/orders", asked: lines, id: id,
	})
}

// CancelOrder returns the units of an order to stock, once. Another customer's order is reported as not found.
func (s *Service) CancelOrder(ctx context.Context, key, customer, id string) (Order, bool, error) {
	if !isID(id) {
		return Order{}, false, ErrNotFound
	}
	return step[Order](ctx, s, call{
		about: About{Order: id, Customer: customer}, decide: cancelOrder(customer),
		key: key, caller: customer, operation: "POST /v1/orders/" + id + "/cancel", id: id, ends: true,
	})
}

// Reserve keeps a cart for a customer, all or nothing, until ttl has passed on the clock of the store's server.
func (s *Service) Reserve(
	ctx context.Context, key, customer string, lines []Line, ttl time.Duration,
) (Reservation, bool, error) {
	lines, id, err := newCart(lines)
	if err != nil {
		return Reservation{}, false, err
	}
	return step[Reservation](ctx, s, call{
		about:  About{SKUs: skusOf(lines), Customer: customer, Holder: s.Limits.holder(customer)},
		decide: reserve(id, customer, lines, ttl, s.Limits),
		key:    key, caller: customer, operation: "POST /v1/reservations", id: id, asked: struct {
			Lines []Line
			TTL   time.Duration
		}{lines, ttl},
	})
}

// Confirm turns a reservation into an order. If the reservation has expired, Confirm takes the units from stock again
// in the same step, and the order is Late. If the units are no longer available, it fails with ErrExpired and the
// cause.
func (s *Service) Confirm(ctx context.Context, key, customer, id string) (Order, bool, error) {
	if !isID(id) {
		return Order{}, false, ErrNotFound
	}
	order, err := newID()
	if err != nil {
		return Order{}, false, err
	}
	return step[Order](ctx, s, call{
		about: About{Reservation: id, Customer: customer}, decide: confirm(order, customer),
		key: key, caller: customer, operation: "POST /v1/reservations/" + id + "/confirm", id: id, ends: true,
	})
}

// CancelReservation returns the units of a reservation to stock, once.
func (s *Service) CancelReservation(ctx context.Context, key, customer, id string) (Reservation, bool, error) {
	if !isID(id) {
		return Reservation{}, false, ErrNotFound
	}
	return step[Reservation](ctx, s, call{
		about: About{Reservation: id, Customer: customer}, decide: release(customer),
		key: key, caller: customer, operation: "POST /v1/reservations/" + id + "/cancel", id: id, ends: true,
	})
}

// Extend makes a held reservation expire ttl from now, but no later than MaxTTL after its creation. It never moves the
// expiry to an earlier time.
func (s *Service) Extend(
	ctx context.Context, key, customer, id string, ttl time.Duration,
) (Reservation, bool, error) {
	if !isID(id) {
		return Reservation{}, false, ErrNotFound
	}
	return step[Reservation](ctx, s, call{
		about: About{Reservation: id, Customer: customer}, decide: extend(customer, ttl, s.Limits),
		key: key, caller: customer, operation: "POST /v1/reservations/" + id + "/extend", asked: ttl, id: id,
		ends: true,
	})
}

// Order returns an order of the customer, or ErrNotFound.
func (s *Service) Order(ctx context.Context, customer, id string) (Order, error) {
	return read(ctx, s, func(ctx context.Context) (Order, error) {
		if !isID(id) {
			return Order{}, ErrNotFound
		}
		o, err := s.Store.Order(ctx, id)
		if err == nil && o.Customer != customer {
			o, err = Order{}, ErrNotFound
		}
		return o, err
	})
}

// A Page is some orders, and the cursor of the next page ("" after the last).
type Page struct {
	Orders []Order
	Next   string
}

// Orders returns a page of the customer's orders, the newest first. A cursor is of one customer: another's is refused
// like one that was never made.
func (s *Service) Orders(ctx context.Context, customer, cursor string, limit int) (Page, error) {
	if err := between("limit", int64(limit), 1, service.MaxPage); err != nil {
		return Page{}, err
	}
	place, err := placeOf(customer, cursor)
	if err != nil {
		return Page{}, err
	}
	return read(ctx, s, func(ctx context.Context) (Page, error) {
		orders, next, err := s.Store.Orders(ctx, customer, place, limit)
		if next != "" {
			next += "." + tie(customer, next)
		}
		return Page{orders, next}, err
	})
}

// tie makes a place in a list that of its customer. It is no secret: the list of another customer is never read.
func tie(customer, place string) string {
	sum := sha256.Sum256([]byte(customer + " " + place))
	return hex.EncodeToString(sum[:6])
}

// placeOf returns the place in a customer's cursor.
func placeOf(customer, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	end := strings.LastIndexByte(cursor, '.')
	if end < 1 || cursor[end+1:] != tie(customer, cursor[:end]) {
		return "", service.Invalid("cursor", "cursor")
	}
	return cursor[:end], nil
}

// Reservation returns a reservation of the customer, or ErrNotFound. An expired reservation may still be returned as
// held, until a sweeper ends it: compare ExpiresAt.
func (s *Service) Reservation(ctx context.Context, customer, id string) (Reservation, error) {
	return read(ctx, s, func(ctx context.Context) (Reservation, error) {
		if !isID(id) {
			return Reservation{}, ErrNotFound
		}
		r, err := s.Store.Reservation(ctx, id)
		if err == nil && r.Customer != customer {
			r, err = Reservation{}, ErrNotFound
		}
		return r, err
	})
}

// newCart merges the lines of a cart, and makes an id for its order or reservation.
func newCart(lines []Line) (merged []Line, id string, err error) {
	if merged, err = merge(lines); err != nil {
		return nil, "", err
	}
	id, err = newID()
	return merged, id, err
}
