package main

import (
	"database/sql"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
)

const childMode = "CONSUMER_TEST_CHILD"

var (
	//go:embed schema.sql
	schema  string
	servers stacktest.Shared
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		main() // until it is killed
		return
	}
	goleak.VerifyTestMain(servers.Around(m))
}

// Consumers are killed all the time, and every event has its effect once.
func TestKilledConsumersLoseAndDoubleNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	const skus = 10
	each, kills := stacktest.Rounds(150, 40), stacktest.Rounds(12, 4)
	t.Parallel()
	server := stacktest.Redis(t)
	dsn, db := newShop(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	consume := func(name string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-redis", server.Addr, "-mysql", dsn, "-name", name, "-idle", "1s")
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
	running := []*exec.Cmd{consume("c0"), consume("c1")}
	t.Cleanup(func() {
		for _, cmd := range running {
			kill(cmd)
		}
	})

	streams := relay.NewStreams(client, nil)
	want := make(map[string]int64)
	for i := range skus * each {
		sku, units := fmt.Sprint("sku-", i%skus), int64(1+rand.N(5))
		want[sku] += units
		m := order.Movement{SKU: service.SKU(sku), Number: uint64(i/skus) + 1, Kind: order.Sell, Sold: units}
		for range 1 + rand.N(2) { // a relay repeats itself
			if err := streams.Deliver(t.Context(), relay.NewEvent(m)); err != nil {
				t.Fatal(err)
			}
		}
		if i%(skus*each/kills) == 0 {
			stacktest.Eventually(t, time.Minute, "consumption goes on", func() (bool, string) {
				done := inboxSize(t, db)
				return done >= i*9/10-200, fmt.Sprint(done, " of ", i)
			})
			victim := rand.N(len(running))
			kill(running[victim])
			running[victim] = consume(fmt.Sprint("c-", i))
		}
	}
	stacktest.Eventually(t, time.Minute, "all events are in the inbox", func() (bool, string) {
		n := inboxSize(t, db)
		return n == skus*each, fmt.Sprint(n)
	})
	for sku, units := range want {
		var got int64
		if err := db.QueryRow("SELECT units FROM sold WHERE sku = ?", sku).Scan(&got); err != nil || got != units {
			t.Errorf("%s: %d units, %v, want %d", sku, got, err, units)
		}
	}
	stacktest.Eventually(t, time.Minute, "nothing is pending", func() (bool, string) {
		pending := int64(0)
		for sku := range want {
			p, err := client.XPending(t.Context(), relay.StreamKey(service.SKU(sku)), "sold").Result()
			if err != nil {
				t.Fatal(err)
			}
			pending += p.Count
		}
		return pending == 0, fmt.Sprint(pending)
	})
}

// A transaction that breaks off, or whose end is not known, has its effect once when the event comes again.
func TestABrokenTransactionHasItsEffectOnce(t *testing.T) {
	t.Parallel()
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
	c := &consumer{db: through}
	number := 0
	for _, statement := range []string{"INTO inbox", "INTO sold", "COMMIT"} {
		for _, do := range []wire.Action{wire.Cut, wire.CutReply} {
			number++
			text := fmt.Sprintf(`{"id":"a/%[1]d/0","data":{"sku":"a","number":%[1]d,"sold":1}}`, number)
			proxy.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(statement), Do: do})
			if err := c.apply(t.Context(), text); err == nil {
				t.Errorf("%s, %v: no error", statement, do)
			}
			for range 2 {
				if err := c.apply(t.Context(), text); err != nil {
					t.Errorf("%s, %v, again: %v", statement, do, err)
				}
			}
			var units int
			if err := db.QueryRow("SELECT units FROM sold").Scan(&units); err != nil || units != number {
				t.Fatalf("%s, %v: %d units, %v, want %d", statement, do, units, err, number)
			}
		}
	}
}

// A ledger that was restored gives a number a second time, to another sale, which has its effect, too.
func TestTheNumberOfALostSaleIsGivenToAnother(t *testing.T) {
	t.Parallel()
	_, db := newShop(t)
	c := &consumer{db: db}
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	var sales []string
	for i, units := range []int64{2, 3} {
		m := order.Movement{
			SKU: "book.1", Number: 17, Kind: order.Sell, Sold: units, At: at.Add(time.Duration(i) * time.Hour),
		}
		text, err := json.Marshal(relay.NewEvent(m))
		if err != nil {
			t.Fatal(err)
		}
		sales = append(sales, string(text))
	}
	for _, i := range []int{0, 1, 0, 1} {
		if err := c.apply(t.Context(), sales[i]); err != nil {
			t.Fatal(err)
		}
	}
	var units int
	if err := db.QueryRow("SELECT units FROM sold").Scan(&units); err != nil || units != 5 {
		t.Errorf("%d units, %v, want 5", units, err)
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

func inboxSize(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT COUNT(*) FROM inbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheExampleIsShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 126 {
		t.Errorf("%d lines, want fewer than 126", n)
	}
}
