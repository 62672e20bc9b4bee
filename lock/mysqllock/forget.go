package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	// retention is how long the rows of a key stay after its last fence was issued. It is longer than any hold, and
	// longer than any statement takes, because an INSERT issues the time at which it began.
	retention = 48 * time.Hour
	// forgetEvery is the longest time between two searches for old rows; the time is random, from half of it on.
	forgetEvery = time.Hour
	// forgetFirst is the longest time from the first acquisition to the first search; the time is random in the same
	// way.
	forgetFirst = 2 * time.Minute
	// forgetBatch is how many rows one statement deletes.
	forgetBatch = 100
)

// A forgetter deletes the rows of keys that were not acquired for a long time. Otherwise there would be a row for
// every key ever used.
//
// If there is no row, the next fence is the time of the server's clock. So a row may be deleted once the clock has
// passed its fence, as long as the clock is not set back behind it. A row is deleted only when its fence is older than
// retention, so a smaller fence could be issued only if the clock were set back by more than retention. The fence of a
// current holder is never that old.
//
// The condition is part of the DELETE, which locks the row. If an acquisition comes first, it raises the fence, and the
// row stays. If the DELETE comes first, the acquisition finds no row, as for a new key. The deletion never waits for a
// holder.
//
// Every hour this costs a read of the table's keys, without locks, and a statement for each 100 deleted rows.
type forgetter struct {
	forget func(ctx context.Context) error

	mu      sync.Mutex
	timer   *time.Timer // nil until the first acquisition
	closed  bool
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newForgetter(forget func(context.Context) error) *forgetter {
	f := &forgetter{forget: forget}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// start starts the periodic search for old rows. It is called before each acquisition, because only acquisitions make
// rows.
func (f *forgetter) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer == nil && !f.closed {
		f.timer = time.AfterFunc(forgetFirst/2+rand.N(forgetFirst/2), f.run)
	}
}

// run searches once. Rows that it could not delete are deleted by a later run, or by another instance.
func (f *forgetter) run() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.running.Add(1)
	f.mu.Unlock()
	defer f.running.Done()
	ctx, cancel := context.WithTimeout(f.ctx, forgetEvery/4)
	defer cancel()
	_ = f.forget(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.timer.Reset(forgetEvery/2 + rand.N(forgetEvery/2))
	}
}

// close ends a search that is under way and waits for it.
func (f *forgetter) close() {
	f.mu.Lock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.cancel()
	f.running.Wait()
}

type keyTable struct {
	name string
	old  string // the condition of rows that may be deleted; its parameter is the retention in microseconds
}

var (
	lockTable = keyTable{
		"locks",
		"fence <= " + microseconds + " - ? AND expires_at <= UTC_TIMESTAMP(6)",
	}
	fenceTable = keyTable{"lock_fences", "fence <= " + microseconds + " - ?"}
	// A row of lock_rows has no date. It is deleted when the last fence of its key is old.
	rowTable = keyTable{
		"lock_rows",
		"NOT EXISTS (SELECT 1 FROM lock_fences" +
			" WHERE lock_fences.name = lock_rows.name AND fence > " + microseconds + " - ?)",
	}
)

// oldNames returns the names of old rows that sort after the name after, in order.
func (t keyTable) oldNames(ctx context.Context, db *sql.DB, after string, age time.Duration) ([]string, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	query := "SELECT name FROM " + t.name + " WHERE name > ? AND " + t.old + " ORDER BY name LIMIT ?"
	return column(ctx, conn, query, after, age.Microseconds(), forgetBatch)
}

// eachBatch calls do for the names of old rows, a batch at a time.
func (t keyTable) eachBatch(
	ctx context.Context, db *sql.DB, age time.Duration, do func(names []string) error,
) error {
	for after := ""; ; {
		names, err := t.oldNames(ctx, db, after, age)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := do(names); err != nil {
			return err
		}
		after = names[len(names)-1]
	}
}

// forget deletes the old rows of a table whose rows holders never lock.
func (t keyTable) forget(ctx context.Context, db *sql.DB, age time.Duration) error {
	return t.eachBatch(ctx, db, age, func(names []string) error {
		args := make([]any, 0, len(names)+1)
		for _, name := range names {
			args = append(args, name)
		}
		marks := strings.TrimSuffix(strings.Repeat("?,", len(names)), ",")
		query := "DELETE FROM " + t.name + " WHERE name IN (" + marks + ") AND " + t.old
		_, err := execute(ctx, db, query, append(args, age.Microseconds())...)
		return err
	})
}

// forgetLockRows deletes the old rows of lock_rows, one by one, except rows that a holder has locked. A caller that
// arrives while a row is being deleted finds no row, and inserts it again.
func forgetLockRows(ctx context.Context, db *sql.DB, age time.Duration) error {
	return rowTable.eachBatch(ctx, db, age, func(names []string) error {
		for _, name := range names {
			err := forgetLockRow(ctx, db, name, age)
			if err != nil && (ctx.Err() != nil || !rowIsHeld(err)) {
				return err
			}
		}
		return nil
	})
}

// rowIsHeld reports whether a statement was refused because another connection has locked the row.
func rowIsHeld(err error) bool {
	err = refusal(err)
	return errors.Is(err, errBusy) || errors.Is(err, errAgain)
}

func forgetLockRow(ctx context.Context, db *sql.DB, name string, age time.Duration) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var one int
	err = tx.QueryRowContext(ctx, "SELECT 1 FROM lock_rows WHERE name = ? FOR UPDATE NOWAIT", name).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM lock_rows WHERE name = ? AND "+rowTable.old, name, age.Microseconds())
	}
	if err == nil {
		err = tx.Commit()
	}
	return err
}
