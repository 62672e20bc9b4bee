package repo

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"

	"example.com/stock/orders/service"
)

// Stock returns the stock of a SKU.
func (s *Store) Stock(ctx context.Context, sku string) (stock service.Stock, err error) {
	err = s.db.WithContext(ctx).Take(&stock, "sku = ?", sku).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return stock, service.ErrUnknownSKU
	}
	return stock, explain(err)
}

// Movements returns the movements of a SKU with a number above after, in order.
func (s *Store) Movements(ctx context.Context, sku string, after int64, limit int) ([]service.Movement, error) {
	var all []service.Movement
	err := s.db.WithContext(ctx).
		Where("sku = ? AND number > ?", sku, after).
		Order("number").
		Limit(limit).
		Find(&all).
		Error
	return all, explain(err)
}

// Order returns an order of the customer.
func (s *Store) Order(ctx context.Context, customer, id string) (service.Order, error) {
	o, err := orderOf(s.db.WithContext(ctx), id)
	if err != nil {
		return service.Order{}, explain(err)
	}
	if o == nil || o.Customer != customer {
		return service.Order{}, service.ErrNotFound
	}
	return *o, nil
}

// Reservation returns a reservation of the customer.
func (s *Store) Reservation(ctx context.Context, customer, id string) (service.Reservation, error) {
	r, err := reservationOf(s.db.WithContext(ctx), id)
	if err != nil {
		return service.Reservation{}, explain(err)
	}
	if r == nil || r.Customer != customer {
		return service.Reservation{}, service.ErrNotFound
	}
	return *r, nil
}

// A place in a list of orders. As a cursor it is opaque.
type place struct {
	At time.Time
	ID string
}

// Orders returns a page of the customer's orders, the newest first, and the cursor of the next page; "": none.
func (s *Store) Orders(ctx context.Context, customer, cursor string, limit int) ([]service.Order, string, error) {
	db := s.db.WithContext(ctx)
	query := db.Where("customer = ?", customer)
	if cursor != "" {
		var p place
		text, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || json.Unmarshal(text, &p) != nil {
			return nil, "", service.ErrCursor
		}
		query = query.Where("created_at < ? OR (created_at = ? AND id < ?)", p.At, p.At, p.ID)
	}
	var page []service.Order
	// One more than limit shows whether there is a next page.
	if err := query.Order("created_at DESC, id DESC").Limit(limit + 1).Find(&page).Error; err != nil {
		return nil, "", explain(err)
	}
	next := ""
	if len(page) > limit {
		page = page[:limit]
		text, err := json.Marshal(place{page[limit-1].CreatedAt, page[limit-1].ID})
		if err != nil {
			return nil, "", err
		}
		next = base64.RawURLEncoding.EncodeToString(text)
	}
	ids := make([]string, len(page))
	for i, o := range page {
		ids[i] = o.ID
	}
	lines, err := cartLines(db, ids...)
	for i := range page {
		page[i].Lines = lines[page[i].ID]
	}
	return page, next, explain(err)
}

// orderOf returns nil if there is no such order.
func orderOf(db *gorm.DB, id string) (*service.Order, error) {
	var rows []service.Order
	if err := db.Find(&rows, "id = ?", id).Error; err != nil || len(rows) == 0 {
		return nil, err
	}
	lines, err := cartLines(db, id)
	rows[0].Lines = lines[id]
	return &rows[0], err
}

// reservationOf returns nil if there is no such reservation.
func reservationOf(db *gorm.DB, id string) (*service.Reservation, error) {
	var rows []service.Reservation
	if err := db.Find(&rows, "id = ?", id).Error; err != nil || len(rows) == 0 {
		return nil, err
	}
	lines, err := cartLines(db, id)
	rows[0].Lines = lines[id]
	return &rows[0], err
}

// cartLines returns the lines of each owner, sorted by SKU.
func cartLines(db *gorm.DB, owners ...string) (map[string][]service.Line, error) {
	var rows []cartLine
	lines := make(map[string][]service.Line, len(owners))
	if len(owners) == 0 {
		return lines, nil
	}
	if err := db.Where("owner_id IN ?", owners).Order("owner_id, sku").Find(&rows).Error; err != nil {
		return nil, err
	}
	for _, row := range rows {
		lines[row.OwnerID] = append(lines[row.OwnerID], row.Line)
	}
	return lines, nil
}
