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
	const doing = "settle order"
	made, err := madeAt(id)
	if err != nil {
		return service.Order{}, false, err
	}
	leave, err := m.Enter(ctx, doing)
	if err != nil {
		return service.Order{}, false, err
	}
	defer leave()
	if _, err := selectRow(m.On(ctx), sku, unlocked); err != nil {
		return service.Order{}, false, repo.Explain(ctx, doing, err)
	}
	row, found, err := m.lookUp(ctx, doing, sku, id)
	if err != nil || found {
		return row.order(), err == nil && row.Strategy != tombstone, err
	}
	err = m.insertTombstone(ctx, doing, sku, id, made)
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		// The existing row is committed, because otherwise the server would have waited for its transaction.
		row, found, err = m.lookUp(ctx, doing, sku, id)
		if err == nil && !found {
			err = service.ErrUndecided // the row was removed in between
		}
		return row.order(), err == nil && row.Strategy != tombstone, err
	}
	if err != nil {
		return service.Order{}, false, err
	}
	m.forget(ctx, sku, 1)
	return service.Order{}, false, nil
}

// lookUp finds the committed row with this id, an order or a tombstone.
func (m *MySQL) lookUp(
	ctx context.Context, doing string, sku service.SKU, id string,
) (row orderRow, found bool, err error) {
	var rows []orderRow
	if err := m.On(ctx).Where("id = ?", id).Limit(1).Find(&rows).Error; err != nil {
		return row, false, repo.MySQLFault(ctx, doing, err)
	}
	if len(rows) == 0 {
		return row, false, nil
	}
	if rows[0].SKU != string(sku) {
		return row, false, service.Invalid("order_id", "other-order")
	}
	return rows[0], true, nil
}

// insertTombstone inserts the tombstone. An error with the number DupEntry means that the id exists. After any other
// error the tombstone may exist or not.
func (m *MySQL) insertTombstone(ctx context.Context, doing string, sku service.SKU, id string, made time.Time) error {
	began := false
	err := m.On(ctx).Connection(func(tx *gorm.DB) (err error) {
		began = true
		tx = tx.Session(&gorm.Session{NewDB: true})
		var old bool
		var there int
		// An order that is too old to be written may also have been removed.
		err = tx.Raw("SELECT ? < UTC_TIMESTAMP(6) - INTERVAL ? SECOND,"+
			" (SELECT COUNT(*) FROM orders WHERE sku = ? AND epoch = 0)",
			made.UTC(), int(writeWithin.Seconds()), string(sku)).Row().Scan(&old, &there)
		switch {
		case err != nil:
			return repo.MySQLFault(ctx, doing, err)
		case old:
			return service.ErrTooOld
		case there >= repo.MaxSettled:
			return repo.ErrTooManySettled
		}
		_, err = repo.Send(tx, fmt.Sprintf("SET @lock_wait = @@innodb_lock_wait_timeout,"+
			" SESSION innodb_lock_wait_timeout = %d", settleLockWait))
		if err == nil {
			defer func() {
				if _, undo := repo.Send(tx, "SET SESSION innodb_lock_wait_timeout = @lock_wait"); undo != nil {
					repo.Discard(tx)
				}
			}()
			_, err = repo.Send(tx, "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read,"+
				" quantity_left, strategy, instance, request_id, fence, segment, created_at)"+
				" VALUES (?, ?, 0, 0, 0, 0, 0, ?, '', '', 0, 0, UTC_TIMESTAMP(6))", id, string(sku), tombstone)
		}
		switch n := mysqlerr.Number(err); {
		case n == mysqlerr.DupEntry:
			return err
		case n == mysqlerr.LockWaitTimeout, repo.Deadlocked(err):
			// Several calls for the same id deadlock if the order that they wait for is rolled back.
			return fmt.Errorf("%s: %w: %w", doing, service.ErrUndecided, err)
		}
		return repo.MySQLFault(ctx, doing, err)
	})
	if !began {
		err = repo.MySQLFault(ctx, doing, err)
	}
	return err
}
