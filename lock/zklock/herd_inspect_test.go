package zklock

import (
	"errors"
	"slices"
	"testing"
	"time"

	"example.com/stock/lock"
)

// What is known of the herd: who has the key. The evicted holder is told, and one of those who wait is in.
func TestInspectAndEvictTheHerd(t *testing.T) {
	host := servers.ZooKeeper(t)
	s := dial(t, host)
	one, two := NewEphemeral(dial(t, host)), NewEphemeral(s)
	if s := inspect(t, one, keyOf(t)); s.Holder != nil || s.Scope != lock.Cluster {
		t.Errorf("a key that was never used: %+v", s)
	}
	began := time.Now()
	evicted, err := one.Acquire(t.Context(), keyOf(t), lock.Options{Owner: "app-1/first"})
	must(t, err)
	turn := acquireLater(t, two)
	eventually(t, "one waits", func() bool { return s.watchesNow() == 1 })
	h := inspect(t, two, keyOf(t)).Holder
	if h == nil || h.Who != "app-1/first" || h.Fence != evicted.Fence() || h.Since.Before(began.Add(-time.Second)) {
		t.Errorf("holder %+v, want app-1/first with fence %d", h, evicted.Fence())
	}
	var held *lock.HeldError
	if _, err := two.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true}); !errors.As(err, &held) || held.Holder != "app-1/first" {
		t.Errorf("try: %v", err)
	}
	fence, err := two.Evict(t.Context(), keyOf(t))
	must(t, err)
	next := <-turn
	if evicted.Fence() >= fence || fence > next.Fence() {
		t.Errorf("evicted %d, fence %d, next %d", evicted.Fence(), fence, next.Fence())
	}
	select {
	case <-evicted.Done():
	case <-time.After(15 * time.Second):
		t.Fatal("the evicted holder was not told")
	}
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
	host := servers.ZooKeeper(t)
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
