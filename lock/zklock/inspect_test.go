package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

func inspect(t *testing.T, l lock.Locker, key string) lock.State {
	t.Helper()
	s, err := lock.Inspect(t.Context(), l, key)
	must(t, err)
	return s
}

// The order of the contenders is the order in which the contenders, of two sessions, then have the key.
func TestInspectTellsEverybodyInOrder(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	one, two := NewSequential(dial(t, host)), NewSequential(dial(t, host))
	if s := inspect(t, one, keyOf(t)); s.Holder != nil || s.Waiters != nil || s.Scope != lock.Cluster {
		t.Errorf("a key that was never used: %+v", s)
	}
	began := time.Now()
	holder, err := one.Acquire(t.Context(), keyOf(t), lock.Options{Owner: "app-1/first"})
	must(t, err)
	var mu sync.Mutex
	var served []string
	var all sync.WaitGroup
	for i, q := range []*Sequential{one, two, two, one} {
		who := fmt.Sprint("app/", i)
		all.Go(func() {
			lease, err := q.Acquire(t.Context(), keyOf(t), lock.Options{Owner: who})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			served = append(served, who)
			mu.Unlock()
			_ = lease.Release()
		})
		eventually(t, who+" waits", func() bool { return len(inspect(t, two, keyOf(t)).Waiters) == i+1 })
	}
	s := inspect(t, two, keyOf(t))
	if s.Holder == nil || s.Holder.Who != "app-1/first" || s.Holder.Fence != holder.Fence() {
		t.Errorf("holder %+v, want app-1/first with fence %d", s.Holder, holder.Fence())
	}
	var foreseen []string
	for _, w := range s.Waiters {
		foreseen = append(foreseen, w.Who)
		if w.Since.Before(began.Add(-time.Second)) || w.Since.After(time.Now().Add(time.Second)) {
			t.Errorf("%s came at %v", w.Who, w.Since)
		}
	}
	release(t, holder)
	all.Wait()
	if !slices.Equal(foreseen, served) {
		t.Errorf("foreseen %v, served %v", foreseen, served)
	}
}

// The evicted holder is told, the next one is in, and the fence lies between the two.
func TestEvict(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	one, two := NewSequential(dial(t, host)), NewSequential(dial(t, host))
	evicted := acquire(t, one)
	next := acquireLater(t, two)
	eventually(t, "one waits", func() bool { return len(inspect(t, two, keyOf(t)).Waiters) == 1 })
	fence, err := two.Evict(t.Context(), keyOf(t))
	must(t, err)
	lease := <-next
	if lease == nil {
		t.Fatal("the next one is not in")
	}
	last := evicted.Fence() + lock.Fence(one.FenceRange()) - 1 // of lock.HandOver's holders
	if last >= fence || fence > lease.Fence() {
		t.Errorf("evicted up to %d, fence %d, next %d", last, fence, lease.Fence())
	}
	lost(t, evicted)
	if err := evicted.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrTaken) {
		t.Errorf("the evicted holder was told %v", err)
	}
	if err := evicted.Release(); !errors.Is(err, lock.ErrLost) || lease.Err() != nil {
		t.Errorf("its release: %v, and the next one's lease: %v", err, lease.Err())
	}
	release(t, lease)
}

// A holder that is evicted after a reconnect is told, too: the watch is set again on every new connection.
func TestEvictAfterAReconnect(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	q, other := NewSequential(s), NewSequential(dial(t, host))
	lease := acquire(t, q)
	eventually(t, "it watches its own node", func() bool { return watchersAt(t, host, folderOf(t))[s.id()] == 1 })
	before := s.currentLink()
	before.Close()
	eventually(t, "another connection", func() bool { return s.currentLink() != before && s.State() == Connected })
	if _, err := other.Evict(t.Context(), keyOf(t)); err != nil {
		t.Fatal(err)
	}
	lost(t, lease)
	if err := lease.Err(); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("told %v", err)
	}
	_ = lease.Release()
}

func TestEvictFromAFreeKey(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q := NewSequential(dial(t, host))
	before := acquire(t, q)
	release(t, before)
	fence, err := q.Evict(t.Context(), keyOf(t))
	must(t, err)
	after := acquire(t, q)
	if before.Fence()+fenceRange-1 >= fence || fence >= after.Fence() {
		t.Errorf("before %d, fence %d, after %d: they must grow", before.Fence(), fence, after.Fence())
	}
	release(t, after)
	if left := queue(t, raw(t, host)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKeysListsWhatIsHeld(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q := NewSequential(dial(t, host))
	want := []string{t.Name() + "/日本 %41", t.Name() + "-.."}
	for _, key := range want {
		lease, err := q.Acquire(t.Context(), key, lock.Options{})
		must(t, err)
		defer release(t, lease)
	}
	release(t, acquire(t, q)) // leaves an empty folder
	keys, err := q.Keys(t.Context())
	must(t, err)
	for _, key := range want {
		if !slices.Contains(keys, key) {
			t.Errorf("%q is not in %q", key, keys)
		}
	}
	if slices.Contains(keys, keyOf(t)) {
		t.Errorf("%q is free", keyOf(t))
	}
}

// Waiters of a process that uses HandOver are known there.
func TestInspectThroughHandOver(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	here, there := lock.HandOver(NewSequential(dial(t, host)), lock.Bound{}), NewSequential(dial(t, host))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	come := func(l lock.Locker, who string) {
		all.Go(func() {
			if lease, err := l.Acquire(ctx, keyOf(t), lock.Options{Owner: who}); err == nil {
				<-ctx.Done()
				_ = lease.Release()
			}
		})
		eventually(t, who+" stands in the queue", func() bool {
			s := inspect(t, here, keyOf(t))
			waits := slices.ContainsFunc(s.Waiters, func(c lock.Contender) bool { return c.Who == who })
			return waits || s.Holder != nil && s.Holder.Who == who
		})
	}
	come(here, "h/1")
	come(there, "t/1")
	come(here, "h/2")
	s := inspect(t, here, keyOf(t))
	if s.Holder.Who != "h/1" || len(s.Waiters) != 2 || s.Waiters[0].Who != "h/2" || s.Waiters[1].Who != "t/1" {
		t.Errorf("holder %+v, waiters %+v; want h/1, and h/2 before t/1", s.Holder, s.Waiters)
	}
}

// What is known of the herd: who has the key. The evicted holder is told, and one of the waiters is in.
func TestInspectAndEvictTheHerd(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	one, two := NewEphemeral(dial(t, host)), NewEphemeral(s)
	if s := inspect(t, one, keyOf(t)); s.Holder != nil || s.Scope != lock.Cluster {
		t.Errorf("a key that was never used: %+v", s)
	}
	began := time.Now()
	evicted, err := one.Acquire(t.Context(), keyOf(t), lock.Options{Owner: "app-1/first"})
	must(t, err)
	waiting := acquireLater(t, two)
	eventually(t, "one waits", func() bool { return s.watchCount() == 1 })
	h := inspect(t, two, keyOf(t)).Holder
	if h == nil || h.Who != "app-1/first" || h.Fence != evicted.Fence() || h.Since.Before(began.Add(-time.Second)) {
		t.Errorf("holder %+v, want app-1/first with fence %d", h, evicted.Fence())
	}
	var held *lock.HeldError
	_, err = two.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
	if !errors.As(err, &held) || held.Holder != "app-1/first" {
		t.Errorf("try: %v", err)
	}
	fence, err := two.Evict(t.Context(), keyOf(t))
	must(t, err)
	next := <-waiting
	if evicted.Fence() >= fence || fence > next.Fence() {
		t.Errorf("evicted %d, fence %d, next %d", evicted.Fence(), fence, next.Fence())
	}
	lost(t, evicted)
	if err := evicted.Release(); !errors.Is(err, lock.ErrTaken) || next.Err() != nil {
		t.Errorf("its release: %v, and the next one's lease: %v", err, next.Err())
	}
	release(t, next)
	fence, err = two.Evict(t.Context(), keyOf(t))
	if err != nil || fence <= next.Fence() {
		t.Errorf("evicted from a free key: fence %d after %d, %v", fence, next.Fence(), err)
	}
}

// The two locks of one key are two locks, and each lists its own.
func TestTheTwoLocksOfAKeyDoNotMeet(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	herdKey, queueKey := t.Name()+"/herd", t.Name()+"/queue%ephemeral"
	all := []struct {
		l   inspectable
		key string
	}{
		{NewSequential(s), t.Name()},
		{NewEphemeral(s), t.Name()},
		{NewEphemeral(s), herdKey},
		{NewSequential(s), queueKey},
		{NewEphemeral(s), t.Name() + "/queue"},
	}
	for _, row := range all {
		lease, err := row.l.Acquire(t.Context(), row.key, lock.Options{TryOnce: true})
		if err != nil {
			t.Fatalf("%T %s: %v", row.l, row.key, err)
		}
		defer release(t, lease)
	}
	queued, err := NewSequential(s).Keys(t.Context())
	must(t, err)
	herds, err := NewEphemeral(s).Keys(t.Context())
	must(t, err)
	for _, row := range all {
		lists, other := queued, herds
		if _, herd := row.l.(*Ephemeral); herd {
			lists, other = herds, queued
		}
		if !slices.Contains(lists, row.key) || row.key != t.Name() && slices.Contains(other, row.key) {
			t.Errorf("%T %s: listed %q, by the other %q", row.l, row.key, lists, other)
		}
	}
}

// The requests for many keys are under way together: the server has readsAtOnce of them before it has sent a reply.
func TestInspectAllAsksForManyKeysAtOnce(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			host := Servers.ZooKeeper(t)
			p, err := wire.Listen(host, wire.ZooKeeper())
			must(t, err)
			t.Cleanup(func() { p.Close() })
			root := "/inspect-all-" + k.name
			config := func(host string) Config {
				return Config{
					Hosts: []string{host}, Root: root,
					SessionTimeout: 30 * time.Second, ConnectTimeout: 10 * time.Second,
				}
			}
			holders, l := k.open(open(t, config(host))), k.open(open(t, config(p.Addr())))
			keys := make([]string, 200)
			for i := range keys {
				keys[i] = fmt.Sprint(root, i)
			}
			for _, i := range []int{0, 7, 199} {
				held, err := holders.Acquire(t.Context(), keys[i], lock.Options{Owner: fmt.Sprint("app/", i)})
				must(t, err)
				t.Cleanup(func() { _ = held.Release() })
			}
			ctx, leave := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			waiting.Go(func() { _, _ = holders.Acquire(ctx, keys[7], lock.Options{Owner: "app/waits"}) })
			t.Cleanup(func() {
				leave()
				waiting.Wait()
			})
			if k.name == sequentialKind().name {
				eventually(t, "one waits", func() bool { return len(inspect(t, l, keys[7]).Waiters) == 1 })
			}
			must(t, locktest.SameStates(t.Context(), l, append(keys, keys[0])))

			var asked atomic.Int64
			p.Set(wire.Trap{Match: func(message []byte) bool {
				if wire.Contains(root)(message) {
					asked.Add(1)
				}
				return false // it only counts
			}})
			p.Silence(wire.ToClient)
			done := make(chan error, 1)
			go func() {
				_, err := lock.InspectAll(t.Context(), l, keys)
				done <- err
			}()
			eventually(t, "many requests arrive", func() bool { return asked.Load() >= readsAtOnce })
			if n := asked.Load(); n > readsAtOnce {
				t.Errorf("%d requests without a reply, want %d at most", n, readsAtOnce)
			}
			p.Silence()
			if err := <-done; err != nil && !errors.Is(err, lock.ErrDown) { // down: the silence lasted too long
				t.Error(err)
			}
		})
	}
}
