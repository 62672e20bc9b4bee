package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A memory is the server of a fair lock for several processes. It is trip away, in virtual time.
type memory struct {
	queue   Queue
	trip    time.Duration
	room    uint64            // of a fence; 0: 8
	keep    Renewal           // of its leases; without a TTL they do not end by themselves
	fails   func(n int) error // the outcome of the n-th question; nil: none fails
	answer  error             // to a release
	lingers time.Duration     // how long the key of an abandoned lease stays taken; 0: a minute

	mu      sync.Mutex
	fence   Fence
	askedBy []string // or for which key
	given   []string // the keys that were given back
	last    map[string]func(error)
}

func (m *memory) FenceRange() uint64 { return cmp.Or(m.room, 8) }

func (m *memory) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	sent := time.Now()
	m.mu.Lock()
	m.askedBy = append(m.askedBy, cmp.Or(o.Owner, key))
	n := len(m.askedBy)
	m.mu.Unlock()
	time.Sleep(m.trip)
	if m.fails != nil {
		if err := m.fails(n); err != nil {
			return nil, err
		}
	}
	if err := m.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fence += 8
	leave := sync.OnceFunc(func() { m.queue.Leave(key) })
	l, lose := NewLease(key, m.fence, func(context.Context) error {
		time.Sleep(m.trip)
		m.mu.Lock()
		m.given = append(m.given, key)
		m.mu.Unlock()
		leave()
		return m.answer
	})
	l.Linger(cmp.Or(m.lingers, time.Minute))
	if m.last == nil {
		m.last = make(map[string]func(error))
	}
	m.last[key] = func(cause error) {
		if l.Err() == nil {
			lose(cause)
			leave()
		}
	}
	if m.keep.TTL > 0 {
		l.KeepAlive(sent, m.keep)
	}
	return l, nil
}

// lose takes the last lease of a key away, if it is held.
func (m *memory) lose(key string, cause error) {
	m.mu.Lock()
	last := m.last[key]
	m.mu.Unlock()
	if last != nil {
		last(cause)
	}
}

// asked returns who asked it, or for which keys, in order.
func (m *memory) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.askedBy)
}

// freed returns the keys that were given back, in order.
func (m *memory) freed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.given)
}

// InspectAll returns the states of the server, which knows only those who asked it.
func (m *memory) InspectAll(_ context.Context, keys []string) (all []State, err error) {
	for _, key := range keys {
		s := m.queue.State(key)
		m.mu.Lock()
		if s.Holder != nil {
			s.Holder.Fence = m.fence
		}
		m.mu.Unlock()
		all = append(all, s)
	}
	return all, nil
}

func (m *memory) Evict(_ context.Context, key string) (Fence, error) {
	m.lose(key, ErrTaken)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fence + 8, nil
}

// acquire acquires k, which is free.
func acquire(t *testing.T, l Locker, who string) *Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "k", Options{Owner: who})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

const ttl = 30 * time.Second

// renewed is a lease that is renewed, up to a longest hold.
func renewed(longest time.Duration) Renewal {
	return renewedBy(longest, func(context.Context) error { return nil })
}

func renewedBy(longest time.Duration, renew func(context.Context) error) Renewal {
	return Renewal{TTL: ttl, Every: ttl / 3, Max: longest, Renew: renew}
}

// lost is a lock whose leases are lost before anybody has them.
type lost struct{ memory }

func (l *lost) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	lease, err := l.memory.Acquire(ctx, key, o)
	l.lose(key, ErrTaken)
	return lease, err
}

// nothing is work.
func nothing(context.Context, Fence) error { return nil }

var errReason = errors.New("session expired")
