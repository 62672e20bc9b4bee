package mysqllock

import (
	"strings"
	"testing"

	"example.com/stock/lock"
)

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
			{"", "\x00", "\xff", "'; DROP TABLE locks; --"},
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

func FuzzNames(f *testing.F) {
	f.Add("stock", "a", "stock", "A")
	f.Add("a", "b", "a/b", "")
	f.Add("stock", strings.Repeat("x", 300), "stock", "sha256:")
	f.Fuzz(func(t *testing.T, d1, k1, d2, k2 string) {
		n1, n2 := userLockName(d1, k1), userLockName(d2, k2)
		for _, n := range []string{n1, n2} {
			if len(n) > nameChars || strings.ToLower(n) != n || strings.TrimSpace(n) != n || strings.ToValidUTF8(n, "") != n {
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
