package redislock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/redislock"
)

// masters are five independent servers, and a client of each that no lock uses.
type masters struct {
	servers   []*server.Server
	observers []*redis.Client
}

func startMasters(t testing.TB) *masters {
	t.Helper()
	m := &masters{servers: started(t, 5)}
	for _, s := range m.servers {
		m.observers = append(m.observers, client(t, s.Addr))
	}
	return m
}

func (m *masters) clients(t testing.TB) (list []*redis.Client) {
	for _, s := range m.servers {
		list = append(list, client(t, s.Addr))
	}
	return list
}

// redlock opens a lock. Unless o says otherwise, its nodes count although they have just been started, and have more
// time than by default, which a busy computer may need.
func (m *masters) redlock(t testing.TB, o redislock.RedlockOptions, clients ...*redis.Client) *redislock.Redlock {
	t.Helper()
	if o.NodeTimeout == 0 {
		o.NodeTimeout = 5 * time.Second
	}
	o.Quarantine = -1
	if clients == nil {
		clients = m.clients(t)
	}
	r, err := redislock.NewRedlock(clients, o)
	if err != nil {
		t.Fatal(err)
	}
	return closer(t, r)
}

// with returns the number of nodes that have a key.
func (m *masters) with(t testing.TB, key string) (nodes int) {
	for _, c := range m.observers {
		nodes += int(c.Exists(t.Context(), "redlock:{"+key+"}").Val())
	}
	return nodes
}

func do(t *testing.T, what func(*server.Server) error, to []*server.Server) {
	t.Helper()
	for _, s := range to {
		if err := what(s); err != nil {
			t.Fatal(err)
		}
	}
}

// With a minority of the nodes down the lock is granted and given back. Without a majority the error counts
// the nodes and numbers them, and only the log has their addresses. Nothing is left behind.
func TestRedlockNeedsAMajority(t *testing.T) {
	t.Parallel()
	m := startMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute})
	for i, value := range []string{"1 a", "1 a", "2 b", "2 b"} {
		m.observers[i].Set(t.Context(), "redlock:{split}", value, patience)
	}
	var held *lock.HeldError
	if err := locktest.Try(t, r, "split"); !errors.As(err, &held) || held.Holder != "" || m.with(t, "split") != 4 {
		t.Errorf("a split vote: %v, want held by nobody; with the key on %d nodes, want 4", err, m.with(t, "split"))
	}
	m.observers[0].ConfigSet(t.Context(), "maxmemory", "1")
	do(t, (*server.Server).Kill, m.servers[4:])
	lease := acquire(t, r, "k")
	if err := locktest.Try(t, m.redlock(t, redislock.RedlockOptions{}), "k"); !errors.Is(err, lock.ErrHeld) ||
		m.with(t, "k") != 3 {
		t.Errorf("another got %v, with the key on %d nodes", err, m.with(t, "k"))
	}
	locktest.Release(t, lease)
	m.observers[1].SAdd(t.Context(), "redlock:{k}", "foreign")
	refused := locktest.Try(t, r, "k")
	do(t, (*server.Server).Kill, m.servers[2:4])
	_, inspected := lock.Inspect(t.Context(), r, "k")
	_, listed := r.Keys(t.Context())
	checked := redislock.CheckMasters(t.Context(), m.observers, 0)
	const quorum = "(good=2, all=5, must=3, which=node "
	for shown, err := range map[string]error{
		quorum + "1 says OOM; node 2 says WRONGTYPE; node 5 is not reached)": refused,
		"node 2 says WRONGTYPE; node 3 is not reached":                       inspected,
		quorum + "3 is not reached; ":                                        listed,
		quorum + "3 is not reached; node 4 is not reached; ":                 checked,
	} {
		down := new(driver.DownError)
		if !errors.Is(err, lock.ErrDown) || !errors.As(err, &down) || !strings.Contains(down.Error(), shown) ||
			strings.Contains(down.Error(), "127.0.0.1") || !mentions(err, m.servers[4].Addr+" is not reached") {
			t.Errorf("%v shows %q, want ErrDown that shows %q and no address, which the log has", err, down, shown)
		}
	}
}

// One server under two addresses would be a majority that dies with one. A replica does not count, not even a writable
// one, and a node that has just been started does not count in quarantine.
func TestRedlockWantsDistinctMasters(t *testing.T) {
	t.Parallel()
	m := startMasters(t)
	if err := redislock.CheckMasters(t.Context(), m.observers, 0); err != nil {
		t.Error(err)
	}
	if err := redislock.CheckMasters(t.Context(), m.observers, time.Hour); !mentions(err, "was started less than 1h") {
		t.Errorf("in quarantine: %v", err)
	}
	clients := m.clients(t)
	same := *clients[0].Options()
	same.Addr = strings.Replace(same.Addr, "127.0.0.1", "localhost", 1)
	clients[1] = closer(t, redis.NewClient(&same))
	wants := func(says string, acquired error, checked error) {
		t.Helper()
		for _, err := range []error{acquired, checked} {
			if !errors.Is(err, lock.ErrDown) || !mentions(err, says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if n := m.with(t, "k"); n != 0 {
			t.Errorf("the key was left on %d nodes", n)
		}
	}
	wants("same-master (one=node 1, two=node 2",
		locktest.Try(t, m.redlock(t, redislock.RedlockOptions{}, clients...), "k"),
		redislock.CheckMasters(t.Context(), clients, 0))
	for _, c := range m.observers[:3] {
		c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1")
		c.ConfigSet(t.Context(), "replica-read-only", "no")
	}
	wants("is a replica", locktest.Try(t, m.redlock(t, redislock.RedlockOptions{}), "k"),
		redislock.CheckMasters(t.Context(), m.observers, 0))
}

// A renewal sets keys again that are gone on a minority of the nodes. On a majority they are a loss.
func TestRedlockErosion(t *testing.T) {
	t.Parallel()
	m := startMasters(t)
	const lease = 9 * time.Second // 6 s remain for a renewal that a busy computer sends late
	r := m.redlock(t, redislock.RedlockOptions{Lease: lease})
	for key, row := range map[string]struct {
		nodes int
		value string
		loss  error
	}{
		"two-gone": {2, "", nil}, "three-gone": {3, "", lock.ErrExpired}, "three-taken": {3, "other", lock.ErrTaken},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			held, name := acquire(t, r, key), "redlock:{"+key+"}"
			erode := func() bool {
				for _, c := range m.observers[:row.nodes] {
					c.Del(t.Context(), name)
					if row.value != "" {
						c.Set(t.Context(), name, row.value, 0)
					}
				}
				return held.Err() != nil
			}
			erode()
			if row.loss != nil {
				// A renewal between two of the nodes sets the first one's key again.
				locktest.Eventually(t, "a renewal finds a minority", erode)
				err := locktest.Loss(t, held)
				if !errors.Is(err, row.loss) || !mentions(err, "2 of 5 nodes still have our key") {
					t.Errorf("loss: %v, want %v", err, row.loss)
				}
				return
			}
			locktest.Eventually(t, "all nodes have it again", func() bool { return m.with(t, key) == 5 })
			if left := m.observers[0].PTTL(t.Context(), name).Val(); left > lease {
				t.Errorf("it lives for %v, which is more than a lease", left)
			}
			locktest.Release(t, held)
			locktest.Eventually(t, "nothing is left", func() bool { return m.with(t, key) == 0 })
		})
	}
}

// A majority of the nodes hangs in the middle of a try: the caller is told so, and what the others granted is taken
// back at once. What reaches the hanging nodes is taken back when they go on, and until then no try waits for them.
func TestRedlockDoesWithoutASilentNode(t *testing.T) {
	t.Parallel()
	m := startMasters(t)
	const patient = time.Second
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Hour, NodeTimeout: patient})
	locktest.Release(t, acquire(t, r, "k"))
	do(t, (*server.Server).Pause, m.servers[2:])
	if err := locktest.Try(t, r, "k"); !errors.Is(err, lock.ErrDown) || !mentions(err, "did not answer in time") {
		t.Errorf("with three that hang: %v, want ErrDown", err)
	}
	if exists(t, m.observers[0], "redlock:{k}") || exists(t, m.observers[1], "redlock:{k}") {
		t.Error("the key was left where it had been granted")
	}
	locktest.Eventually(t, "tries do without them", func() bool {
		began := time.Now()
		return mentions(locktest.Try(t, r, "k"), "owes an answer") && time.Since(began) < patient
	})
	do(t, (*server.Server).Resume, m.servers[2:])
	locktest.Eventually(t, "all nodes count again", func() bool {
		lease, err := r.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		nodes := m.with(t, "k")
		if err == nil {
			locktest.Release(t, lease)
		}
		return nodes == 5
	})
	locktest.Eventually(t, "nothing is left", func() bool { return m.with(t, "k") == 0 })
}
