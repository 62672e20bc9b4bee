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
			before := time.Now().Add(-time.Second) // what the clocks of two processes may differ by
			held := insist(t, func(ctx context.Context) (*lock.Lease, error) {
				return l.Acquire(ctx, "k", lock.Options{Owner: who})
			})
			h := inspect(t, other, "k").Holder
			switch {
			case h == nil:
				t.Errorf("%q holds, and nobody is seen to", who)
			case h.Who != ownerColumn(who) || h.Fence != held.Fence() || h.Remaining <= 0 || h.Remaining > 10*time.Second:
				t.Errorf("%+v, want %q with fence %d and up to 10 s left", h, who, held.Fence())
			case h.Since.Before(before) || h.Since.After(time.Now().Add(time.Second)):
				t.Errorf("since %v, want about now", h.Since)
			}
			var busy *lock.HeldError
			if err := try(t, other, "k"); !errors.As(err, &busy) || k.name == table.name && busy.Holder != ownerColumn(who) {
				t.Errorf("%v, want the holder %q", err, who)
			}
			release(t, held)
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
		var came []<-chan error
		want := []string{"a/1", "b ?*/ é/2"}
		for i, l := range []locker{a, b} {
			came = append(came, come(t.Context(), l, "k", want[i]))
			eventually(t, want[i]+" waits", func() bool { return slices.Equal(waiters(t, a, "k"), want[:i+1]) })
		}
		came = append(came, come(t.Context(), b, "k", "b/3")) // its place at the server is that of the one before it
		eventually(t, "b/3 is seen by its own process", func() bool {
			return slices.Equal(waiters(t, b, "k"), append(slices.Clone(want), "b/3"))
		})
		if got := waiters(t, a, "k"); !slices.Equal(got, want) {
			t.Errorf("another process sees %q, want %q", got, want)
		}
		release(t, held)
		for _, one := range came {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
	})
}

// Keys that somebody holds or waits for are listed, each once, and no others. Hundreds of them are inspected in the
// round trips of one.
func TestKeys(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, dsn)
		holders, l := k.open(t, dsn, ConnOptions{MaxConns: 5}), k.open(t, p.dsn, ConnOptions{})
		keys := make([]string, 200)
		for i := range keys {
			keys[i] = keyN(i)
		}
		long := strings.Repeat("é", 200)
		keys[100], keys[150] = long, keys[7]
		var held []*lock.Lease
		for _, key := range []string{"A#1", "a", keys[7], long} {
			held = append(held, acquire(t, holders, key))
		}
		release(t, acquire(t, holders, "free"))
		ctx, leave := context.WithCancel(t.Context())
		waits := come(ctx, k.open(t, dsn, ConnOptions{}), "a", "app/1")
		if k.name != table.name { // which does not know who waits
			eventually(t, "one waits", func() bool { return len(waiters(t, l, "a")) == 1 })
		}
		list := func() []string {
			names := insist(t, l.Keys)
			slices.Sort(names)
			return names
		}
		if got := list(); !slices.Equal(got, []string{"A#1", "a", keys[7]}) {
			t.Errorf("%q, want A#1, a and key-7", got)
		}
		requests := func(keys []string) int {
			return len(p.during(func() {
				_ = insist(t, func(ctx context.Context) ([]lock.State, error) { return lock.InspectAll(ctx, l, keys) })
			}))
		}
		if one, many := requests(keys[:1]), requests(keys); one == 0 || many != one {
			t.Errorf("%d requests for one key, %d for 200", one, many)
		}
		if err := locktest.SameStates(t.Context(), l, append(keys[90:110], keys[7], "a")); err != nil {
			t.Error(err)
		}
		leave()
		<-waits
		for _, lease := range held {
			release(t, lease)
		}
		if got := list(); len(got) != 0 {
			t.Errorf("%q when all are released", got)
		}
	})
}

// The holder loses the key to the one who waits, and with all the fences that a process hands out under one lease
// lies below the new one, which the next holder's is not below. Where nobody holds, the fence goes up all the same.
func TestEvict(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		l, other := k.open(t, dsn, ConnOptions{Lease: 3 * time.Second}), k.open(t, dsn, ConnOptions{})
		evict := func() lock.Fence {
			return insist(t, func(ctx context.Context) (lock.Fence, error) { return other.Evict(ctx, "k") })
		}
		first, bystander := evict(), acquire(t, l, "another")
		held := acquire(t, l, "k")
		fence := evict()
		if held.Fence() < first || fence < held.Fence()+fenceDistance {
			t.Errorf("fences %d, then %d to %d of a holder, then %d", first, held.Fence(), held.Fence()+63, fence)
		}
		next := acquire(t, other, "k")
		if next.Fence() < fence {
			t.Errorf("the next holder's fence is %d, below %d", next.Fence(), fence)
		}
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrTaken) {
			t.Errorf("loss: %v", err)
		}
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
		if h := inspect(t, l, "k").Holder; h == nil || h.Fence != next.Fence() {
			t.Errorf("%+v, want the next holder: the evicted one's release must not touch it", h)
		}
		if err := bystander.Err(); err != nil {
			t.Errorf("the holder of another key: %v", err)
		}
	})
}

// A user that may use the tables of the service and nothing else on the server can inspect and evict, but not take a
// connection from another user, and is told how that is fixed.
func TestInspectAndEvictWithoutPrivileges(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 1)
		name := dsn[strings.LastIndexByte(dsn, '/')+1:]
		user := "u" + name[max(0, len(name)-24):]
		execSQL(t, db, "CREATE USER "+user+" IDENTIFIED BY 'secret'")
		execSQL(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO "+user)
		t.Cleanup(func() { execSQL(t, db, "DROP USER "+user) })
		_, address, _ := strings.Cut(dsn, "@")
		plain := user + ":secret@" + address

		held, other := acquire(t, k.open(t, plain, ConnOptions{}), "k"), k.open(t, plain, ConnOptions{})
		if h := inspect(t, other, "k").Holder; h == nil || h.Who != "k" || h.Remaining <= 0 {
			t.Errorf("%+v, want the owner and what it has left", h)
		}
		evict := func(ctx context.Context) (lock.Fence, error) { return other.Evict(ctx, "k") }
		if fence := insist(t, evict); fence <= held.Fence() {
			t.Errorf("evict: fence %d after %d", fence, held.Fence())
		}
		foreign := acquire(t, k.open(t, dsn, ConnOptions{}), "k")
		_, err := evict(t.Context())
		if k.name == table.name {
			if err != nil {
				t.Errorf("evict another user: %v", err)
			}
			return
		}
		if !errors.Is(err, lock.ErrDown) || !strings.Contains(fmt.Sprint(err), "cannot-kill") {
			t.Errorf("evict another user: %v, want an error that names the privilege", err)
		}
		if h := inspect(t, other, "k").Holder; h == nil || h.Fence != foreign.Fence() {
			t.Errorf("%+v, want the holder that could not be evicted", h)
		}
	})
}

// What begins like a label and is none names no waiter, and does no harm.
func TestNoLabel(t *testing.T) {
	good := label{"k", "app-1", time.UnixMilli(1_700_000_000_123)}.String()
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
		if got, ok := parseLabel("SELECT 1 FROM lock_rows WHERE name = '" + name + "' FOR UPDATE" + text); !ok || got != l {
			t.Errorf("%q is read as %+v, want %+v", text, got, l)
		}
	})
}
