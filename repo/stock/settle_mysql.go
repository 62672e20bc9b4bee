package stock

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// tombstone is the strategy of a row in orders that is not an order but prevents the insertion of an order with its id.
// Its epoch is 0, which no stock has, and its quantity is 0, so it is on no page and in no sum.
const tombstone = "tombstone"

// settleLockWait is how long, in seconds, Settle waits at the server for a transaction that is writing the order.
const settleLockWait = 1

// Settle returns the order, or inserts a tombstone with its id if the order does not exist. The unique key orders_id
// makes the server serialise the two inserts. If an insert of the order is under way, even by a client that has
// disconnected, Settle waits for it. A later insert finds that the id exists, and its sale is rolled back.
//
// It takes two round trips if the order exists, six if it does not, and two for each 1000 old tombstones that it
// removes. It fails with service.ErrUndecided if a transaction with the order stays open for more than a second, such
// as one whose COMMIT waits for a replica.
//
// A tombstone is kept for KeepOrders by the server's clock. The server refuses an order that is older than half of
// KeepOrders, and ends an idle transaction after wait_timeout, 8 h. So the answer of Settle is final if the clocks of
// the server and of the instances differ by less than a few hours. It is not final after a failover that loses the last
// commits, or after a backup was restored.
func (m *MySQL) Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error) {
	made, err := madeAt(id)
	if err != nil {
		return service.Order{}, false, err
	}
	var row orderRow
	err = m.Ask(ctx, "settle order", func(db *gorm.DB) error {
		_, err := selectRow(db, sku, unlocked)
		if err == nil {
			row, err = lookUp(db, sku, id)
		}
		if err != nil || row.ID != "" {
			return err
		}
		err = insertTombstone(db, sku, id, made)
		if mysqlerr.Number(err) == mysqlerr.DupEntry {
			// The existing row is committed, because otherwise the server would have waited for its transaction.
			row, err = lookUp(db, sku, id)
			if err == nil && row.ID == "" {
				err = service.ErrUndecided // the row was removed in between
			}
		}
		return err
	})
	switch {
	case err != nil:
		return service.Order{}, false, err
	case row.ID == "":
		m.forget(ctx, sku, 1)
	}
	return row.order(), row.ID != "" && row.Strategy != tombstone, nil
}

// lookUp returns the committed row with this id, an order or a tombstone, or a zero row if there is none.
func lookUp(db *gorm.DB, sku service.SKU, id string) (row orderRow, err error) {
	err = db.Where("id = ?", id).Limit(1).Find(&row).Error
	if err == nil && row.ID != "" && row.SKU != string(sku) {
		err = service.Invalid("order_id", "other-order")
	}
	return row, err
}

// insertTombstone inserts the tombstone. An error with the number DupEntry means that the id exists. After any other
// error the tombstone may exist or not.
func insertTombstone(db *gorm.DB, sku service.SKU, id string, made time.Time) error {
	return db.Connection(func(tx *gorm.DB) error {
		tx = tx.Session(&gorm.Session{NewDB: true})
		var old bool
		var there int
		// An order that is too old to be written may also have been removed.
		err := tx.Raw("SELECT ? < UTC_TIMESTAMP(6) - INTERVAL ? SECOND,"+
			" (SELECT COUNT(*) FROM orders WHERE sku = ? AND epoch = 0)",
			made.UTC(), int(writeWithin.Seconds()), string(sku)).Row().Scan(&old, &there)
		switch {
		case err != nil:
			return err
		case old:
			return service.ErrTooOld
		case there >= maxSettled:
			return errTooManySettled
		}
		_, err = repo.Send(tx, fmt.Sprintf("SET @lock_wait = @@innodb_lock_wait_timeout,"+
			" SESSION innodb_lock_wait_timeout = %d", settleLockWait))
		if err != nil {
			return err
		}
		defer func() {
			if _, undo := repo.Send(tx, "SET SESSION innodb_lock_wait_timeout = @lock_wait"); undo != nil {
				repo.Discard(tx)
			}
		}()
		_, err = repo.Send(tx, "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read,"+
			" quantity_left, strategy, instance, request_id, fence, segment, created_at)"+
			" VALUES (?, ?, 0, 0, 0, 0, 0, ?, '', '', 0, 0, UTC_TIMESTAMP(6))", id, string(sku), tombstone)
		if mysqlerr.Number(err) == mysqlerr.LockWaitTimeout || repo.Deadlocked(err) {
			// Several calls for the same id deadlock if the order that they wait for is rolled back.
			return fmt.Errorf("%w: %w", service.ErrUndecided, err)
		}
		return err
	})
}
