package mysqllock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A key of unknown outcome becomes free by itself; of a lock that lives in a connection also when that is closed, and
// the connection with it. Nothing is left of either in this process.
func TestAbandonedKeys(t *testing.T) {
	for name, closes := range map[string]bool{"left alone": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			each(t, all, func(t *testing.T, k kind) {
				dsn := database(t)
				db := pool(t, dsn, 12)
				a, b := k.make(db, 3*time.Second), k.open(t, dsn, 0)
				t.Cleanup(func() { a.Close() })
				err := lock.Do(t.Context(), a, "k", lock.Options{}, func(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown })
				if !errors.Is(err, lock.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := b.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) && time.Since(began) < time.Second {
					t.Errorf("at once: %v, want ErrHeld", err)
				}
				if closes {
					_, _ = a.Close(), db.Close()
				}
				release(t, acquire(t, b, "k"))
				if !closes { // the seat and the place in this process, too
					release(t, acquire(t, a, "k"))
				}
			})
		})
	}
}
