package stock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Origin takes one round trip.
func (m *MySQL) Origin(ctx context.Context) (service.Origin, error) {
	return m.originOf(ctx, "read the origin", "")
}

// Recall takes one round trip.
func (m *MySQL) Recall(ctx context.Context, store string) (service.Origin, error) {
	return m.originOf(ctx, "recall an origin", remembered(store))
}

func (m *MySQL) originOf(ctx context.Context, doing, name string) (o service.Origin, err error) {
	query := m.On(ctx).Raw("SELECT id, generation, lost FROM origins WHERE name = ?", name)
	if query.Error != nil {
		return o, repo.Explain(ctx, doing, query.Error)
	}
	err = query.Row().Scan(&o.ID, &o.Generation, &o.Lost)
	if errors.Is(err, sql.ErrNoRows) {
		return service.Origin{}, nil
	}
	return o, repo.Explain(ctx, doing, err)
}

// Replace takes one round trip, for a statement that is its own transaction.
func (m *MySQL) Replace(ctx context.Context, was, is service.Origin) (bool, error) {
	const doing = "record the origin"
	if was.None() {
		return m.note(ctx, doing, "INSERT IGNORE INTO origins (name, id, generation, lost) VALUES ('', ?, ?, ?)",
			is.ID, is.Generation, is.Lost)
	}
	return m.note(ctx, doing, "UPDATE origins SET id = ?, generation = ?, lost = ? "+
		"WHERE name = '' AND id = ? AND generation = ? AND lost = ?",
		is.ID, is.Generation, is.Lost, was.ID, was.Generation, was.Lost)
}

// Seed takes three round trips, or four if the SKU was not seeded. One transaction records the seeding and creates
// the SKU.
func (m *MySQL) Seed(ctx context.Context, o service.Origin, sku service.SKU, quantity int64) error {
	const doing = "seed stock"
	if err := repo.CheckQuantity("quantity", quantity); err != nil {
		return err
	}
	leave, err := m.Enter(ctx, doing)
	if err != nil {
		return err
	}
	defer leave()
	return m.Transaction(ctx, doing, func(tx *gorm.DB) error {
		noted := tx.Exec("INSERT IGNORE INTO origins (name, id, generation, lost) "+
			"SELECT ?, id, generation, 0 FROM origins WHERE name = '' AND id = ? AND lost = 0",
			"seeded:"+string(sku), o.ID)
		if noted.Error != nil || noted.RowsAffected == 0 {
			return repo.Explain(ctx, doing, noted.Error)
		}
		made := tx.Model(&stockRow{}).Clauses(clause.OnConflict{DoNothing: true}).Create(freshStock(sku, quantity))
		return repo.Explain(ctx, doing, made.Error)
	})
}

// Remember takes one round trip. generation is assigned last, because MySQL evaluates an assignment with the new
// values of the columns to its left.
func (m *MySQL) Remember(ctx context.Context, store string, o service.Origin) error {
	_, err := m.note(ctx, "remember an origin", "INSERT INTO origins (name, id, generation, lost) VALUES (?, ?, ?, 0) "+
		"ON DUPLICATE KEY UPDATE id = IF(generation < VALUES(generation), VALUES(id), id), "+
		"generation = GREATEST(generation, VALUES(generation))",
		remembered(store), o.ID, o.Generation)
	return err
}

// note executes an idempotent statement, and reports whether it has changed anything.
func (m *MySQL) note(ctx context.Context, doing, text string, args ...any) (bool, error) {
	done := m.On(ctx).Exec(text, args...)
	return done.RowsAffected > 0, repo.Explain(ctx, doing, done.Error)
}

// remembered returns the name of the row of another store's origin. It is a digest, because an address may be longer
// than the column.
func remembered(store string) string {
	sum := sha256.Sum256([]byte(store))
	return "store:" + hex.EncodeToString(sum[:])
}
