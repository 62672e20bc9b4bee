package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
)

// Fences grow when the rows that remember them are gone, and when the clock is behind what was handed out. So do those
// of evictions, also where nobody holds, and they leave room for the fences that a process hands out under one lease.
func TestFencesGrow(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db, l := pool(t, dsn, 1), k.open(t, dsn, ConnOptions{})
		const ahead = 4_000_000_000_000_000 // as if the clock had been set back by decades
		var last lock.Fence
		grows := func(what string, fence lock.Fence) {
			if fence < last+driver.FenceRange {
				t.Errorf("%s: fence %d after %d", what, fence, last)
			}
			last = fence
		}
		for _, rows := range []string{"SELECT 1 FROM T", "DELETE FROM T", fmt.Sprint("UPDATE T SET fence = ", ahead)} {
			for _, table := range []string{"locks", "lock_fences"} {
				execSQL(t, db, strings.Replace(rows, " T", " "+table, 1))
			}
			lease := acquire(t, l, "k")
			grows("after "+rows, lease.Fence())
			locktest.Release(t, lease)
			grows("evicted after "+rows, insist(t, func(ctx context.Context) (lock.Fence, error) {
				return l.Evict(ctx, "k")
			}))
		}
		if last < ahead {
			t.Errorf("fence %d, want more than %d", last, lock.Fence(ahead))
		}
	})
}

// A key that looks like the digest of a long one is another, and any owner's name fits the column.
func TestNames(t *testing.T) {
	long := strings.Repeat("é", 300)
	digest := columnName(long)
	if listed := readable([]string{digest, "k"}); columnName(digest) == digest || !slices.Equal(listed, []string{"k"}) {
		t.Errorf("%q is the name of two keys, or listed: %q", digest, listed)
	}
	if who := ownerColumn(long + "\xff"); who != long[:2*255] {
		t.Errorf("the owner is %q", who)
	}
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
			if err := locktest.Try(t, l, "k"); !errors.Is(err, lock.ErrInvalid) ||
				!strings.Contains(err.Error(), "option "+option+" ") {
				t.Errorf("%s, %s: %v", k.name, option, err)
			}
			_ = l.Close()
		}
	}
}

// However often it is renewed, a lease does not outlast the maximum: then others get in, also from the same process,
// although the holder hangs and does not release. That is so for every loss.
func TestMaximumHold(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, database(t), ConnOptions{Lease: time.Second, MaxHold: 300 * time.Millisecond})
		held := acquire(t, l, "k")
		acquire(t, l, "k")
		var expired *lock.ExpiredError
		if err := locktest.Loss(t, held); !errors.As(err, &expired) || !expired.Maximum {
			t.Errorf("loss: %v, want the maximum", err)
		}
	})
}

// One who polls for a key whose row somebody has deleted gets it: there is nothing to update, so the row is made again.
func TestAPollerOutlivesItsRow(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	acquire(t, table.open(t, dsn, ConnOptions{Lease: patience}), "k")
	p := newProxy(t, dsn)
	came := locktest.Come(t.Context(), table.open(t, p.dsn, ConnOptions{}), "k", "")
	locktest.Eventually(t, "it polls", func() bool { return p.Requests() > 6 })
	execSQL(t, pool(t, dsn, 1), "DELETE FROM locks")
	succeed(t, came)
}

// A pool without a free connection is no server that is down: a waiter waits on, and its error says what was missing.
func TestThePoolIsFull(t *testing.T) {
	t.Parallel()
	db := pool(t, database(t), 1)
	l := NewTable(db, TableOptions{})
	t.Cleanup(func() { l.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	noCapacity(t, l, "k")
	before := db.Stats().WaitCount
	came := locktest.Come(t.Context(), l, "k", "")
	locktest.Eventually(t, "it asks again", func() bool { return db.Stats().WaitCount > before+1 })
	_ = conn.Close()
	succeed(t, came)
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
