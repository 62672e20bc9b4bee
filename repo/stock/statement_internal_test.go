package stock

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/google/uuid"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"example.com/stock/service"
)

// A nowhere is a connection that executes nothing, so that the benchmark measures only the making of statements.
type nowhere struct{ gorm.ConnPool }

func (nowhere) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return oneRow{}, nil
}

type oneRow struct{}

func (oneRow) LastInsertId() (int64, error) { return 1, nil }
func (oneRow) RowsAffected() (int64, error) { return 1, nil }

// BenchmarkStatement compares the two statements that write a sale, made by hand and by gorm. The server and the
// driver do the same work for both.
func BenchmarkStatement(b *testing.B) {
	db, err := gorm.Open(
		gormmysql.New(gormmysql.Config{Conn: nowhere{}, SkipInitializeWithVersion: true}),
		&gorm.Config{DisableAutomaticPing: true, SkipDefaultTransaction: true, Logger: logger.Discard},
	)
	if err != nil {
		b.Fatal(err)
	}
	o := service.Order{
		ID: uuid.NewString(), SKU: "sku", Quantity: 1, Read: 10, Remaining: 9, Version: 3, Epoch: 1,
		Strategy: "zk-sequential", Instance: "app-1", RequestID: "r-1", Fence: 7, CreatedAt: time.Now(),
	}
	for name, write := range map[string]func(*gorm.DB, service.Order) error{
		"by-hand": func(tx *gorm.DB, o service.Order) error { return write(tx, o, sameVersion) },
		"gorm":    writeByGORM,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			tx := db.WithContext(b.Context())
			for b.Loop() {
				if err := write(tx, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func writeByGORM(tx *gorm.DB, o service.Order) error {
	err := tx.Model(&stockRow{}).
		Where("sku = ? AND guard IN ('', ?) AND epoch = ? AND fence <= ? AND version = ? AND quantity = ?",
			string(o.SKU), o.Strategy, o.Epoch, o.Fence, o.Version, o.Read).
		Where("? > UTC_TIMESTAMP(6)", writtenBy(o).UTC()).
		Updates(map[string]any{
			"quantity": o.Remaining, "sold": gorm.Expr("sold + ?", o.Quantity),
			"version": gorm.Expr("version + 1"), "guard": o.Strategy, "fence": o.Fence,
		}).Error
	if err != nil {
		return err
	}
	return tx.Create(&orderRow{
		ID: o.ID, SKU: string(o.SKU), Epoch: o.Epoch, Version: o.Version, Quantity: o.Quantity, Read: o.Read,
		Remaining: o.Remaining, Strategy: o.Strategy, Instance: o.Instance, RequestID: o.RequestID, Fence: o.Fence,
		Segment: o.Segment, CreatedAt: o.CreatedAt.UTC(),
	}).Error
}
