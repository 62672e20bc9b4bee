package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/orders/service"
)

// Errors of a person's decision about an event.
var (
	ErrNoEvent   = errors.New("no such event in the outbox: it was sent or skipped, or there never was one")
	ErrNotParked = errors.New("the event is not parked: it is sent without a decision")
)

// reasonSize is how many characters the column reason takes.
const reasonSize = 255

// Deliver locks up to limit events that are due, calls deliver with them, and records what became of each. It is one
// transaction, so of any number of senders one has an event. If this process dies, the server unlocks the rows, and
// another sender sends them again.
//
// The transaction is open while deliver runs. At READ COMMITTED it has locked the rows that it has taken, and not the
// gaps between them: at REPEATABLE READ every sale would wait for the receiver, because it inserts there.
func (s *Store) Deliver(ctx context.Context, limit int, deliver func([]*service.Delivery)) (sent int, err error) {
	tx := s.db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return 0, explain(tx.Error)
	}
	defer tx.Rollback() // does nothing after COMMIT
	batch, err := take(tx, limit)
	if err != nil || len(batch) == 0 {
		return 0, explain(err)
	}
	if err := s.makeDurable(ctx); err != nil {
		return 0, explain(err)
	}
	deliver(batch)
	// After an error no statement follows: a deadlock ends the transaction, and the next one would be outside of it.
	if sent, err = settle(tx, batch); err != nil {
		return 0, explain(err)
	}
	if err := tx.Commit().Error; err != nil {
		return 0, explain(commitError(err))
	}
	return sent, nil
}

// makeDurable returns when all that was visible is on the disk. Without a binary log, the server shows a commit to
// others before it has written its log. An event that was sent then, and lost with the server, was followed by another
// one with its number, which receivers would drop. The log is in the order of commits, so to wait for a later one is
// enough. It uses another connection than the batch.
func (s *Store) makeDurable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answer) // if senders have all the connections
	defer cancel()
	return s.db.WithContext(ctx).Exec("INSERT INTO outbox_barrier VALUES (1, SYSDATE(6))" +
		" ON DUPLICATE KEY UPDATE at = SYSDATE(6)").Error
}

// take locks the next events that nobody has locked, and then looks which events before them are in the outbox. Those
// that are gone were sent. An event is written while the row of its SKU is locked, so the one before it was committed
// earlier, and no row that is committed late can be passed; no order of row ids is used.
//
// The second statement must be another one: the first can lock rows that are newer than its snapshot, and with the
// check in the same statement, 3,985 events came out of order. FORCE INDEX: the server would scan a small table and
// lock all its rows, and the next sender would get none. SYSDATE, unlike UTC_TIMESTAMP, finds nothing by an index.
func take(tx *gorm.DB, limit int) (batch []*service.Delivery, err error) {
	err = tx.Table("outbox FORCE INDEX (outbox_due)").Where("due <= UTC_TIMESTAMP(6)").Order("due, id").
		Limit(limit).Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Find(&batch).Error
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	ids, byID := make([]int64, len(batch)), make(map[int64]*service.Delivery, len(batch))
	for i, d := range batch {
		ids[i], byID[d.ID] = d.ID, d
	}
	var behind []struct{ ID, Micros int64 }
	err = tx.Raw("SELECT STRAIGHT_JOIN o.id,"+
		" COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), p.due), ?) AS micros"+
		" FROM outbox o FORCE INDEX (PRIMARY) JOIN outbox p FORCE INDEX (outbox_order)"+
		" ON p.sku = o.sku AND p.number = o.number - 1 WHERE o.id IN ? AND p.id NOT IN ?",
		time.Hour.Microseconds(), ids, ids).Scan(&behind).Error
	for _, b := range behind {
		d := byID[b.ID]
		d.Behind, d.Wait = true, max(0, time.Duration(b.Micros)*time.Microsecond)
	}
	return batch, err
}

// listed joins the outbox with a list of rows in JSON, and looks each of them up. With "id IN (...)" the server scans a
// small table in spite of FORCE INDEX, and a DELETE waits for every row that it meets and another has written and not
// yet committed.
const listed = "JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$.id', refusals INT PATH '$.refusals'," +
	" reason VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.reason', wait BIGINT PATH '$.wait')) x" +
	" STRAIGHT_JOIN outbox o FORCE INDEX (PRIMARY) ON o.id = x.id"

// A listedRow is one of the list.
type listedRow struct {
	ID       int64  `json:"id"`
	Refusals int    `json:"refusals"`
	Reason   string `json:"reason"`
	Wait     *int64 `json:"wait,omitempty"` // in microseconds; absent: it is due when a person says so
}

// settle removes what was sent, and writes when the others are due again.
func settle(tx *gorm.DB, batch []*service.Delivery) (int, error) {
	var sent, left []listedRow
	for _, d := range batch {
		row, wait := listedRow{ID: d.ID, Refusals: d.Refusals, Reason: d.Reason}, d.Wait.Microseconds()
		if text := []rune(d.Reason); len(text) > reasonSize {
			row.Reason = string(text[:reasonSize])
		}
		switch {
		case d.Sent:
			sent = append(sent, row)
		case d.Parked:
			left = append(left, row)
		case wait > 0:
			row.Wait = &wait
			left = append(left, row)
		}
	}
	if _, err := execListed(tx, "DELETE o FROM "+listed, sent...); err != nil {
		return 0, err
	}
	_, err := execListed(tx, "UPDATE "+listed+" SET o.refusals = x.refusals, o.reason = x.reason,"+
		" o.due = UTC_TIMESTAMP(6) + INTERVAL x.wait MICROSECOND", left...)
	return len(sent), err
}

// execListed returns how many rows have changed.
func execListed(db *gorm.DB, query string, rows ...listedRow) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return 0, err
	}
	done := db.Exec(query, string(list))
	return done.RowsAffected, done.Error
}

// List returns the oldest parked events, 100 at most.
func (s *Store) List(ctx context.Context) (events []service.Event, err error) {
	err = s.db.WithContext(ctx).Table("outbox").Where("due IS NULL").Order("id").Limit(100).Find(&events).Error
	return events, explain(err)
}

// Retry lets a parked event be sent again, with a new count of refusals.
func (s *Store) Retry(ctx context.Context, event string) error {
	return s.decide(ctx, event, "UPDATE "+listed+" SET o.refusals = 0, o.due = UTC_TIMESTAMP(6) WHERE o.due IS NULL")
}

// Skip removes a parked event unsent. Then the receiver sees a gap in the numbers of its SKU.
func (s *Store) Skip(ctx context.Context, event string) error {
	return s.decide(ctx, event, "DELETE o FROM "+listed+" WHERE o.due IS NULL")
}

// decide finds the row without a lock, and changes it by its id. By another index it would lock the entry there first
// and then the row, a sender locks them the other way round, and they would deadlock.
func (s *Store) decide(ctx context.Context, event, query string) error {
	sku, number, ok := service.Named(event)
	if !ok {
		return fmt.Errorf("%q is not the name of an event, such as SKU.7: %w", event, ErrNoEvent)
	}
	db := s.db.WithContext(ctx)
	var rows []service.Event
	if err := db.Table("outbox").Find(&rows, "sku = ? AND number = ?", sku, number).Error; err != nil {
		return explain(err)
	}
	if len(rows) == 0 {
		return fmt.Errorf("%s: %w", event, ErrNoEvent)
	}
	switch changed, err := execListed(db, query, listedRow{ID: rows[0].ID}); {
	case err != nil:
		return explain(err)
	case changed == 0:
		return fmt.Errorf("%s: %w", event, ErrNotParked)
	}
	return nil
}

// Backlog measures the outbox. How late it is, is told by the age of a movement and not by when its event is due: that
// is put off at each attempt, so after days without a receiver no event would be late.
func (s *Store) Backlog(ctx context.Context) (b service.Backlog, err error) {
	db := s.db.WithContext(ctx)
	row := db.Raw("SELECT COUNT(due), COUNT(*) - COUNT(due) FROM outbox").Row()
	if err := row.Scan(&b.Waiting, &b.Parked); err != nil {
		return b, explain(err)
	}
	var ages []int64
	err = db.Raw("SELECT TIMESTAMPDIFF(MICROSECOND, m.at, UTC_TIMESTAMP(6)) FROM (SELECT sku, number FROM outbox" +
		" WHERE due IS NOT NULL AND sku NOT IN (SELECT sku FROM outbox WHERE due IS NULL) ORDER BY id LIMIT 1) o" +
		" JOIN movements m ON m.sku = o.sku AND m.number = o.number").Scan(&ages).Error
	for _, age := range ages {
		b.Late = max(0, time.Duration(age)*time.Microsecond)
	}
	return b, explain(err)
}
