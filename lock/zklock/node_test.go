package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
)

// An evicted holder is told, also after a reconnect. The waiter that people see is in then. A free key can be evicted.
func TestEvictAfterAReconnect(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for waiters, r := range []recipe{ephemeral{}, sequential{}} { // the server does not know who waits for the first
		p := proxied(t, host)
		l, other := on(dial(t, p.Addr()), r), on(dial(t, host), r)
		holder := acquire(t, l)
		next := acquireLater(t, other)
		locktest.Eventually(t, "a waiter", func() bool {
			s, err := lock.Inspect(t.Context(), l, key)
			return err == nil && s.Holder != nil && len(s.Waiters) == waiters
		})
		<-time.After(2 * heartbeatInterval) // the holder watches its node by now, or does so later
		p.Cut()
		fence := evict(t, other)
		if loss := locktest.Loss(t, holder); !errors.Is(loss, lock.ErrTaken) {
			t.Errorf("%T: %v, want ErrTaken", r, loss)
		}
		lease := <-next
		locktest.Release(t, lease)
		if free := evict(t, other); fence > lease.Fence() || free <= lease.Fence() {
			t.Errorf("%T: fences %d, %d, %d", r, fence, lease.Fence(), free)
		}
	}
}

// A try is told who holds the key. If it is overtaken between its look at the key and its node, it does not wait, and
// leaves nothing behind.
func TestTries(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, r := range recipes {
		p := proxied(t, host)
		l, other := on(dial(t, p.Addr()), r), on(dial(t, host), r)
		locktest.Release(t, acquire(t, l)) // makes the folder and reads the record
		create := p.Set(wire.Trap{Match: is(opMulti), Do: wire.Hold})
		tried := make(chan error, 1)
		go func() { tried <- locktest.Try(t, l, key) }()
		<-create.Sprung()
		holder := acquire(t, other)
		create.Release()
		if err := <-tried; !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrDown) { // the server may be busy
			t.Errorf("%T: overtaken: %v, want ErrHeld", r, err)
		}
		err := refused(t, l, lock.Options{TryOnce: true})
		if held, is := errors.AsType[*lock.HeldError](err); !is || held.Holder != "holder" {
			t.Errorf("%T: %v, want the name of the holder", r, err)
		}
		locktest.Release(t, holder)
		locktest.Release(t, acquire(t, other))
	}
}

// A node that another made by hand, and that no session will take away, is told of, and can be evicted. What an
// operator writes to the folder does not keep a holder from giving the lock back, and an evicted holder does not give
// back the next one's.
func TestALockNodeThatNobodyOwns(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	e, c := NewEphemeral(dial(t, host)), raw(t, host)
	folder := rootOf(t) + "/" + key + ephemeralSuffix
	lease := acquire(t, e)
	_, err := c.Set(folder, []byte("a note"), -1)
	must(t, err)
	locktest.Release(t, lease)
	evicted := acquire(t, e)
	evict(t, e)
	next := acquire(t, e)
	if err := evicted.Release(); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("release of an evicted holder: %v, want ErrTaken", err)
	}
	locktest.Release(t, next)
	_, err = c.Create(folder+"/"+ephemeralName, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	for _, o := range []lock.Options{{}, {TryOnce: true}} {
		saysDown(t, o, refused(t, e, o), "foreign-nodes")
	}
	evict(t, e)
	locktest.Release(t, acquire(t, e))
}

// The herd's waiters that give up leave no watch behind that would be set again and again.
func TestTheHerdSharesAWatchInAProcess(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	holder := acquire(t, NewEphemeral(dial(t, host)))
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := NewEphemeral(s).Acquire(ctx, key, lock.Options{}); err == nil {
			t.Error("got a held key")
		}
		cancel()
	}
	if n := s.watchCount(); n > 1 {
		t.Errorf("%d watches", n)
	}
	locktest.Release(t, holder)
	locktest.Eventually(t, "no watch left", func() bool { return s.watchCount() == 0 })
}

// refusal returns a trap's reply to a request: only the header, with an error.
func refusal(code int32) func([]byte) []byte {
	return func(request []byte) []byte {
		reply := binary.BigEndian.AppendUint32(nil, 4+8+4)
		reply = append(reply, request[4:8]...)          // xid
		reply = binary.BigEndian.AppendUint64(reply, 1) // transaction
		return binary.BigEndian.AppendUint32(reply, uint32(code))
	}
}

// is returns a match for the requests of one operation.
func is(operation uint32) func([]byte) bool {
	return func(m []byte) bool { return len(m) >= opAt+4 && binary.BigEndian.Uint32(m[opAt:]) == operation }
}

const (
	opSync  = 9
	opMulti = 14
	opAuth  = 100
	opAt    = 8 // the offset of the operation in a request: after its length and its xid
)

// afterGreeting matches every message of a client but the greeting.
func afterGreeting(m []byte) bool { return len(m) >= opAt && binary.BigEndian.Uint32(m[4:]) != 0 }

// A reply with any error is an answer: the create was not executed. So it is sent once, no node is searched for, and
// the caller gets the reason, or the code.
func TestARefusedCreateIsNotRepeated(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	l := NewSequential(s)
	locktest.Release(t, acquire(t, l)) // makes the folder and reads the record
	for code, want := range map[int32]string{
		-125:  "quota-exceeded (root=" + rootOf(t) + ")",
		-124:  "wants-authentication",
		-114:  "wants-authentication",
		-102:  "not-allowed (root=" + rootOf(t),
		-127:  "refuses (code=-127)",
		-4242: "refuses (code=-4242)",
	} {
		before := p.Requests()
		snare := p.Set(wire.Trap{Match: is(opMulti), Do: wire.Answer, Every: true, Answer: refusal(code)})
		saysDown(t, code, refused(t, l, lock.Options{}), want)
		if sent := p.Requests() - before; sent != 1 { // a search for a node would be another one
			t.Errorf("%d: %d requests, want 1", code, sent)
		}
		snare.Release()
	}
}
