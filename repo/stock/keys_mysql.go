package stock

import (
	"context"

	"gorm.io/gorm"

	"example.com/stock/service"
)

// Replay takes one round trip. One unique index has the keys of all SKUs, so Replay also finds a key that was used
// for another SKU, with another fingerprint.
func (m *MySQL) Replay(ctx context.Context, _ service.SKU, key service.Key) (o service.Order, found bool, err error) {
	var rows []struct {
		Order       orderRow `gorm:"embedded"`
		Fingerprint string   `gorm:"column:fingerprint"`
	}
	err = m.Ask(ctx, "look for the order of a key", func(db *gorm.DB) error {
		return db.Raw("SELECT * FROM orders WHERE idempotency_key = ?", key.ID).Scan(&rows).Error
	})
	switch {
	case err != nil || len(rows) == 0:
		return o, false, err
	case rows[0].Fingerprint != key.Fingerprint:
		return o, false, service.ErrKeyReused
	}
	return rows[0].Order.order(), true, nil
}
