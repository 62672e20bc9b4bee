package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
)

// receive adds n movements of a SKU to a ledger.
func receive(t *testing.T, l order.Ledger, sku service.SKU, n int) {
	t.Helper()
	about := order.About{SKUs: []service.SKU{sku}, Create: true}
	for range n {
		_, _, err := l.Step(t.Context(), about, func(s order.State) (order.Changes, error) {
			number := s.Stock[sku].Number + 1
			m := order.Movement{SKU: sku, Number: number, Kind: order.Adjust, Received: 1, Available: 1}
			return order.Changes{Movements: []order.Movement{m}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ledgerOf opens the ledger of a store as its instances do.
func ledgerOf(t *testing.T, args ...string) order.Ledger {
	t.Helper()
	cfg := mustConfigure(t, args...)
	a := newApp(cfg, "test", slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = a.close() })
	books, err := a.openLedger()
	if err != nil {
		t.Fatal(err)
	}
	return books.(order.Ledger)
}

// A ledger needs the address of its server.
func TestALedgerNeedsItsServer(t *testing.T) {
	for store, key := range map[string]string{"redis": "redis.addrs", "mysql": "mysql.dsn"} {
		cfg := mustConfigure(t, "--store="+store, "--redis-addrs=", "--mysql-dsn=")
		a := newApp(cfg, "test", slog.New(slog.DiscardHandler))
		if _, err := a.openLedger(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want that %s is empty", store, err, key)
		}
	}
}

// Two instances relay what is in the ledger of either store to Redis Streams, one at a time. When the one that relays
// stops, the other goes on.
func TestInstancesRelayInTurns(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"mysql", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			server := stacktest.Redis(t)
			args := backends("--redis-addrs="+server.Addr, "--store="+store, "--relay-enabled", "--seed-sku=")
			if store == "mysql" {
				args = append(args, "--mysql-dsn="+migrated(t), "--relay-lock=mysql-table")
			}
			instances := []*instance{begin(t, args...), begin(t, args...)}
			for _, i := range instances {
				i.ready(t, store)
			}
			books := ledgerOf(t, args...)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			all := func(n int) {
				t.Helper()
				stacktest.Eventually(t, 30*time.Second, "all events are in the stream", func() (bool, string) {
					got, err := client.XLen(t.Context(), relay.StreamKey("book")).Result()
					return int(got) == n, fmt.Sprint(got, err)
				})
			}
			receive(t, books, "book", 5)
			all(5)
			active := func(i *instance) bool {
				return strings.Contains(i.send(http.MethodGet, i.admin+"/metrics").body, "\nstock_relay_active 1\n")
			}
			at := slices.IndexFunc(instances, active)
			if at < 0 || active(instances[0]) == active(instances[1]) {
				t.Fatalf("%d relays, want one", 1+at)
			}
			text := instances[at].send(http.MethodGet, instances[at].admin+"/metrics").body
			if !strings.Contains(text, "\nstock_relay_delivered_total 5\n") {
				t.Errorf("metrics:\n%s", text)
			}
			instances[at].end(t)
			receive(t, books, "book", 5)
			all(10)
		})
	}
}

// The relay holds its lock for longer than any lease, so its lock is renewed although lock.lease_time says that the
// strategies' locks are not.
func TestTheLockOfTheRelayIsRenewed(t *testing.T) {
	t.Parallel()
	server := stacktest.Redis(t)
	args := backends("--redis-addrs="+server.Addr, "--relay-enabled", "--lock-lease-time=300ms", "--seed-sku=")
	i := begin(t, args...)
	i.ready(t, "redis")
	active := func() bool {
		return strings.Contains(i.send(http.MethodGet, i.admin+"/metrics").body, "\nstock_relay_active 1\n")
	}
	stacktest.Eventually(t, 30*time.Second, "it relays", func() (bool, string) { return active(), i.log.String() })
	for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if !active() {
			t.Fatal("the relay has lost its lock")
		}
	}
}

// An event that its receiver refuses is shown to a person, who says what becomes of it; the running relay follows.
func TestAPersonDecidesOnDeadLetters(t *testing.T) {
	t.Parallel()
	server, dsn := stacktest.Redis(t), migrated(t)
	var mu sync.Mutex
	var ids []string
	var fixed atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("webhook-id")
		id = id[:strings.LastIndex(id, "/")]
		if !fixed.Load() && (id == "a/2" || id == "b/1") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
	}))
	t.Cleanup(receiver.Close)
	args := backends(
		"--redis-addrs="+server.Addr, "--mysql-dsn="+dsn, "--store=mysql", "--relay-sink=webhook",
		"--relay-webhook-url="+receiver.URL, "--relay-webhook-secrets=whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
		"--relay-webhook-internal", "--relay-attempts=1",
	)
	cfg := mustConfigure(t, args...)
	m, err := OpenMigrator(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Up(t.Context())
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	books := ledgerOf(t, args...)
	receive(t, books, "a", 3)
	receive(t, books, "b", 3)
	receive(t, books, "c", 3)

	r, err := OpenRelay(cfg, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dead, err := OpenDeadLetters(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dead.Close() })
	parked := func() (list []string) {
		err := dead.Each(t.Context(), func(d DeadLetter) error {
			list = append(list, fmt.Sprintf("%s/%d %s", d.SKU, d.Number, d.Reason))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	const reason = " the receiver answered 400 Bad Request"
	stacktest.Eventually(t, 30*time.Second, "a/2 and b/1 are parked", func() (bool, string) {
		list := parked()
		return slices.Equal(list, []string{"a/2" + reason, "b/1" + reason}), fmt.Sprint(list)
	})
	for name, says := range map[string]string{
		"a": "not SKU/NUMBER", "a/": "not SKU/NUMBER", "a/x": "not SKU/NUMBER", "a b/1": "not SKU/NUMBER",
		"a/-2": "not SKU/NUMBER", "a/3": "no such dead letter", "x/1": "no such dead letter",
	} {
		if err := dead.Retry(t.Context(), name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", name, err, says)
		}
	}
	if err := dead.Skip(t.Context(), "b/1"); err != nil {
		t.Fatal(err)
	}
	fixed.Store(true)
	var told []string
	if err := dead.RetryAll(t.Context(), func(name string) { told = append(told, name) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(told, "a/2") {
		t.Errorf("sent again: %v", told)
	}
	stacktest.Eventually(t, 30*time.Second, "all is delivered", func() (bool, string) {
		list := parked()
		mu.Lock()
		defer mu.Unlock()
		return len(list) == 0 && len(ids) >= 8, fmt.Sprint(list, ids)
	})
	mu.Lock()
	defer mu.Unlock()
	inOrder := func(sku string) (of []string) {
		for _, id := range ids {
			if strings.HasPrefix(id, sku+"/") {
				of = append(of, id)
			}
		}
		return of
	}
	if got := inOrder("a"); !slices.Equal(got, []string{"a/1", "a/2", "a/3"}) {
		t.Errorf("a: %v", got)
	}
	if got := inOrder("b"); !slices.Equal(got, []string{"b/2", "b/3"}) {
		t.Errorf("b, of which 1 was left out: %v", got)
	}
	if got := inOrder("c"); !slices.Equal(got, []string{"c/1", "c/2", "c/3"}) {
		t.Errorf("c: %v", got)
	}
}

func TestARelayThatCannotBe(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for _, row := range []struct {
		says string
		args []string
	}{
		{"redis.addrs", []string{"--store=mysql", "--redis-addrs="}},
		{"mysql.dsn is empty", []string{"--store=mysql", "--mysql-dsn="}},
		{"Cluster", []string{"--store=redis", "--redis-cluster"}},
		{"set zookeeper.hosts", []string{"--store=mysql", "--relay-lock=zk-sequential", "--zookeeper-hosts="}},
		{"secret 1 is not whsec_", []string{
			"--store=mysql", "--relay-sink=webhook", "--relay-webhook-url=https://example.com",
			"--relay-webhook-secrets=s3cret",
		}},
	} {
		_, err := OpenRelay(mustConfigure(t, row.args...), "test", log)
		says(t, err, row.says, "!s3cret")
	}
}
