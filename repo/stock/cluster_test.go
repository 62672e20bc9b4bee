package stock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/service"
)

// A moving is a SKU on a Redis Cluster whose slot is moved between two of the nodes.
type moving struct {
	store   shop
	sku     service.SKU
	slot    int64
	nodes   [2]*redis.Client // the slot is on the first now
	ids     [2]string
	addrs   [2]string
	cluster *server.RedisCluster
}

// clustered starts a cluster and finds a SKU whose slot is among the first of its node, which redis-cli moves first.
func clustered(t *testing.T) *moving {
	t.Helper()
	m := &moving{cluster: servertest.RedisCluster(t)}
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: m.cluster.Addrs(), IsClusterMode: true, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 5 * time.Second, DialerRetries: 1, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	})
	t.Cleanup(func() { _ = c.Close() })
	m.store = onRedis(c)
	for i := range m.nodes {
		m.addrs[i] = m.cluster.Nodes[i].Addr
		m.nodes[i] = redis.NewClient(&redis.Options{Addr: m.addrs[i], Protocol: 2})
		t.Cleanup(func() { _ = m.nodes[i].Close() })
		id, err := m.nodes[i].Do(t.Context(), "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		m.ids[i] = id
	}
	for n := 0; ; n++ {
		m.sku = service.SKU(fmt.Sprint("sku-", n))
		if m.slot = m.nodes[0].ClusterKeySlot(t.Context(), string(m.sku)).Val(); m.slot < 40 {
			return m
		}
	}
}

func (m *moving) do(t *testing.T, node int, command ...any) {
	t.Helper()
	if err := m.nodes[node].Do(context.WithoutCancel(t.Context()), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// begin says to both nodes that the slot moves.
func (m *moving) begin(t *testing.T) {
	t.Helper()
	m.do(t, 1, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.ids[0])
	m.do(t, 0, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.ids[1])
}

func (m *moving) keys(t *testing.T) []string {
	t.Helper()
	keys, err := m.nodes[0].ClusterGetKeysInSlot(t.Context(), int(m.slot), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// batch moves keys.
func (m *moving) batch(t *testing.T, keys ...string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(m.addrs[1])
	command := []any{"MIGRATE", host, port, "", 0, 10_000, "KEYS"}
	for _, key := range keys {
		command = append(command, key)
	}
	m.do(t, 0, command...)
}

// end gives the slot to the second node, which is the first from then on.
func (m *moving) end(t *testing.T) {
	t.Helper()
	m.do(t, 1, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[1])
	m.do(t, 0, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[1])
	slices.Reverse(m.nodes[:])
	slices.Reverse(m.ids[:])
	slices.Reverse(m.addrs[:])
}

// Between two batches of a migration one key of a SKU is on one node and the others are on another. Redis then answers
// TRYAGAIN to a script that names all of them, which did nothing: the sale waits, and is made when the slot has moved,
// whichever key goes first.
func TestSaleBetweenTwoBatches(t *testing.T) {
	t.Parallel()
	m := clustered(t)
	stock := mustSet(t, m.store, m.sku, 1000)
	if err := m.store.Write(short(t), order(stock)); err != nil {
		t.Fatal(err)
	}
	orders := 1
	for i := range len(m.keys(t)) {
		for name, sell := range ways(m.store) {
			o, keys := order(mustRead(t, m.store, m.sku)), m.keys(t)
			m.begin(t)
			m.batch(t, keys[i])
			sold := make(chan error, 1)
			go func() { sold <- sell(short(t), o) }()
			select {
			case err := <-sold:
				t.Errorf("%s while only %s has moved: it ended before all have, with %v", name, keys[i], err)
				sold <- err
			case <-time.After(100 * time.Millisecond): // long enough to be refused more than once
			}
			m.batch(t, slices.Delete(keys, i, i+1)...)
			m.end(t)
			if err := <-sold; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			orders++
			balanced(t, m.store, m.sku, orders)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	m.refusesWhoCannotWait(t)
	balanced(t, m.store, m.sku, orders)
}

// A sale that has no time to wait is refused, and nothing was written.
func (m *moving) refusesWhoCannotWait(t *testing.T) {
	keys := m.keys(t)
	m.begin(t)
	m.batch(t, keys[0])
	told := new(driver.DownError)
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := m.store.Deduct(ctx, order(service.Stock{SKU: m.sku}))
		cancel()
		if errors.As(err, &told) && told.Reason == "moving-slots" {
			break
		}
		// On a busy computer the time may end while a request is under way.
		if try == 20 || !errors.Is(err, service.ErrOutcomeUnknown) && !errors.Is(err, lock.ErrDown) {
			t.Fatalf("error %v, want that the cluster is moving slots", err)
		}
	}
	m.batch(t, keys[1:]...)
	m.end(t)
}
