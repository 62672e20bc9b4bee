package mysqllock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
)

// Keys that somebody holds or waits for are listed, each once, and no others.
func TestKeys(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.open(t, dsn, 0)
		list := func() string {
			keys, err := l.(lock.Lister).Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(keys)
			return strings.Join(keys, " ")
		}
		held := []*lock.Lease{acquire(t, l, "A#1"), acquire(t, l, "a"), acquire(t, l, strings.Repeat("k", 256))}
		release(t, acquire(t, l, "free"))
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		waiter := k.open(t, dsn, 0)
		go func() {
			defer close(left)
			_, _ = waiter.Acquire(ctx, "a", lock.Options{})
		}()
		if k.name != table.name {
			eventually(t, 10*time.Second, "it waits", func() bool { return len(inspect(t, l, "a").Waiters) == 1 })
		}
		if got := list(); got != "A#1 a" {
			t.Errorf("%q, want A#1 and a", got)
		}
		leave()
		<-left
		for _, lease := range held {
			release(t, lease)
		}
		if got := list(); got != "" {
			t.Errorf("%q when all are released", got)
		}
	})
}
