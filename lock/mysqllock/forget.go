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
	// memory is how long the rows of a key stay after its last fence was drawn. It is longer than any hold.
	memory = 48 * time.Hour
	// forgetEvery is the time between two looks for rows to delete, of each lock; drawn at random between half and
	// all of it.
	forgetEvery = time.Hour
	// forgetFirst is the time to the first, after the first acquisition; drawn as well.
	forgetFirst = 2 * time.Minute
	// batch is how many rows are looked at in one statement.
	batch = 100
)

// A forgetter deletes the rows of keys that nobody has asked for in a long time, or there would be one for every key
// ever used.
//
// When may a row go? A fence begins at the server's clock where there is no row. So a row may go when its fence is
// behind the clock: the next one is larger, whoever draws it and whenever, as long as the clock is not set back
// behind that fence. It goes when it is behind by the memory, so the clock would have to be set back by more than
// that. A fence ahead of the clock, as after a clock was set back, stays until the clock has passed it. And whoever
// holds a key has drawn its fence since.
//
// The condition is part of the statement that deletes, which locks the row: a claim that is before it moves the
// fence, and the row stays; one after it finds no row, as for a new key. Nobody is made to wait for somebody who
// holds.
//
// Its cost is a read of the table's keys every hour, without locks, and a statement for each 100 rows that go.
type forgetter struct {
	forget func(ctx context.Context) error

	mu     sync.Mutex
	timer  *time.Timer // nil: nothing was acquired yet
	closed bool
	ctx    context.Context
	stop   context.CancelFunc
	busy   sync.WaitGroup
}

func newForgetter(forget func(context.Context) error) *forgetter {
	f := &forgetter{forget: forget}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// used begins to look for rows now and then. Only who acquires makes rows.
func (f *forgetter) used() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer == nil && !f.closed {
		f.timer = time.AfterFunc(forgetFirst/2+rand.N(forgetFirst/2), f.turn)
	}
}

// turn looks once. What fails is left to the next turn, or to another instance.
func (f *forgetter) turn() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.busy.Add(1)
	f.mu.Unlock()
	defer f.busy.Done()
	ctx, cancel := context.WithTimeout(f.ctx, forgetEvery/4)
	defer cancel()
	_ = f.forget(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.timer.Reset(forgetEvery/2 + rand.N(forgetEvery/2))
	}
}

// close ends what is under way and waits for it.
func (f *forgetter) close() {
	f.mu.Lock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.stop()
	f.busy.Wait()
}

// A shelf is a table whose rows may be forgotten.
type shelf struct {
	table string
	old   string // the condition; its parameter is the memory in microseconds
}

var (
	claims = shelf{"locks", "fence <= " + microseconds + " - ? AND expires_at <= UTC_TIMESTAMP(6)"}
	fences = shelf{"lock_fences", "fence <= " + microseconds + " - ?"}
	// A row that is locked has no date. It is as old as the last fence of its key.
	rows = shelf{
		"lock_rows",
		"NOT EXISTS (SELECT 1 FROM lock_fences WHERE lock_fences.name = lock_rows.name AND fence > " + microseconds + " - ?)",
	}
)

// candidates are names of old rows after the one given, in their order.
func (s shelf) candidates(ctx context.Context, db *sql.DB, after string, age time.Duration) ([]string, error) {
	conn, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	query := "SELECT name FROM " + s.table + " WHERE name > ? AND " + s.old + " ORDER BY name LIMIT ?"
	return texts(ctx, conn, query, after, age.Microseconds(), batch)
}

// each calls do for the names of old rows, some at a time.
func (s shelf) each(ctx context.Context, db *sql.DB, age time.Duration, do func(names []string) error) error {
	for after := ""; ; {
		names, err := s.candidates(ctx, db, after, age)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := do(names); err != nil {
			return err
		}
		after = names[len(names)-1]
	}
}

// forget deletes the old rows of a table in which nobody keeps a row locked.
func (s shelf) forget(ctx context.Context, db *sql.DB, age time.Duration) error {
	return s.each(ctx, db, age, func(names []string) error {
		args := make([]any, 0, len(names)+1)
		for _, name := range names {
			args = append(args, name)
		}
		marks := strings.TrimSuffix(strings.Repeat("?,", len(names)), ",")
		query := "DELETE FROM " + s.table + " WHERE name IN (" + marks + ") AND " + s.old
		_, err := execute(ctx, db, query, append(args, age.Microseconds())...)
		return err
	})
}

// forgetRows deletes the old rows of lock_rows, one by one, and waits for nobody who has locked one. Who waits for a
// row waits behind somebody who has it; who comes while it is being deleted finds none, and makes it again.
func forgetRows(ctx context.Context, db *sql.DB, age time.Duration) error {
	return rows.each(ctx, db, age, func(names []string) error {
		for _, name := range names {
			err := forgetRow(ctx, db, name, age)
			if err != nil && (ctx.Err() != nil || !held(err)) {
				return err
			}
		}
		return nil
	})
}

// held tells whether a statement was refused because another has the row.
func held(err error) bool {
	err = meaning(err)
	return errors.Is(err, errBusy) || errors.Is(err, errAgain)
}

func forgetRow(ctx context.Context, db *sql.DB, name string, age time.Duration) error {
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
		_, err = tx.ExecContext(ctx, "DELETE FROM lock_rows WHERE name = ? AND "+rows.old, name, age.Microseconds())
	}
	if err == nil {
		err = tx.Commit()
	}
	return err
}
