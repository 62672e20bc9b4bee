package repo

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"example.com/stock/mysqlerr"
	"example.com/stock/service"
)

// tombstone is the strategy of a row in orders that is none: it takes the id, so that the order cannot. Its epoch is 0,
// which no stock has, and its quantity 0: it is on no page and in no sum.
const tombstone = "tombstone"

// settlePatience is how long, in seconds, the server lets Settle wait for a transaction that is writing the order.
const settlePatience = 1

// Settle takes the order's id by a row of its own, unless the order is there. The unique key orders_id makes the server
// serialise the two: an insert of the order that is under way, whoever still listens, is waited for, and one that comes
// later finds the id taken. The transaction of that sale is rolled back as a whole.
//
// It is two round trips where the order is there, six where it is not, and two for each 1000 tombstones that are old.
// Where a transaction with the order stays open for longer than a second, such as one whose COMMIT waits for a replica,
// it fails with service.ErrUndecided.
//
// What the answer rests on: a tombstone is kept for KeepOrders by the server's clock, and the server takes no order
// that was made longer ago than half of that, on whatever connection it comes; a transaction in which nothing happens
// is ended after wait_timeout, 8 h. So it holds while the clocks of the server and of the instances differ by less than
// a few hours. It does not hold after a failover that loses the last commits, or when an old state is restored.
func (m *MySQL) Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error) {
	const doing = "settle order"
	made, err := madeAt(id)
	if err != nil {
		return service.Order{}, false, err
	}
	leave, err := m.enter(ctx, doing, "settle "+string(sku)) // apart from sales, which must not wait for this
	if err != nil {
		return service.Order{}, false, err
	}
	defer leave()
	if _, err := take(m.db.WithContext(ctx), sku, unlocked); err != nil {
		return service.Order{}, false, explain(ctx, doing, err)
	}
	row, found, err := m.lookUp(ctx, doing, sku, id)
	if err != nil || found {
		return row.order(), err == nil && row.Strategy != tombstone, err
	}
	err = m.bury(ctx, doing, sku, id, made)
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		// It is committed: otherwise the server would have waited for that.
		row, found, err = m.lookUp(ctx, doing, sku, id)
		if err == nil && !found {
			err = service.ErrUndecided // it was removed in between
		}
		return row.order(), err == nil && row.Strategy != tombstone, err
	}
	if err != nil {
		return service.Order{}, false, err
	}
	m.forget(ctx, sku, 1)
	return service.Order{}, false, nil
}

// lookUp finds the row with that id, an order or a tombstone. Whatever is read is committed.
func (m *MySQL) lookUp(
	ctx context.Context, doing string, sku service.SKU, id string,
) (row orderRow, found bool, err error) {
	var rows []orderRow
	if err := m.db.WithContext(ctx).Where("id = ?", id).Limit(1).Find(&rows).Error; err != nil {
		return row, false, mysqlFault(ctx, doing, err)
	}
	if len(rows) == 0 {
		return row, false, nil
	}
	if rows[0].SKU != string(sku) {
		return row, false, &service.InvalidError{Field: "order_id", Reason: "is that of another SKU's order"}
	}
	return rows[0], true, nil
}

// bury writes the tombstone. An error with the number DupEntry means that the id is taken. All others leave it open
// whether the tombstone is there.
func (m *MySQL) bury(ctx context.Context, doing string, sku service.SKU, id string, made time.Time) error {
	began := false
	err := m.db.WithContext(ctx).Connection(func(tx *gorm.DB) (err error) {
		began = true
		tx = tx.Session(&gorm.Session{NewDB: true})
		var old bool
		var there int
		// An order as old may have been removed; one as old cannot be written, either.
		err = tx.Raw("SELECT ? < UTC_TIMESTAMP(6) - INTERVAL ? SECOND,"+
			" (SELECT COUNT(*) FROM orders WHERE sku = ? AND epoch = 0)",
			made.UTC(), int(writeWithin.Seconds()), string(sku)).Row().Scan(&old, &there)
		switch {
		case err != nil:
			return mysqlFault(ctx, doing, err)
		case old:
			return service.ErrTooOld
		case there >= maxSettled:
			return errTooManySettled
		}
		_, err = send(tx, fmt.Sprintf("SET @patience = @@innodb_lock_wait_timeout,"+
			" SESSION innodb_lock_wait_timeout = %d", settlePatience))
		if err == nil {
			defer func() {
				if _, undo := send(tx, "SET SESSION innodb_lock_wait_timeout = @patience"); undo != nil {
					discard(tx)
				}
			}()
			_, err = send(tx, "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left,"+
				" strategy, instance, request_id, fence, segment, created_at)"+
				" VALUES (?, ?, 0, 0, 0, 0, 0, ?, '', '', 0, 0, UTC_TIMESTAMP(6))", id, string(sku), tombstone)
		}
		switch n := mysqlerr.Number(err); {
		case n == mysqlerr.DupEntry:
			return err
		case n == mysqlerr.LockWaitTimeout, deadlocked(err):
			// A deadlock is one of those who settle the same id, when the order that they waited for was rolled back.
			return fmt.Errorf("%s: %w: %w", doing, service.ErrUndecided, err)
		}
		return mysqlFault(ctx, doing, err)
	})
	if !began {
		err = mysqlFault(ctx, doing, err)
	}
	return err
}

// taken is what a sale answers whose order's id is taken.
func taken(err error) error {
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		return fmt.Errorf("%w: %w", service.ErrSettled, err)
	}
	return err
}

var _ service.Settler = (*MySQL)(nil)
