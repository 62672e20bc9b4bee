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
		a, b := k.open(t, dsn, ConnOptions{}), k.open(t, dsn, ConnOptions{})
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
	})
}

// Keys that a careless column or a named lock would take for one are several.
func TestKeysAreExact(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, database(t), ConnOptions{})
		long := strings.Repeat("k", 300)
		for _, keys := range [][]string{
			{"k", "K", "k "},
			{"é", "e", "É"},
			{long, long + "k", columnName(long)},
			{"\x00", "\xff", "'; DROP TABLE locks; --"},
		} {
			var leases []*lock.Lease
			for _, key := range keys {
				leases = append(leases, acquire(t, l, key)) // which waits if two keys are one
			}
			for _, lease := range leases {
				release(t, lease)
			}
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

// An option that makes no sense is named by the first Acquire, which asks no server.
func TestWrongOptions(t *testing.T) {
	db := pool(t, "root@tcp(127.0.0.1:1)/stock", 4) // nobody listens there
	for _, k := range all {
		for option, o := range map[string]ConnOptions{
			"Lease": {Lease: -time.Second}, "MaxHold": {MaxHold: -1}, "MaxConns": {MaxConns: -1},
		} {
			if k.name == table.name && option == "MaxConns" {
				continue
			}
			l := k.make(db, o)
			err := try(t, l, "k")
			if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "option "+option+" ") {
				t.Errorf("%s, %s: %v", k.name, option, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// However often it is renewed, a lease does not outlast the maximum: then others get in, also from the same process,
// although the holder hangs and does not release. That is so for every loss.
func TestMaximumHold(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, database(t), ConnOptions{Lease: time.Second, MaxHold: 300 * time.Millisecond})
		held := acquire(t, l, "k")
		var expired *lock.ExpiredError
		if err := loss(t, held); !errors.As(err, &expired) || !expired.Maximum {
			t.Errorf("loss: %v, want the maximum", err)
		}
		next := acquire(t, l, "k")
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
	})
}
