package mysqllock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
)

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
		if got := turn(b); got != ahead+fenceDistance {
			t.Errorf("fence %d, want %d", got, ahead+fenceDistance)
		}
		turn(a)
	})
}

func TestTheHolderIsNamed(t *testing.T) {
	t.Parallel()
	l := table.open(t, database(t), 0)
	lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "app-1/request-7"})
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, lease)
	_, err = l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Holder != "app-1/request-7" || held.Remaining <= 0 ||
		held.Remaining > 10*time.Second {
		t.Errorf("err = %+v, want the holder and what remains", err)
	}
	other, err := l.Acquire(t.Context(), "other", lock.Options{TryOnce: true, Owner: strings.Repeat("é", 300) + "\xff"})
	if err != nil {
		t.Fatalf("an owner that is long and no UTF-8: %v", err)
	}
	release(t, other)
}

// A connection that was made fit for locks does not find its way back into the pool.
func TestAConnectionIsNotGivenBack(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 1)
		l := k.open(t, dsn, 0)
		id := warm(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the connection is closed", func() bool {
			return count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", id) == 0
		})
	})
}

// Keys that a careless column or a named lock would take for one are several.
func TestKeysAreExact(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, database(t), 0)
		long := strings.Repeat("k", 300)
		var leases []*lock.Lease
		for _, keys := range [][]string{
			{"k", "K", "k "},
			{"é", "e", "É"},
			{long, long + "k", columnName(long)},
			{"\x00", "\xff", "'; DROP TABLE locks; --"},
		} {
			for _, key := range keys {
				lease, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
				if err != nil {
					t.Errorf("%.40q: %v", key, err)
					continue
				}
				leases = append(leases, lease)
			}
			for _, lease := range leases {
				release(t, lease)
			}
			leases = nil
		}
	})
}

// A named lock has 64 characters at most: a longer name is shortened to a digest of exactly 64, a shorter one stays.
func TestTheLongestNameOfANamedLock(t *testing.T) {
	const prefix = "stock/db/"
	key := strings.Repeat("k", 64-len(prefix))
	if got := namedLockName("db", key); got != prefix+key {
		t.Errorf("64 characters: %q", got)
	}
	if got := namedLockName("db", key+"k"); len(got) != 64 || !strings.HasPrefix(got, "stock#") {
		t.Errorf("65 characters: %q", got)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("stock", "a", "stock", "A")
	f.Add("a", "b", "a/b", "")
	f.Add("stock", strings.Repeat("x", 300), "stock", "sha256:")
	f.Fuzz(func(t *testing.T, d1, k1, d2, k2 string) {
		n1, n2 := namedLockName(d1, k1), namedLockName(d2, k2)
		for _, n := range []string{n1, n2} {
			if len(n) > namedLockChars || strings.ToLower(n) != n || strings.TrimSpace(n) != n ||
				strings.ToValidUTF8(n, "") != n {
				t.Errorf("name %q", n)
			}
		}
		nul := strings.Contains(d1, "\x00") || strings.Contains(d2, "\x00") // which no name of a database has
		if (n1 == n2) != (d1 == d2 && k1 == k2) && !nul {
			t.Errorf("(%q, %q) is %q and (%q, %q) is %q", d1, k1, n1, d2, k2, n2)
		}
		if c1, c2 := columnName(k1), columnName(k2); (c1 == c2) != (k1 == k2) || len(c1) > columnBytes {
			t.Errorf("%q is %q and %q is %q", k1, c1, k2, c2)
		}
	})
}

// issued is the reply of a server that has issued a fence.
type issued int64

func (i issued) LastInsertId() (int64, error) { return int64(i), nil }
func (i issued) RowsAffected() (int64, error) { return 1, nil }

// A fence that is not above zero is none: 0 means "no fence" to the store.
func TestAFenceIsAboveZero(t *testing.T) {
	for id, good := range map[issued]bool{-1: false, 0: false, 1: true} {
		if fence, err := drawnFence(id); (err == nil) != good {
			t.Errorf("fence %d: %v", fence, err)
		}
	}
}
