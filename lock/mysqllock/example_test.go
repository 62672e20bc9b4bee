package mysqllock_test

import (
	"context"
	"database/sql"
	"fmt"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/mysqllock"
)

// openDB opens a pool with the tables of the locks, and one of the example's own.
func openDB() *sql.DB {
	db, err := mysqllock.OpenPool(mysqllock.Servers().URL(server.MySQL), 8)
	statements := append(mysqllock.Schema(), "CREATE TABLE IF NOT EXISTS accounts"+
		" (id INT PRIMARY KEY, balance INT NOT NULL, fence BIGINT UNSIGNED NOT NULL DEFAULT 0)",
		"REPLACE INTO accounts VALUES (1, 100, 0)")
	for _, s := range statements {
		if err == nil {
			_, err = db.Exec(s)
		}
	}
	if err != nil {
		panic(err)
	}
	return db
}

// GET_LOCK keeps a connection for each key that is held or waited for: MaxConns bounds them.
func ExampleNewGetLock() {
	db := openDB()
	defer db.Close()
	locker := mysqllock.NewGetLock(db, mysqllock.ConnOptions{MaxConns: 4})
	defer locker.Close()

	err := lock.Do(context.Background(), locker, "invoice/7", lock.Options{},
		func(context.Context, lock.Fence) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

// A lock table needs no connection while a key is held: it is right for many keys. The write compares the fence: a
// holder that was stopped for longer than its lease, and wakes when another has written, changes nothing.
func ExampleNewTable_fencedWrite() {
	db := openDB()
	defer db.Close()
	locker := mysqllock.NewTable(db, mysqllock.TableOptions{})
	defer locker.Close()
	withdraw := func(ctx context.Context, fence lock.Fence) error {
		result, err := db.ExecContext(ctx,
			"UPDATE accounts SET balance = balance - 10, fence = ? WHERE id = 1 AND fence <= ?", fence, fence)
		if err != nil {
			return fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
		}
		n, err := result.RowsAffected()
		fmt.Println("rows changed:", n)
		return err
	}

	var old lock.Fence
	for range 2 {
		err := lock.Do(context.Background(), locker, "account/1", lock.Options{},
			func(ctx context.Context, fence lock.Fence) error {
				if old == lock.NoFence {
					old = fence
				}
				return withdraw(ctx, fence)
			})
		if err != nil {
			panic(err)
		}
	}
	fmt.Println(withdraw(context.Background(), old)) // the first holder wakes
	// Output:
	// rows changed: 1
	// rows changed: 1
	// rows changed: 0
	// <nil>
}
