package mysqllock

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// forgets deletes the rows that l would, of keys whose last fence is older than age.
func forgets(ctx context.Context, l locker, db *sql.DB, age time.Duration) error {
	switch l := l.(type) {
	case *ForUpdate:
		return l.primitive.forget(ctx, db, age)
	case *GetLock:
		return l.primitive.forget(ctx, db, age)
	}
	return lockTable.forget(ctx, db, age)
}

// tables are those in which a kind keeps rows, the one with the fence first.
func (k kind) tables() []string {
	return map[string][]string{
		table.name: {"locks"}, forUpdate.name: {"lock_fences", "lock_rows"}, getLock.name: {"lock_fences"},
	}[k.name]
}

// The rows of keys that were used once are bounded: they go when their fence is two days old, also many of them, and
// the next fence of such a key is larger. Rows of keys that are held, that were used since, or whose fence is ahead
// of the clock stay.
func TestOldRowsAreForgotten(t *testing.T) {
	eachBeside(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, 0)
		last := make(map[string]lock.Fence)
		const old = 2*forgetBatch + 7
		for i := range old {
			lease := acquire(t, l, keyN(i))
			last[keyN(i)] = lease.Fence()
			release(t, lease)
		}
		const days = 50 * 3600 * 1_000_000
		execSQL(t, db, "UPDATE "+k.tables()[0]+" SET fence = fence - ?", int64(days))
		for _, key := range []string{"new", "ahead"} {
			release(t, acquire(t, l, key))
		}
		execSQL(t, db, "UPDATE "+k.tables()[0]+" SET fence = fence + ? WHERE name = 'ahead'", int64(days))
		held := acquire(t, l, "held")
		if k.name != getLock.name { // there it holds nothing in a row
			execSQL(t, db, "UPDATE "+k.tables()[0]+" SET fence = fence - ? WHERE name = 'held'", int64(days))
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon) // far less than InnoDB would have it wait for the holder
		defer cancel()
		if err := forgets(ctx, l, db, retention); err != nil {
			t.Fatal(err)
		}
		for _, table := range k.tables() {
			names, err := column(t.Context(), db, "SELECT name FROM "+table+" ORDER BY name")
			want := "ahead held new"
			if table == "lock_fences" && k.name == forUpdate.name {
				want = "ahead new" // the fence is two days old; the row that is locked is the other one
			}
			if got := strings.Join(names, " "); got != want || err != nil {
				t.Errorf("%s has rows of %.80s, %v, want %s", table, got, err, want)
			}
		}
		other := k.open(t, dsn, 0)
		if _, err := other.Acquire(t.Context(), "held", lock.Options{TryOnce: true}); err == nil {
			t.Error("got the key that is held")
		}
		release(t, held)
		for _, key := range []string{keyN(0), keyN(old - 1)} {
			lease := acquire(t, l, key)
			if lease.Fence() < last[key]+fenceDistance {
				t.Errorf("%s: fence %d after %d", key, lease.Fence(), last[key])
			}
			release(t, lease)
		}
	})
}

// Rows vanish all the time under those who acquire, release and wait: still no two hold a key, and every fence is
// larger than the one before, with room for a hand-over. The fence of a new row is the time at which its INSERT began:
// one that began before the fence of a row that is made and deleted meanwhile may get a smaller fence. That needs an
// INSERT that takes longer than the retention, here a millisecond instead of two days.
func TestRowsAreForgottenUnderLoad(t *testing.T) {
	eachBeside(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		lockers := []locker{k.open(t, dsn, 0), k.open(t, dsn, 0)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var forgetting sync.WaitGroup
		for range 2 {
			db := pool(t, dsn, 1)
			forgetting.Go(func() {
				for ctx.Err() == nil {
					if err := forgets(ctx, lockers[0], db, time.Millisecond); err != nil && ctx.Err() == nil &&
						!rowIsHeld(err) {
						t.Errorf("forget: %v", err)
						return
					}
				}
			})
		}
		var holding [2]sync.Mutex
		var last [2]lock.Fence
		var work sync.WaitGroup
		for worker := range 6 {
			work.Go(func() {
				for range stacktest.Rounds(40, 10) {
					i := worker % 2
					wait, stop := context.WithTimeout(t.Context(), patience)
					began := lock.Fence(time.Now().UnixMicro())
					lease, err := lockers[worker/2%2].Acquire(wait, keyN(i), lock.Options{})
					stop()
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					if !holding[i].TryLock() {
						t.Error("two hold a key")
						return
					}
					if lease.Fence() < last[i]+fenceDistance && began > last[i] {
						t.Errorf("fence %d after %d", lease.Fence(), last[i])
					}
					last[i] = max(last[i], lease.Fence())
					holding[i].Unlock()
					release(t, lease)
					_ = lock.Sleep(t.Context(), 2*time.Millisecond) // so that rows grow old
				}
			})
		}
		work.Wait()
		cancel()
		forgetting.Wait()
	})
}

// One who polls for a key whose row somebody has deleted gets it: there is nothing to update, so the row is made again.
func TestAPollerOutlivesItsRow(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	holder := NewTable(pool(t, dsn, 2), TableOptions{NoExpiry: true})
	t.Cleanup(func() { holder.Close() })
	acquire(t, holder, "k")
	l := table.open(t, dsn, 0)
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		lease, err := l.Acquire(ctx, "k", lock.Options{})
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	_ = lock.Sleep(t.Context(), 300*time.Millisecond) // it polls by now
	execSQL(t, pool(t, dsn, 1), "DELETE FROM locks")
	if err := <-got; err != nil {
		t.Errorf("it polls for ever: %v", err)
	}
}

// A claim whose answer is read when its lease is over is no lease: it is given back, and asked for again. The holder's
// limit counts from before the request: here the request is held up, and the server grants it a whole lease afterwards.
func TestAGrantThatIsReadTooLate(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, addr(dsn))
	const lease = 300 * time.Millisecond
	l := table.open(t, via(dsn, p), lease)
	release(t, acquire(t, l, "k"))
	claim := p.at(1, wire.Hold)
	go func() {
		<-claim.Sprung()
		_ = lock.Sleep(t.Context(), 2*lease) // the lease is over
		claim.Release()
	}()
	held := acquire(t, l, "k")
	freed, claimed := 0, 0
	for _, request := range p.seen() {
		if strings.Contains(request, "SET token = '', who") {
			freed++
		} else if strings.Contains(request, "UPDATE locks SET token") {
			claimed++
		}
	}
	if freed < 1 || claimed < 2 {
		t.Errorf("claimed %d times and freed %d times, want the first grant given back", claimed, freed)
	}
	_ = held.Release()
	free(t, table.open(t, dsn, 0), "k")
}

// A lock looks for old rows in the background only once it was used, and ends that when it is closed.
func TestTheForgetterEnds(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	f := newForgetter(func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	f.start()
	f.start()
	f.timer.Reset(0)
	<-began
	f.close()
	select {
	case <-ended:
	default:
		t.Error("close did not wait for what was under way")
	}
	f.start()
	f.run()
	select {
	case <-began:
		t.Error("it looks on after it was closed")
	default:
	}
}
