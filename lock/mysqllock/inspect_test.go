package mysqllock

import (
	"context"
	"errors"
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

// Another process is told who holds, as the holder's lease has it, and nobody once it is released.
func TestInspectTellsTheHolder(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		l, other := k.open(t, dsn, ConnOptions{}), k.open(t, dsn, ConnOptions{})
		for _, who := range []string{"app-1/request-7", "é */ '?%", strings.Repeat("é", 300) + "\xff", ""} {
			want := ownerColumn(who)
			before := time.Now().Add(-time.Second) // what the clocks of two processes may differ by
			held := locktest.Acquire(t, l, "k", who)
			h := inspect(t, other, "k").Holder
			if h == nil || h.Who != want || h.Fence != held.Fence() ||
				h.Remaining <= 0 || h.Remaining > 10*time.Second {
				t.Fatalf("%+v, want %q with fence %d and up to 10 s left", h, want, held.Fence())
			}
			if h.Since.Before(before) || h.Since.After(time.Now().Add(time.Second)) {
				t.Errorf("since %v, want about now", h.Since)
			}
			var busy *lock.HeldError
			err := locktest.Try(t, other, "k")
			if !errors.As(err, &busy) || k.name == table.name && busy.Holder != want {
				t.Errorf("%v, want the holder %q", err, want)
			}
			locktest.Release(t, held)
			if s := inspect(t, other, "k"); s.Holder != nil {
				t.Errorf("after the release: %+v", s.Holder)
			}
		}
	})
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

// Keys that somebody holds or waits for are listed, each once, and no others. Hundreds of them are inspected in the
// round trips of one.
func TestKeys(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, dsn)
		holders, l := k.open(t, dsn, ConnOptions{MaxConns: 5}), k.open(t, p.dsn, ConnOptions{})
		long := strings.Repeat("é", 200) // of which the tables have only a digest
		for _, key := range []string{"A#1", "a", long} {
			acquire(t, holders, key)
		}
		locktest.Release(t, acquire(t, holders, "free"))
		ctx, leave := context.WithCancel(t.Context())
		waits := come(ctx, k.open(t, dsn, ConnOptions{}), "a", "app/1")
		if k.name != table.name { // which does not know who waits
			locktest.Eventually(t, "one waits", func() bool { return len(waiters(t, l, "a")) == 1 })
		}
		listed := insist(t, l.Keys)
		slices.Sort(listed)
		if !slices.Equal(listed, []string{"A#1", "a"}) {
			t.Errorf("%q, want A#1 and a", listed)
		}
		keys := []string{long, "a", "free", "A#1", "a"}
		locktest.Eventually(t, "the same together and alone", func() bool { // a waiter may be between two statements
			return locktest.SameStates(t.Context(), l, keys) == nil
		})
		requests := func(keys []string) int {
			return len(p.during(func() {
				_ = insist(t, func(ctx context.Context) ([]lock.State, error) { return lock.InspectAll(ctx, l, keys) })
			}))
		}
		if one, many := requests(keys[:1]), requests(slices.Repeat(keys, 50)); many != one {
			t.Errorf("%d requests for one key, %d for 250", one, many)
		}
		leave()
		<-waits
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
