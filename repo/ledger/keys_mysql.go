package ledger

import (
	"context"
	"database/sql"
	"time"

	"example.com/stock/repo"
)

// Forget takes two round trips, or one if no key is old enough. It reads the ids without locks and deletes by id:
// a DELETE over a range of times would lock the gap at its end, into which steps insert.
func (l *MySQL) Forget(ctx context.Context, age time.Duration, limit int) (int, error) {
	const doing = "forget keys"
	if err := repo.CheckLimit(limit); err != nil {
		return 0, err
	}
	var ids []string
	var q statement
	q.Add("SELECT id FROM idempotency_keys WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND"+
		" ORDER BY created_at LIMIT ?", age.Microseconds(), limit)
	err := l.read(ctx, doing, "sweep", &q, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	var d statement
	for i, id := range ids {
		if i == 0 {
			d.Add("DELETE FROM idempotency_keys WHERE id IN (?", id)
		} else {
			d.Add(", ?", id)
		}
	}
	d.Add(")")
	n, err := l.change(ctx, doing, "sweep", d.Text.String(), d.Args...)
	return int(n), err
}
