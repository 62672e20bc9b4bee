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
		for _, statement := range []string{
			"SELECT 1", "DELETE FROM locks", "DELETE FROM lock_rows", "DELETE FROM lock_fences",
			fmt.Sprint("UPDATE locks SET fence = ", ahead), fmt.Sprint("UPDATE lock_fences SET fence = ", ahead),
			"SELECT 1",
		} {
			execSQL(t, db, statement)
			lease := acquire(t, l, "k")
			grows("after "+statement, lease.Fence())
			locktest.Release(t, lease)
			grows("evicted after "+statement, insist(t, func(ctx context.Context) (lock.Fence, error) {
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
	for option, o := range map[string]ConnOptions{
		"Lease": {Lease: -time.Second}, "MaxHold": {MaxHold: -1}, "MaxConns": {MaxConns: -1},
	} {
		for _, k := range all {
			l := k.make(db, o)
			err := locktest.Try(t, l, "k")
			names := errors.Is(err, lock.ErrInvalid) && strings.Contains(err.Error(), "option "+option+" ")
			if !names && (k.name != table.name || option != "MaxConns") {
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
