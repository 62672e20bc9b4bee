package mysqllock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

func inspect(t testing.TB, l lock.Locker, key string) lock.State {
	t.Helper()
	return insist(t, func(ctx context.Context) (lock.State, error) { return lock.Inspect(ctx, l, key) })
}

func waiters(t testing.TB, l lock.Locker, key string) (who []string) {
	t.Helper()
	for _, w := range inspect(t, l, key).Waiters {
		who = append(who, w.Who)
	}
	return who
}

// Who waits is shown in order, by whichever process; those behind another of their own process by that process.
func TestInspectTellsWhoWaits(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		held := acquire(t, k.open(t, dsn, ConnOptions{}), "k")
		a, b := k.open(t, dsn, ConnOptions{}), k.open(t, dsn, ConnOptions{})
		want := []string{"a/1", "b ?*/ é/2", "b/3"} // the third one's place at the server is that of the second
		var came []<-chan error
		for i, l := range []locker{a, b, b} {
			came = append(came, come(t.Context(), l, "k", want[i]))
			locktest.Eventually(t, want[i]+" waits", func() bool {
				return slices.Equal(waiters(t, l, "k"), want[:i+1])
			})
		}
		if got := waiters(t, a, "k"); !slices.Equal(got, want[:2]) {
			t.Errorf("another process sees %q, want %q", got, want[:2])
		}
		locktest.Release(t, held)
		succeed(t, came)
	})
}

// A label is a comment whatever is in it, and is read as it was written; what is none names no waiter.
func FuzzLabel(f *testing.F) {
	f.Add("k", "app-1/request-7")
	f.Add("*/ DROP TABLE locks; /* waits a 1 b */", "? % \x00 \xff é")
	f.Fuzz(func(t *testing.T, key, who string) {
		since := time.UnixMilli(1_700_000_000_123)
		text := waitLabel(key, who, since)
		inside := strings.TrimSuffix(strings.TrimPrefix(text, " /*"), "*/")
		if strings.ContainsAny(inside, "*?'\"\\") {
			t.Errorf("%q is no comment, or has parameters", text)
		}
		name, c, ok := parseLabel("SELECT 1 FROM lock_rows WHERE name = '" + key + "' FOR UPDATE" + text)
		if !ok || name != columnName(key) || c.Who != ownerColumn(who) || !c.Since.Equal(since) {
			t.Errorf("%q is read as %q, %+v", text, name, c)
		}
	})
}
