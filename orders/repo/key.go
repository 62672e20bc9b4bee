package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"example.com/stock/orders/service"
)

// A Key is an idempotency key.
type Key struct {
	ID          [32]byte // of the key, its customer and the operation
	Fingerprint [32]byte // of the whole request
}

// NoKey is that of a request without one.
var NoKey Key

func writeKey(tx *gorm.DB, state service.State, r service.Result, key Key) error {
	if key == NoKey {
		return nil
	}
	reply, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return tx.Create(&idempotencyKey{key.ID[:], key.Fingerprint[:], reply, state.Now}).Error
}

// answered returns what the key has answered before, or else cause. It is called after a refusal and after a duplicate
// key, and not before each step: most keys are new, and INSERT finds the others.
func (s *Store) answered(ctx context.Context, key Key, cause error) (r service.Result, replayed bool, err error) {
	if key == NoKey || number(cause) != duplicate && isDatabase(cause) {
		return r, false, cause
	}
	var row idempotencyKey
	err = s.db.WithContext(ctx).Take(&row, "id = ?", key.ID[:]).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return r, false, cause
	case err != nil:
		return r, false, err
	case [32]byte(row.Fingerprint) != key.Fingerprint:
		return r, false, service.ErrKeyReused
	}
	if err := json.Unmarshal(row.Reply, &r); err != nil {
		return r, false, fmt.Errorf("the answer of an idempotency key: %w", err)
	}
	return r, true, nil
}

// Forget removes at most limit keys that are older than age. It finds them without locks, and deletes by id: a DELETE
// of a range of times would lock the place where steps insert.
func (s *Store) Forget(ctx context.Context, age time.Duration, limit int) (int, error) {
	var ids [][]byte
	db := s.db.WithContext(ctx)
	err := db.Model(&idempotencyKey{}).Where("created_at < NOW(6) - INTERVAL ? SECOND", age.Seconds()).
		Limit(limit).Pluck("id", &ids).Error
	if err != nil || len(ids) == 0 {
		return 0, explain(err)
	}
	done := db.Delete(&idempotencyKey{}, "id IN ?", ids)
	return int(done.RowsAffected), explain(done.Error)
}
