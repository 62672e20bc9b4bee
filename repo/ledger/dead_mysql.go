package ledger

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

type deadRow struct {
	SKU      string    `gorm:"column:sku;primaryKey"`
	Number   uint64    `gorm:"column:number"`
	Attempts int       `gorm:"column:attempts"`
	Reason   string    `gorm:"column:reason"`
	ParkedAt time.Time `gorm:"column:parked_at"`
	Decision string    `gorm:"column:verdict"`
}

func (deadRow) TableName() string { return "dead_letters" }

var _ order.DeadLetters = (*MySQL)(nil)

// deadGate is the gate's key for the dead letters. It has a blank, so it is not the key of a SKU.
const deadGate = "dead letters"

// Park takes one round trip.
func (l *MySQL) Park(ctx context.Context, d order.DeadLetter) error {
	const doing = "park an event"
	return l.deadLetter(ctx, doing, func(db *gorm.DB) *gorm.DB {
		return db.Exec("INSERT INTO dead_letters (sku, number, attempts, reason, parked_at, verdict, version)"+
			" VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6), '', 1) ON DUPLICATE KEY UPDATE number = VALUES(number),"+
			" attempts = VALUES(attempts), reason = VALUES(reason), parked_at = VALUES(parked_at), verdict = '',"+
			" version = version + 1", string(d.SKU), d.Number, d.Attempts, d.Reason)
	})
}

// Parked takes one round trip.
func (l *MySQL) Parked(ctx context.Context, after service.SKU, limit int) ([]order.DeadLetter, error) {
	const doing = "read the dead letters"
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	leave, err := l.mysql.Enter(ctx, doing, deadGate)
	if err != nil {
		return nil, err
	}
	defer leave()
	var rows []deadRow
	err = l.mysql.On(ctx).Where("sku > ?", string(after)).Order("sku").Limit(limit).Find(&rows).Error
	l.mysql.CountAnswer(repo.MySQLFault(ctx, doing, err))
	if err != nil {
		return nil, repo.MySQLFault(ctx, doing, err)
	}
	letters := make([]order.DeadLetter, len(rows))
	for i, r := range rows {
		letters[i] = order.DeadLetter{
			SKU: service.SKU(r.SKU), Number: r.Number, Attempts: r.Attempts, Reason: r.Reason, ParkedAt: r.ParkedAt,
			Decision: order.Decision(r.Decision),
		}
	}
	return letters, nil
}

// Decide takes one round trip.
func (l *MySQL) Decide(ctx context.Context, sku service.SKU, number uint64, v order.Decision) error {
	const doing = "decide on a dead letter"
	changed := int64(0)
	err := l.deadLetter(ctx, doing, func(db *gorm.DB) *gorm.DB {
		if v == order.Settled {
			db = db.Exec("DELETE FROM dead_letters WHERE sku = ? AND number = ?", string(sku), number)
		} else {
			db = db.Exec("UPDATE dead_letters SET verdict = ?, version = version + 1 WHERE sku = ? AND number = ?",
				string(v), string(sku), number)
		}
		changed = db.RowsAffected
		return db
	})
	if err == nil && changed == 0 {
		return fmt.Errorf("%s/%d: %w", sku, number, order.ErrNoDeadLetter)
	}
	return err
}

// deadLetter runs one statement, which is its own transaction. If the server does not answer, the error matches
// service.ErrOutcomeUnknown.
func (l *MySQL) deadLetter(ctx context.Context, doing string, do func(*gorm.DB) *gorm.DB) error {
	leave, err := l.mysql.Enter(ctx, doing, deadGate)
	if err != nil {
		return err
	}
	defer leave()
	err = do(l.mysql.On(ctx)).Error
	if err != nil && mysqlerr.Number(err) == 0 {
		// The statement may not even have been sent. Callers may repeat it anyway.
		return repo.OutcomeUnknown(doing, err)
	}
	err = repo.MySQLFault(ctx, doing, err)
	l.mysql.CountAnswer(err)
	return err
}
