package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

func inspect(t testing.TB, l lock.Locker, key string) lock.State {
	t.Helper()
	s, err := insist(func() (lock.State, error) { return lock.Inspect(t.Context(), l, key) })
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
		l, other := k.open(t, dsn, 0), k.open(t, dsn, 0)
		id := warm(t, l)
		held := acquire(t, l, "k")
		if s := inspect(t, other, "k"); s.Holder == nil || s.Holder.Fence != held.Fence() {
			t.Errorf("%+v, want fence %d", s.Holder, held.Fence())
		}
		execSQL(t, pool(t, dsn, 1), fmt.Sprintf("KILL CONNECTION %d", id))
		eventually(t, "nobody holds", func() bool { return inspect(t, other, "k").Holder == nil })
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
			eventually(
				t, who+" waits",
				func() bool { return slices.Equal(waiting(lockers[0]), want[:i+1]) },
			)
		}
		wait(lockers[1], "b/4") // its place at the server is that of the one before it
		eventually(t, "b/4 is seen by its own process", func() bool {
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

// All that wait in a process with HandOver are shown by it, in the order in which they come in, behind its one
// contender.
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
			eventually(t, who+" waits", func() bool { return len(inspect(t, l, "k").Waiters) == i+1 })
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
			if !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "stock migrate up") {
				t.Errorf("%v, want ErrDown that names the fix", err)
			}
		}
	})
}

func evict(t testing.TB, l lock.Locker, key string) lock.Fence {
	t.Helper()
	fence, err := insist(func() (lock.Fence, error) { return lock.Evict(t.Context(), l, key) })
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

// The holder loses the key to the one who waits, and with all the fences that a process hands out under one lease
// lies below the new one, which the next holder's is not below.
func TestEvictLetsTheNextOneIn(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.open(t, dsn, 3*time.Second)
		held := acquire(t, l, "k")
		waiter := k.open(t, dsn, 0)
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := waiter.Acquire(t.Context(), "k", lock.Options{})
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		if k.name != table.name {
			eventually(t, "it waits", func() bool { return len(inspect(t, l, "k").Waiters) == 1 })
		}
		fence := evict(t, k.open(t, dsn, 0), "k")
		if most := held.Fence() + fenceDistance - 1; fence <= most {
			t.Errorf("fence %d, those of the evicted go up to %d", fence, most)
		}
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrTaken) {
			t.Errorf("loss: %v", err)
		}
		next := <-got
		if next == nil {
			t.FailNow()
		}
		if next.Fence() < fence {
			t.Errorf("the next holder's fence is %d, below %d", next.Fence(), fence)
		}
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
		if h := inspect(t, l, "k").Holder; h == nil || h.Fence != next.Fence() {
			t.Errorf("%+v, want the next holder: the evicted one's release must not touch it", h)
		}
		release(t, next)
	})
}

// Where nobody holds, nobody is harmed, and the fence goes up all the same.
func TestEvictNobody(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, database(t), 0)
		first := evict(t, l, "k")
		held := acquire(t, l, "k")
		other := acquire(t, l, "another")
		release(t, held)
		second := evict(t, l, "k")
		if first == lock.NoFence || held.Fence() < first || second <= held.Fence() {
			t.Errorf("fences %d, then %d of a holder, then %d", first, held.Fence(), second)
		}
		if err := other.Err(); err != nil {
			t.Errorf("the holder of another key: %v", err)
		}
		free(t, l, "k")
	})
}

// Whichever of its requests is cut off, what is told without an error is the truth.
func TestInspectCutAtEveryRequest(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		holders, asks := k.open(t, dsn, 0), k.open(t, via(dsn, p), 0)
		held, waiting := acquire(t, holders, "k"), k.open(t, dsn, 0)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := waiting.Acquire(ctx, "k", lock.Options{})
			left <- err
		}()
		var want lock.State
		eventually(t, "one waits", func() bool {
			var err error
			want, err = lock.Inspect(t.Context(), asks, "k")
			told := len(want.Waiters) == 1 || k.name == table.name // which does not know the waiters
			return err == nil && want.Holder != nil && told
		})
		p.cutEach(func(n int) {
			got, err := lock.Inspect(t.Context(), asks, "k")
			if err == nil && (got.Holder == nil || got.Holder.Fence != want.Holder.Fence ||
				len(got.Waiters) != len(want.Waiters)) {
				t.Errorf("request %d was cut off: %+v, want %+v", n, got, want)
			}
		})
		leave()
		if err := <-left; err == nil {
			t.Error("the waiter has the lock, too")
		}
		release(t, held)
	})
}

// Whichever of its requests is cut off, an eviction that reports no error has ended the lease.
func TestEvictCutAtEveryRequest(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		holders, evictor := k.open(t, dsn, 0), k.open(t, via(dsn, p), 0)
		p.cutEach(func(n int) {
			held := acquire(t, holders, "k")
			if _, err := lock.Evict(t.Context(), evictor, "k"); err != nil {
				_ = held.Release()
				return
			}
			select {
			case <-held.Done():
			case <-time.After(patience):
				t.Errorf("request %d was cut off: no error, and the holder still has the lock", n)
				release(t, held)
			}
		})
	})
}

// A holder that the network cuts off is evicted long before its lease is over, and knows when it hears again.
func TestEvictAHolderThatIsCutOff(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		lease := time.Minute // nobody waits for it
		if k.name == table.name {
			lease = 3 * time.Second // the holder learns of it at the next renewal
		}
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		held := acquire(t, k.open(t, via(dsn, p), lease), "k")
		p.Silence(wire.ToServer, wire.ToClient)
		l := k.open(t, dsn, 0)
		fence := evict(t, l, "k")
		if next := acquire(t, l, "k"); fence <= held.Fence() || next.Fence() < fence {
			t.Errorf("fences %d, evicted by %d, then %d", held.Fence(), fence, next.Fence())
		}
		p.Silence()
		_ = loss(t, held)
	})
}

// A row without a time limit, whose holder does not come back, needs no hand in the database any more.
func TestEvictFromARowForEver(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	held := acquire(t, noExpiry.open(t, dsn, 0), "k")
	l := table.open(t, dsn, 0)
	if s := inspect(t, l, "k"); s.Holder == nil || s.Holder.Remaining != lock.Forever {
		t.Errorf("%+v, want a holder for ever", s.Holder)
	}
	fence := evict(t, l, "k")
	if next := acquire(t, l, "k"); fence <= held.Fence() || next.Fence() < fence {
		t.Errorf("fences %d, evicted by %d, then %d", held.Fence(), fence, next.Fence())
	}
}

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
			eventually(t, "it waits", func() bool { return len(inspect(t, l, "a").Waiters) == 1 })
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

// A user that may use the tables of the service and nothing else on the server can inspect and evict, but not take a
// connection from another user, and is told how that is fixed.
func TestInspectAndEvictWithoutPrivileges(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		plain := ordinary(t, dsn)
		held, err := k.open(t, plain, 0).Acquire(t.Context(), "k", lock.Options{Owner: "app/1"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Release() }()
		other := k.open(t, plain, 0)
		if h := inspect(t, other, "k").Holder; h == nil || h.Who != "app/1" || h.Remaining <= 0 {
			t.Errorf("%+v, want app/1 and what it has left", h)
		}
		fence, err := lock.Evict(t.Context(), other, "k")
		if err != nil || fence <= held.Fence() {
			t.Errorf("evict: fence %d after %d, %v", fence, held.Fence(), err)
		}
		free(t, other, "k")
		foreign := acquire(t, k.open(t, dsn, 0), "k")
		fence, err = lock.Evict(t.Context(), other, "k")
		if k.name == table.name {
			if err != nil || fence <= foreign.Fence() {
				t.Errorf("evict another user: fence %d after %d, %v", fence, foreign.Fence(), err)
			}
			return
		}
		if !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "cannot-kill") {
			t.Errorf("evict another user: %v, want an error that names the privilege", err)
		}
		if h := inspect(t, other, "k").Holder; h == nil || h.Fence != foreign.Fence() {
			t.Errorf("%+v, want the holder that could not be evicted", h)
		}
	})
}

// ordinary is the DSN of a user who may use the tables of dsn's database, and nothing else on the server.
func ordinary(t testing.TB, dsn string) string {
	t.Helper()
	db := pool(t, dsn, 1)
	var name string
	if err := db.QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	user := "u" + name[max(0, len(name)-24):]
	execSQL(t, db, "CREATE USER "+user+" IDENTIFIED BY 'secret'")
	execSQL(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO "+user)
	t.Cleanup(func() { execSQL(t, db, "DROP USER "+user) })
	_, address, _ := strings.Cut(dsn, "@")
	return user + ":secret@" + address
}

// What begins like a label and is none names no waiter, and does no harm.
func TestNoLabel(t *testing.T) {
	t.Parallel()
	good := label{"k", "app-1", time.UnixMilli(1_700_000_000_123)}.String()
	if _, ok := parseLabel("SELECT 1" + good); !ok {
		t.Fatalf("%q is no label", good)
	}
	for _, text := range []string{
		"", "SELECT 1", " /* waits k 1 */", " /* waits k */", " /* waits k 1 app-1 more */", " /* waits k now app-1 */",
		" /* waits %zz 1 app-1 */", " /* waits k 1 %zz */", " /* waits k 1 app-1", good + " LIMIT 1",
	} {
		if got, ok := parseLabel("SELECT 1" + text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func FuzzLabel(f *testing.F) {
	f.Add("k", "app-1/request-7")
	f.Add("*/ DROP TABLE locks; /* waits a 1 b */", "? % \x00 \xff é")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, name, who string) {
		l := label{name, who, time.UnixMilli(1_700_000_000_123)}
		text := l.String()
		inside := strings.TrimSuffix(strings.TrimPrefix(text, " /*"), "*/")
		if strings.ContainsAny(inside, "*?'\"\\") {
			t.Errorf("%q is no comment, or has parameters", text)
		}
		if got, ok := parseLabel(
			"SELECT 1 FROM lock_rows WHERE name = '" + name + "' FOR UPDATE" + text,
		); !ok ||
			got != l {
			t.Errorf("%q is read as %+v, want %+v", text, got, l)
		}
	})
}

// Two hundred keys take as many requests as one, and the keys of a long list are all inspected.
func TestInspectAllTakesTheRequestsOfOneKey(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		holders, l := k.open(t, dsn, 0), k.open(t, via(dsn, p), 0)
		keys := make([]string, 200)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
		}
		long := strings.Repeat("é", 200)
		keys[100], keys[150] = long, keys[7]
		for _, key := range []string{keys[0], keys[7], keys[199], long} {
			acquire(t, holders, key)
		}
		waiter := k.open(t, dsn, 0)
		ended := make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			_, _ = waiter.Acquire(ctx, keys[7], lock.Options{Owner: "app/1"})
		}()
		defer func() {
			leave()
			<-ended
		}()
		if k.name != table.name {
			eventually(t, "it waits", func() bool { return len(inspect(t, l, keys[7]).Waiters) == 1 })
		}
		requests := func(keys []string) int {
			p.reset()
			states, err := insist(func() ([]lock.State, error) {
				p.reset()
				return lock.InspectAll(t.Context(), l, keys)
			})
			if err != nil || len(states) != len(keys) {
				t.Errorf("%d states of %d keys, %v", len(states), len(keys), err)
			}
			return len(p.seen())
		}
		requests(keys[:1]) // makes the connection
		if one, many := requests(keys[:1]), requests(keys); one == 0 || many != one {
			t.Errorf("%d requests for one key, %d for 200", one, many)
		}
		if err := locktest.SameStates(t.Context(), l, keys); err != nil {
			t.Error(err)
		}
		for len(keys) <= batch {
			keys = append(keys, fmt.Sprint("more", len(keys)))
		}
		keys = append(keys, keys[0])
		states, err := insist(func() ([]lock.State, error) { return lock.InspectAll(t.Context(), l, keys) })
		if err != nil || len(states) != len(keys) || states[len(keys)-1].Holder == nil {
			t.Errorf("%d states of %d keys, %v", len(states), len(keys), err)
		}
	})
}
