package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/orders/internal/mariadb"
	"example.com/stock/orders/outbox"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

var (
	server *mariadb.Server
	store  *repo.Store
	rows   *sql.DB // for what the store does not do
	cache  *redis.Client
)

func TestMain(m *testing.M) {
	if os.Getenv("SKIP_SERVERS") == "1" {
		fmt.Println("SKIP_SERVERS: nothing is tested here without MariaDB and Redis")
		return
	}
	code := run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) int {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var dsn string
	var err error
	if server, dsn, err = mariadb.Start(); err != nil {
		fmt.Println("start MariaDB (SKIP_SERVERS=1 does without):", err)
		return 1
	}
	defer server.Stop()
	if store, err = repo.Open(dsn, repo.Options{Connections: 20, Events: true}); err == nil {
		defer store.Close()
		_, err = store.Migrate(context.Background())
	}
	if err == nil {
		rows, err = sql.Open("mysql", dsn)
	}
	var stop func()
	if err == nil {
		defer rows.Close()
		cache, stop, err = startRedis()
	}
	if err != nil {
		fmt.Println("SKIP_SERVERS=1 does without servers:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// startRedis starts a server that keeps nothing, and returns its client, and what ends both.
func startRedis() (client *redis.Client, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "")
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	client = redis.NewClient(&redis.Options{Addr: l.Addr().String(), MaxRetries: -1, PoolSize: 64})
	stop = func() {
		_ = client.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it is about the signal
	}
	for range 300 {
		if client.Ping(context.Background()).Err() == nil {
			return client, stop, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return nil, nil, fmt.Errorf("redis-server does not answer on port %d", port)
}

var names atomic.Int64

// fresh empties the outbox, and returns names of n new SKUs. They have a dot, as a SKU may.
func fresh(t *testing.T, n int) []string {
	t.Helper()
	if _, err := rows.Exec("DELETE FROM outbox"); err != nil {
		t.Fatal(err)
	}
	skus := make([]string, n)
	for i := range skus {
		skus[i] = fmt.Sprintf("sku.%d", names.Add(1))
	}
	return skus
}

// move writes n movements of each SKU, each with its event. It tries again while the server is down, and then writes
// some twice.
func move(t *testing.T, n int, skus ...string) {
	t.Helper()
	for i := 0; i < n*len(skus); {
		sku := skus[i%len(skus)]
		_, _, err := store.Step(t.Context(), repo.Ask{SKUs: []string{sku}, Create: true},
			service.AdjustStock(sku, 1, "", service.AnyNumber))
		switch {
		case err == nil:
			i++
		case !errors.Is(err, service.ErrDown) && !errors.Is(err, service.ErrUnknown):
			t.Error(err)
			return
		}
	}
}

// start runs n senders until the test ends or stop is called, which returns when they have ended.
func start(t *testing.T, n int, s outbox.Sender) (stop func()) {
	if s.Queue == nil {
		s.Queue = store
	}
	if s.Pace == 0 {
		s.Pace = 20 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range n {
		all.Go(func() { s.Run(ctx) })
	}
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return stop
}

// await waits until the condition holds. How long that may take is a matter of patience.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within three minutes: ", what)
		}
	}
}

func awaitEmpty(t *testing.T) {
	t.Helper()
	await(t, "empty outbox", func() bool { return count(t, "") == 0 })
}

// count counts the events that are committed.
func count(t *testing.T, where string, args ...any) (n int) {
	t.Helper()
	if err := rows.QueryRow("SELECT COUNT(*) FROM outbox "+where, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A receiver notes what it gets.
type receiver struct {
	mu     sync.Mutex
	bodies map[string]string
	last   map[string]int64 // of each SKU
	repeat int
	wrong  []string
	gaps   map[string]bool // events that were skipped
}

func newReceiver() *receiver { return &receiver{bodies: map[string]string{}, last: map[string]int64{}} }

// get fails nothing at once: it is called by senders.
func (r *receiver) get(name string, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if had, ok := r.bodies[name]; ok {
		r.repeat++
		if had != string(body) {
			r.wrong = append(r.wrong, name+" has another body in its copy")
		}
		return
	}
	r.bodies[name] = string(body)
	var m service.Movement
	if err := json.Unmarshal(body, &m); err != nil || name != fmt.Sprintf("%s.%d", m.SKU, m.Number) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %s %v", name, body, err))
	}
	for r.gaps[fmt.Sprintf("%s.%d", m.SKU, r.last[m.SKU]+1)] {
		r.last[m.SKU]++
	}
	if m.Number != r.last[m.SKU]+1 {
		r.wrong = append(r.wrong, fmt.Sprintf("%s came after %d", name, r.last[m.SKU]))
	}
	r.last[m.SKU] = m.Number
}

func (r *receiver) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.bodies[name]
	return ok
}

// sink returns one that gives events to the receiver, unless before returns an error.
func (r *receiver) sink(before func(name string) error) outbox.Sink {
	return func(_ context.Context, name string, body []byte) error {
		if err := before(name); err != nil {
			return err
		}
		r.get(name, body)
		return nil
	}
}

// read gets what is in a stream.
func (r *receiver) read(t *testing.T, stream string) {
	t.Helper()
	entries, err := cache.XRange(t.Context(), stream, "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		r.get(e.Values["id"].(string), []byte(e.Values["event"].(string)))
	}
}

// complete fails the test unless all events of the SKUs came, those of each in order.
func (r *receiver) complete(t *testing.T, skus ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 {
		t.Errorf("%d events are wrong: %s", len(r.wrong), strings.Join(r.wrong[:min(5, len(r.wrong))], "; "))
	}
	for _, sku := range skus {
		stock, err := store.Stock(t.Context(), sku)
		if err != nil || r.last[sku] != stock.Number {
			t.Errorf("%s: %d of %d events came, %v", sku, r.last[sku], stock.Number, err)
		}
	}
}
