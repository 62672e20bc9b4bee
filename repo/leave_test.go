package repo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/repo"
)

// Who gives up waiting for the row is out of the server's queue at once, and not after innodb_lock_wait_timeout, 50 s, although the row is held
// all the time; also when all connections of the pool were waiting.
func TestTransactLeavesTheQueue(t *testing.T) {
	const pool = 6
	dsn := servers.MariaDB(t)
	holder := repo.NewMySQL(migrated(t, dsn))
	db, err := repo.OpenMySQL(dsn, repo.Pool{Open: pool})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	s := repo.NewMySQL(db)
	watch := openMySQL(t, dsn)
	waiting := func() (n int) {
		t.Helper()
		err := watch.Raw("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND INFO LIKE 'SELECT%FOR UPDATE%'").
			Scan(&n).Error
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !holds(); {
			if time.Now().After(deadline) {
				t.Fatalf("not seen: %s; %d wait", what, waiting())
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	mustSet(t, holder, "sku", 100)
	holding(t, holder, "sku", func() {
		for range 2 {
			cause := errors.New("the client went away")
			ctx, cancel := context.WithCancelCause(t.Context())
			var all sync.WaitGroup
			for i := range pool {
				all.Go(func() {
					err := s.Transact(ctx, "sku", false, sellIn("sku", fmt.Sprint("o", i), nil))
					if !errors.Is(err, cause) || errors.Is(err, lock.ErrDown) {
						t.Errorf("%v, want the cause", err)
					}
				})
			}
			until("all wait", func() bool { return waiting() == pool })
			cancel(cause)
			all.Wait()
			until("nobody waits", func() bool { return waiting() == 0 })
		}
	})
	if err := s.Transact(short(t), "sku", false, sellIn("sku", "after", nil)); err != nil {
		t.Error(err)
	}
	balanced(t, holder, "sku", 2)
}
