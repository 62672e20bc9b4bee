package main

import (
	"database/sql"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/orders/outbox"
	"example.com/stock/orders/service"
)

const childMode = "CONSUMER_TEST_CHILD"

var (
	//go:embed schema.sql
	schema  string
	servers servertest.Shared
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		main() // until it is killed
		return
	}
	goleak.VerifyTestMain(servers.Around(m))
}

// sale returns the name and the body of an event, as the order service writes them.
func sale(t *testing.T, sku string, number, units int64) (name string, body []byte) {
	t.Helper()
	m := service.Movement{SKU: sku, Number: number, Kind: service.Sell, Available: -units, Sold: units, At: time.Now()}
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return service.Event{SKU: sku, Number: number}.Name(), body
}

// Consumers are killed all the time, and every event has its effect once.
func TestKilledConsumersLoseAndDoubleNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	const skus = 10
	each, kills := servertest.Rounds(150, 40), servertest.Rounds(12, 4)
	t.Parallel()
	server := servertest.Redis(t)
	dsn, db := newShop(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	consume := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-redis", server.Addr, "-mysql", dsn)
		cmd.Env = append(os.Environ(), childMode+"=1")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	running := []*exec.Cmd{consume(), consume()}
	t.Cleanup(func() {
		for _, cmd := range running {
			kill(cmd)
		}
	})

	send := outbox.Stream(client, "orders", 0)
	want := make(map[string]int64)
	var names []string
	var bodies [][]byte
	for i := range skus * each {
		sku, units := fmt.Sprint("sku.", i%skus), int64(1+rand.N(5))
		want[sku] += units
		name, body := sale(t, sku, int64(i/skus)+1, units)
		names, bodies = append(names, name), append(bodies, body)
		for _, k := range []int{i, rand.N(i + 1)} { // a sender repeats itself, and copies come late
			if err := send(t.Context(), names[k], bodies[k]); err != nil {
				t.Fatal(err)
			}
		}
		if i%(skus*each/kills) == 0 {
			servertest.Eventually(t, time.Minute, "consumption goes on", func() (bool, string) {
				done := consumed(t, db)
				return done >= i*9/10-200, fmt.Sprint(done, " of ", i)
			})
			victim := rand.N(len(running))
			kill(running[victim])
			running[victim] = consume()
		}
	}
	servertest.Eventually(t, time.Minute, "all events have had their effect", func() (bool, string) {
		n := consumed(t, db)
		return n == skus*each, fmt.Sprint(n)
	})
	for sku, units := range want {
		if got := sold(t, db, sku); got != units {
			t.Errorf("%s: %d units, want %d", sku, got, units)
		}
	}
}

// A transaction that breaks off, or whose end is not known, has its effect once when the events are read again.
func TestABrokenTransactionHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	dsn, db := newShop(t)
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := wire.Listen(config.Addr, wire.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	config.Addr = proxy.Addr()
	through, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = through.Close() })
	number := int64(0)
	for _, statement := range []string{"INTO inbox", "INTO sold", "UPDATE places", "COMMIT"} {
		for _, do := range []wire.Action{wire.Cut, wire.CutReply} {
			number++
			name, body := sale(t, "a", number, 1)
			if err := outbox.Stream(client, "orders", 0)(t.Context(), name, body); err != nil {
				t.Fatal(err)
			}
			proxy.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(statement), Do: do})
			if _, err := read(t.Context(), through, client, "orders"); err == nil {
				t.Errorf("%s, %v: no error", statement, do)
			}
			for range 2 {
				if _, err := read(t.Context(), through, client, "orders"); err != nil {
					t.Errorf("%s, %v, again: %v", statement, do, err)
				}
			}
			if units := sold(t, db, "a"); units != number {
				t.Fatalf("%s, %v: %d units, want %d", statement, do, units, number)
			}
		}
	}
}

// The webhook takes what the order service signs, once, and nothing else.
func TestWebhook(t *testing.T) {
	t.Parallel()
	_, db := newShop(t)
	secret, old := "whsec_"+strings.Repeat("QUJD", 10), "whsec_"+strings.Repeat("REVG", 10)
	server := httptest.NewServer(webhook(db, secret))
	t.Cleanup(server.Close)
	deliver := func(number int64, secrets ...string) error {
		send, err := outbox.Webhook(server.URL, true, secrets...)
		if err != nil {
			t.Fatal(err)
		}
		name, body := sale(t, "a.b", number, 1)
		return send(t.Context(), name, body)
	}
	for _, number := range []int64{1, 1, 2, 1, 2} {
		if err := deliver(number, secret, old); err != nil {
			t.Error(err)
		}
	}
	if err := deliver(3, old); err == nil || errors.Is(err, outbox.ErrAway) {
		t.Errorf("another secret: %v", err)
	}
	reply, err := http.Post(server.URL, "application/json", strings.NewReader(`{"sku":"a.b","number":3,"sold":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusBadRequest {
		t.Errorf("without a signature: %s", reply.Status)
	}
	if units := sold(t, db, "a.b"); units != 2 {
		t.Errorf("%d units, want 2", units)
	}
}

// newShop returns a database with the tables, and its DSN.
func newShop(t *testing.T) (dsn string, db *sql.DB) {
	t.Helper()
	dsn = servers.MariaDB(t)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for statement := range strings.SplitSeq(schema, ";\n\n") {
		if _, err := db.Exec(strings.TrimSuffix(strings.TrimSpace(statement), ";")); err != nil {
			t.Fatal(err)
		}
	}
	return dsn, db
}

// consumed returns how many events have had their effect: the numbers of a SKU have no gap.
func consumed(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT COALESCE(SUM(number), 0) FROM inbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func sold(t *testing.T, db *sql.DB, sku string) (units int64) {
	t.Helper()
	if err := db.QueryRow("SELECT units FROM sold WHERE sku = ?", sku).Scan(&units); err != nil {
		t.Fatal(err)
	}
	return units
}
