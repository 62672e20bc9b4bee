package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// few makes a lock that has connections for that many keys at a time.
func (k kind) few(t *testing.T, dsn string, keys int) locker {
	t.Helper()
	l := k.make(pool(t, dsn, keys+2), ConnOptions{MaxConns: keys})
	t.Cleanup(func() { l.Close() })
	return l
}

// noCapacity wants an error that says nothing of a holder.
func noCapacity(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, lock.ErrNoCapacity) || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrDown) {
		t.Errorf("%s: %v, want ErrNoCapacity and neither ErrHeld nor ErrDown", what, err)
	}
	if err != nil && !strings.HasPrefix(err.Error(), `acquire lock "`) {
		t.Errorf("%s: %v, which does not name the lock", what, err)
	}
}

// waiting is how many statements wait for a lock in the database of db.
func waiting(t testing.TB, db *sql.DB) int {
	t.Helper()
	return count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"+
		" AND ID <> CONNECTION_ID() AND (INFO LIKE '%FOR UPDATE%' OR INFO LIKE '%GET_LOCK%')")
}

// As many keys are held as there are connections for. Who asks for another one is told that, and not that it is held,
// which nobody knows; who waits gets it as soon as one of them is given back. 30 callers for one key need one.
func TestMoreKeysThanConnections(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		l := k.few(t, database(t), 3)
		var stuck []*lock.Lease
		for i := range 3 {
			stuck = append(stuck, acquire(t, l, keyN(i)))
		}
		noCapacity(t, "a try", try(t, l, "free"))
		reason := errors.New("that is long enough")
		short, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, reason)
		defer cancel()
		err := <-come(short, l, "free", "")
		noCapacity(t, "a wait", err)
		if !errors.Is(err, reason) {
			t.Errorf("a wait: %v, want why it ended, too", err)
		}
		if err := try(t, l, keyN(0)); !errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrNoCapacity) {
			t.Errorf("a key that is held here: %v, want ErrHeld", err)
		}
		var came []<-chan error
		for range 30 {
			came = append(came, come(t.Context(), l, "free", ""))
		}
		release(t, stuck[0])
		for _, one := range came {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
	})
}

// Those who wait for keys that others do not let go of leave room to those who ask for another key: however many they
// are, that one is had. With a single connection nobody waits at the server. When the keys are free, each of those who
// wait gets its own.
func TestStuckKeysLeaveRoom(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		for _, keys := range []int{1, 4} {
			dsn := database(t)
			const stuck = 9
			others := k.few(t, dsn, stuck)
			var held []*lock.Lease
			for i := range stuck {
				held = append(held, acquire(t, others, keyN(i)))
			}
			l := k.few(t, dsn, keys)
			var came []<-chan error
			for i := range stuck {
				came = append(came, come(t.Context(), l, keyN(i), ""))
			}
			db := pool(t, dsn, 1)
			eventually(t, "half of the connections wait at the server", func() bool { return waiting(t, db) >= keys/2 })
			for range 5 {
				release(t, acquire(t, l, "free"))
			}
			for _, lease := range held {
				release(t, lease)
			}
			for _, one := range came {
				if err := <-one; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// Somebody else has taken the connections that fences need: that is an error soon, and no lock is left.
func TestNoConnectionForTheFence(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := pool(t, dsn, 3)
	l := NewForUpdate(db, ConnOptions{MaxConns: 2})
	t.Cleanup(func() { l.Close() })
	warm(t, l) // has one connection now
	for range 2 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	noCapacity(t, "a fence", <-come(t.Context(), l, "k", ""))
	release(t, acquire(t, forUpdate.open(t, dsn, ConnOptions{}), "k"))
}

// A deaf primitive is told that it holds the key, whatever the server says.
type deaf struct{ primitive }

func (deaf) holds(context.Context, *session, string) (bool, error) { return true, nil }

// The end of the connection is the end of the lock: the next one gets it at once, and the holder is told by its socket,
// before it asks the server.
func TestTheHoldersConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l, other := k.open(t, dsn, ConnOptions{}), k.open(t, dsn, ConnOptions{})
		pinnedOf(l).primitive = deaf{pinnedOf(l).primitive}
		id := warm(t, l)
		held := acquire(t, l, "k")
		kill(t, pool(t, dsn, 1), id)
		next := acquire(t, other, "k")
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) || !strings.Contains(err.Error(), "connection") {
			t.Errorf("loss: %v, want ErrExpired because of the connection", err)
		}
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
		if err := try(t, other, "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("the release of a lost lease let others in: %v", err)
		}
	})
}

// The session of a holder may live on without its lock: a server can end a transaction alone. The next renewal notices
// it, and the session is used for nothing more.
func TestTheLockEndsAndTheSessionDoesNot(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		l := k.open(t, database(t), ConnOptions{Lease: time.Second})
		id := warm(t, l)
		p := pinnedOf(l)
		s := p.sessions.idle[0]
		lease := acquire(t, l, "k")
		s.using.Lock()
		err := p.primitive.release(t.Context(), s, "k")
		s.using.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if err := loss(t, lease); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("lost because of %v, want ErrExpired", err)
		}
		_ = lease.Release()
		if again := warm(t, l); again == id {
			t.Error("the session is used again")
		}
	})
}

// A connection that was ended while it was idle is nobody's loss and nobody's failure.
func TestAnIdleConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, ConnOptions{})
		for range 5 {
			id := warm(t, l)
			kill(t, db, id)
			if err := try(t, l, "k"); err != nil {
				t.Fatalf("acquire: %v", err)
			}
			if warm(t, l) == id {
				t.Fatal("it was not killed")
			}
		}
		id := warm(t, l)
		if err := l.Close(); err != nil { // it does not find its way back into the pool
			t.Fatal(err)
		}
		eventually(t, "the connection is closed", func() bool {
			return count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", id) == 0
		})
	})
}

// Who loses the key between the lock and its fence, and draws the fence after the next holder, must not pass for the
// later one.
func TestAFenceThatIsDrawnTooLate(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, dsn)
		l := k.open(t, p.dsn, ConnOptions{})
		id := warm(t, l)
		fence := p.Set(wire.Trap{Match: wire.Contains("LAST_INSERT_ID"), Do: wire.Hold})
		came := make(chan error, 1)
		go func() { came <- try(t, l, "k") }()
		<-fence.Sprung()
		p.Silence(wire.ToClient) // or it would hear of the end before the next one has the key
		kill(t, pool(t, dsn, 1), id)
		acquire(t, k.open(t, dsn, ConnOptions{}), "k")
		fence.Release()
		p.Silence()
		if err := <-came; !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrDown) { // the server may be busy
			t.Errorf("%v, want ErrHeld", err)
		}
	})
}

// A late fence is one whose server was heard of a lease ago.
type lateFence struct{ primitive }

func (l lateFence) drawFence(
	ctx context.Context, s *session, key string, o lock.Options,
) (lock.Fence, time.Time, error) {
	fence, heard, err := l.primitive.drawFence(ctx, s, key, o)
	return fence, heard.Add(-lock.Valid(10 * time.Second)), err
}

// A process that was paused while it drew the fence has no lease: the server has ended the connection by then. A long
// wait before the fence does not count.
func TestALeaseBeginsWhenTheWaitEnds(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.open(t, dsn, ConnOptions{})
		sound := pinnedOf(l).primitive
		pinnedOf(l).primitive = lateFence{sound}
		if err := try(t, l, "k"); !errors.Is(err, lock.ErrDown) {
			t.Errorf("%v; want down", err)
		}
		const lease = time.Second
		held, waiter := acquire(t, k.open(t, dsn, ConnOptions{}), "k"), k.open(t, dsn, ConnOptions{Lease: lease})
		warm(t, waiter)
		came := come(t.Context(), waiter, "k", "")
		<-time.After(lease)
		release(t, held)
		if err := <-came; err != nil {
			t.Errorf("after a wait of a lease: %v", err)
		}
	})
}

// A connection on which a statement waits for a row does not end when it is closed: the server does not look at the
// network meanwhile. It is told from another one.
func TestABrokenConnectionIsEndedAtTheServer(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	held := acquire(t, forUpdate.open(t, dsn, ConnOptions{}), "k")
	l := NewForUpdate(pool(t, dsn, 4), ConnOptions{})
	t.Cleanup(func() { _ = l.Close() })
	s, err := l.sessions.take(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	watch := pool(t, dsn, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.conn.ExecContext(ctx, "SELECT name FROM lock_rows WHERE name = 'k' FOR UPDATE")
		ended <- err
	}()
	eventually(t, "it waits", func() bool { return waiting(t, watch) == 1 })
	cancel()
	if s.check(<-ended) == nil || !s.broken {
		t.Fatal("the statement ended: this proves nothing")
	}
	l.sessions.put(t.Context(), s)
	eventually(t, "it is gone", func() bool { return waiting(t, watch) == 0 })
	release(t, held)
}
