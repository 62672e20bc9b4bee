package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
)

// Thousands of acquisitions, many of them the first of their key, leave no lock, no transaction and no connection behind.
func TestNothingIsLeftBehind(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		pools := []*sql.DB{pool(t, dsn, 12), pool(t, dsn, 12)}
		lockers := []locker{k.make(pools[0], 0), k.make(pools[1], 0)}
		var all sync.WaitGroup
		for worker := range 16 {
			all.Go(func() {
				for i := range 125 {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					if i%10 == 9 {
						// Some leave, at any moment.
						cancel()
						ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
					}
					lease, err := lockers[worker%2].Acquire(ctx, keyN(i/2), lock.Options{})
					cancel()
					switch {
					case err == nil:
						release(t, lease)
					case i%10 != 9 || !errors.Is(err, context.DeadlineExceeded):
						t.Errorf("acquire: %v", err)
						return
					}
				}
			})
		}
		all.Wait()
		if n := waiting(t, db); n != 0 {
			t.Errorf("%d statements wait", n)
		}
		eventually(t, soon, "no transaction is open", func() bool { return transactions(t, db) == 0 })
		if n := count(t, db, "SELECT COUNT(*) FROM locks WHERE expires_at > UTC_TIMESTAMP(6) OR token <> '' OR who <> ''"); n != 0 {
			t.Errorf("%d rows are held", n)
		}
		for i := range 63 {
			if n := count(t, db, "SELECT IS_USED_LOCK(CONCAT('stock/', DATABASE(), ?)) IS NOT NULL", "/"+keyN(i)); n != 0 {
				t.Errorf("%s is held", keyN(i))
			}
		}
		for i, l := range lockers {
			if n := pools[i].Stats().InUse; n > 4 {
				t.Errorf("%d connections are in use, at most a third of 12 may be kept", n)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if n := pools[i].Stats().InUse; n != 0 {
				t.Errorf("%d connections are in use after Close", n)
			}
		}
	})
}

// A connection that was made fit for locks does not find its way back into the pool.
func TestAConnectionIsNotGivenBack(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 1)
		l := k.open(t, dsn, 0)
		release(t, acquire(t, l, "k"))
		id := connection(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, soon, "the connection is closed", func() bool {
			return count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", id) == 0
		})
	})
}
