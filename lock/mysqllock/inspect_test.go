package mysqllock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
)

// as is a ctx of somebody.
func inspect(t testing.TB, l lock.Locker, key string) lock.State {
	t.Helper()
	s, err := lock.Inspect(t.Context(), l, key)
	if err != nil {
		t.Fatal(err)
	}
	if s.Scope != lock.Cluster {
		t.Errorf("scope %v", s.Scope)
	}
	return s
}

// Another process is told who holds, as the holder's lease has it, and nobody once it is released.
func TestInspectTellsTheHolder(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		l, other := k.open(t, dsn, 0), k.open(t, dsn, 0)
		if s := inspect(t, other, "k"); s.Holder != nil || s.Waiters != nil {
			t.Errorf("a key that was never used: %+v", s)
		}
		for _, who := range []string{"app-1/request-7", "é */ '?%", ""} {
			before := time.Now().Add(-time.Second) // what the clocks of two processes may differ by
			held, err := l.Acquire(t.Context(), "k", lock.Options{Owner: who})
			if err != nil {
				t.Fatal(err)
			}
			h := inspect(t, other, "k").Holder
			switch {
			case h == nil:
				t.Errorf("%q holds, and nobody is seen to", who)
			case h.Who != who || h.Fence != held.Fence() || h.Remaining <= 0 || h.Remaining > 10*time.Second:
				t.Errorf("%+v, want %q with fence %d and up to 10 s left", h, who, held.Fence())
			case h.Since.Before(before) || h.Since.After(time.Now().Add(time.Second)):
				t.Errorf("since %v, want about now", h.Since)
			}
			if s := inspect(t, other, "another"); s.Holder != nil {
				t.Errorf("another key: %+v", s)
			}
			release(t, held)
			if s := inspect(t, other, "k"); s.Holder != nil {
				t.Errorf("after the release: %+v", s.Holder)
			}
		}
	})
}

// What lives in a connection is gone with it, and so is the name of who held.
func TestInspectForgetsWhoIsGone(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		h := hold(t, k, dsn, 0)
		other := k.open(t, dsn, 0)
		if s := inspect(t, other, "k"); s.Holder == nil || s.Holder.Fence != h.fence {
			t.Errorf("%+v, want fence %d", s.Holder, h.fence)
		}
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "nobody holds", func() bool { return inspect(t, other, "k").Holder == nil })
	})
}

// Who waits is shown in order, by whichever process; those behind another of their own process by that process.
func TestInspectTellsWhoWaits(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		held := acquire(t, k.open(t, dsn, 0), "k")
		lockers := []locker{k.open(t, dsn, 0), k.open(t, dsn, 0), k.open(t, dsn, 0)}
		ended := make(chan error, 4)
		wait := func(l locker, who string) {
			go func() {
				lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: who})
				if err == nil {
					err = lease.Release()
				}
				ended <- err
			}()
		}
		waiting := func(by locker) (who []string) {
			for _, w := range inspect(t, by, "k").Waiters {
				if time.Since(w.Since) > time.Minute || time.Until(w.Since) > time.Minute {
					t.Errorf("%s waits since %v", w.Who, w.Since)
				}
				who = append(who, w.Who)
			}
			return who
		}
		want := []string{"a/1", "b ?*/ é/2", "c/3"}
		for i, who := range want {
			wait(lockers[i], who)
			eventually(t, 10*time.Second, who+" waits", func() bool { return slices.Equal(waiting(lockers[0]), want[:i+1]) })
		}
		wait(lockers[1], "b/4") // its place at the server is that of the one before it
		eventually(t, 10*time.Second, "b/4 is seen by its own process", func() bool {
			return slices.Equal(waiting(lockers[1]), append(slices.Clone(want), "b/4"))
		})
		if got := waiting(lockers[2]); !slices.Equal(got, want) {
			t.Errorf("another process sees %q, want %q", got, want)
		}
		if s := inspect(t, lockers[0], "another"); s.Waiters != nil {
			t.Errorf("another key: %+v", s)
		}
		release(t, held)
		for range 4 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if got := waiting(lockers[1]); got != nil {
			t.Errorf("%q wait at the end", got)
		}
	})
}

// All that wait in a process with HandOver are shown by it, in the order in which they come in, behind its one contender.
func TestInspectThroughHandOver(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := lock.HandOver(k.open(t, database(t), 0), lock.Bound{Time: time.Hour})
		held, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "app/0"})
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 3)
		var want []string
		for i := range 3 {
			who := fmt.Sprint("app/", i+1)
			want = append(want, who)
			go func() {
				lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: who})
				if err != nil {
					t.Error(err)
					order <- ""
					return
				}
				if h := inspect(t, l, "k").Holder; h == nil || h.Who != who || h.Fence != lease.Fence() {
					t.Errorf("%s holds with fence %d, and %+v is shown", who, lease.Fence(), h)
				}
				order <- who
				_ = lease.Release()
			}()
			eventually(t, 10*time.Second, who+" waits", func() bool { return len(inspect(t, l, "k").Waiters) == i+1 })
		}
		for i, w := range inspect(t, l, "k").Waiters {
			if w.Who != want[i] {
				t.Errorf("place %d is %s, want %s", i, w.Who, want[i])
			}
		}
		release(t, held)
		for _, who := range want {
			if got := <-order; got != who {
				t.Errorf("%s came in, %s was shown in that place", got, who)
			}
		}
	})
}

// A server without the tables is told from one where nobody holds anything.
func TestInspectWithoutTables(t *testing.T) {
	dsn := servers.MariaDB(t)
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, dsn, 0)
		_, inspected := lock.Inspect(t.Context(), l, "k")
		_, evicted := lock.Evict(t.Context(), l, "k")
		_, listed := l.(lock.Lister).Keys(t.Context())
		for _, err := range []error{inspected, evicted, listed} {
			if !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "run stock migrate up") {
				t.Errorf("%v, want ErrDown that names the fix", err)
			}
		}
	})
}
