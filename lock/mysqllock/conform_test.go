package mysqllock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

var promise = lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true}

func TestConforms(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		locktest.Run(t, promise, func(t testing.TB) lock.Locker { return k.open(t, dsn, 0) })
	})
}

func TestConformsWithHandOver(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		locktest.Run(t, promise, func(t testing.TB) lock.Locker { return lock.HandOver(k.open(t, dsn, 0), lock.Bound{}) })
	})
}

// Fences grow when the rows that remember them are gone, and when the clock is behind what was handed out.
func TestFencesGrow(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		a, b := k.open(t, dsn, 0), k.open(t, dsn, 0)
		var last lock.Fence
		turn := func(l lock.Locker) lock.Fence {
			lease := acquire(t, l, "k")
			defer release(t, lease)
			if lease.Fence() < last+lock.Fence(a.FenceRange()) {
				t.Errorf("fence %d after %d leaves no room for %d holders", lease.Fence(), last, a.FenceRange())
			}
			last = lease.Fence()
			return last
		}
		turn(a)
		turn(b)
		for _, statement := range []string{"DELETE FROM locks", "DELETE FROM lock_rows", "DELETE FROM lock_fences"} {
			execSQL(t, db, statement)
		}
		turn(a)
		turn(b)
		const ahead = 4_000_000_000_000_000 // as if the clock had been set back by decades
		execSQL(t, db, "UPDATE locks SET fence = ?", int64(ahead))
		execSQL(t, db, "UPDATE lock_fences SET fence = ?", int64(ahead))
		if got := turn(b); got != ahead+span {
			t.Errorf("fence %d, want %d", got, ahead+span)
		}
		turn(a)
	})
}

func TestTheHolderIsNamed(t *testing.T) {
	l := table.open(t, database(t), 0)
	lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "app-1/request-7"})
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, lease)
	_, err = l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 || held.Remaining > 10*time.Second {
		t.Errorf("err = %+v, want the holder and what remains", err)
	}
	other, err := l.Acquire(t.Context(), "other", lock.Options{Owner: strings.Repeat("é", 300) + "\xff", TryOnce: true})
	if err != nil {
		t.Fatalf("an owner that is long and no UTF-8: %v", err)
	}
	release(t, other)
}

// A missing schema is a server that cannot serve, in words that name the fix.
func TestMissingTables(t *testing.T) {
	dsn := servers.MariaDB(t)
	each(t, all, func(t *testing.T, k kind) {
		_, err := k.open(t, dsn, 0).Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		var down *lock.DownError
		if !errors.As(err, &down) || down.Server != "mysql" || !strings.Contains(down.Reason, "run stock migrate up") {
			t.Errorf("err = %v, want a DownError that names the fix", err)
		}
		db := pool(t, dsn, 1)
		eventually(t, soon, "no lock is left", func() bool {
			return transactions(t, db)+count(t, db, "SELECT IS_USED_LOCK(CONCAT('stock/', DATABASE(), '/k')) IS NOT NULL") == 0
		})
	})
}
