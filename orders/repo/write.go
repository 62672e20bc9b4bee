package repo

import (
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/orders/service"
)

// write writes the key last: a step that waits for another one with the same key has locked everything else by then.
func (s *Store) write(tx *gorm.DB, state service.State, c service.Changes, key Key) error {
	if c.Unchanged {
		return writeKey(tx, state, c.Result, key)
	}
	if len(c.Levels) > 0 {
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&c.Levels).Error; err != nil {
			return err
		}
	}
	if len(c.Movements) > 0 {
		if err := tx.Create(&c.Movements).Error; err != nil {
			return err
		}
	}
	if o := c.Order; o != nil {
		was := ""
		if state.Order != nil {
			was = state.Order.State
		}
		if err := save(tx, o, was, o.ID, o.Lines); err != nil {
			return err
		}
	}
	if r := c.Reservation; r != nil {
		was := ""
		if state.Reservation != nil {
			was = state.Reservation.State
		}
		if err := save(tx, r, was, r.ID, r.Lines); err != nil {
			return err
		}
	}
	if s.o.Events && len(c.Movements) > 0 {
		if err := writeEvents(tx, c.Movements); err != nil {
			return err
		}
	}
	return writeKey(tx, state, c.Result, key)
}

// save inserts the row of an order or a reservation, with its lines, or updates it if its state still is was. The lines
// never change.
func save(tx *gorm.DB, row any, was, id string, lines []service.Line) error {
	if was == "" {
		if err := tx.Create(row).Error; err != nil {
			return err
		}
		rows := linesOf(id, lines)
		return tx.Create(&rows).Error
	}
	done := tx.Model(row).Where("state = ?", was).Select("*").Updates(row)
	if done.Error == nil && done.RowsAffected != 1 {
		return fmt.Errorf("%w: %s is not %s any more", service.ErrUnbalanced, id, was)
	}
	return done.Error
}

func writeEvents(tx *gorm.DB, movements []service.Movement) error {
	rows := make([]service.Event, len(movements))
	for i, m := range movements {
		body, err := json.Marshal(m)
		if err != nil {
			return err
		}
		rows[i] = service.Event{SKU: m.SKU, Number: m.Number, Body: body, Due: &m.At}
	}
	return tx.Table("outbox").Create(&rows).Error
}
