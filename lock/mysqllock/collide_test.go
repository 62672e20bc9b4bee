package mysqllock

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A collision that the server resolves by undoing one of two statements is no failure, wherever it happens; endless ones are.
func TestCollisions(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		l := k.open(t, via(dsn, p), 0)
		release(t, acquire(t, l, "k"))
		for _, word := range []string{"LAST_INSERT_ID", "FOR UPDATE", "GET_LOCK("} {
			for _, f := range []fate{collide, overdue} {
				n := 0
				p.obey(func(_ int, request string) fate {
					if !strings.Contains(request, word) {
						return pass
					}
					if n++; n > 3 {
						return pass
					}
					return f
				})
				lease := acquire(t, l, "k")
				p.obey(nil)
				release(t, lease)
				if n != 0 && n != 4 {
					t.Errorf("%s: %d times, want 3 of %v and a success", word, n, f)
				}
			}
		}
		p.obey(func(_ int, request string) fate {
			if strings.Contains(request, "LAST_INSERT_ID") {
				return collide
			}
			return pass
		})
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("endless collisions: %v, want ErrHeld", err)
		}
		p.obey(nil)
		free(t, k.open(t, dsn, 0), "k")
	})
}

// With real collisions: many make the same rows at the same time while somebody takes his own back again.
func TestFirstUseTogether(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		var lockers []locker
		for range 6 {
			lockers = append(lockers, k.open(t, dsn, 0))
		}
		for round := range 20 {
			key := keyN(round)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{
				"INSERT INTO locks VALUES (?, '', '', '1970-01-01', 0)",
				"INSERT INTO lock_rows (name) VALUES (?)",
				"INSERT INTO lock_fences (name, fence) VALUES (?, 0)",
			} {
				if _, err := tx.Exec(statement, key); err != nil {
					t.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for _, l := range lockers {
				all.Go(func() { release(t, acquire(t, l, key)) })
			}
			<-time.After(5 * time.Millisecond) // lets them come to the row; if they have not, the round is only weaker
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			all.Wait()
		}
	})
}
