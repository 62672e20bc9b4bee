package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/service/order"
)

// oldLedger returns a database with an order and a reservation of 2025, and an order of today.
func oldLedger(t *testing.T) (dsn string) {
	t.Helper()
	dsn = servers.MariaDB(t)
	if out, _, err := run(t.Context(), "migrate", "up", "--mysql-dsn", dsn); err != nil {
		t.Fatal(out, err)
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	id := func(t time.Time, n int) string { return fmt.Sprintf("%s-7000-8000-%012d", order.FirstID(t), n) }
	old, now := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC), time.Now().UTC()
	const cart = `[{"sku":"book","quantity":1}]`
	for _, row := range [][]any{
		{"INSERT INTO stock (sku, quantity, initial, sold, version, epoch, fence, guard, adjusted, number)" +
			" VALUES ('book', 8, 0, 2, 6, 1, 0, 'orders', 10, 5)"},
		{"INSERT INTO movements VALUES ('book', 1, 'set', 10, 10, 0, 0, '', '', '', ?, NULL)", old},
		{"INSERT INTO movements VALUES ('book', 2, 'sell', 0, -1, 0, 1, ?, 'ann', '', ?, NULL)", id(old, 1), old},
		{"INSERT INTO movements VALUES ('book', 3, 'reserve', 0, -1, 1, 0, ?, 'ann', '', ?, NULL)", id(old, 2), old},
		{"INSERT INTO movements VALUES ('book', 4, 'cancel', 0, 1, -1, 0, ?, 'ann', '', ?, NULL)", id(old, 2), old},
		{"INSERT INTO movements VALUES ('book', 5, 'sell', 0, -1, 0, 1, ?, 'ann', '', ?, NULL)", id(now, 3), now},
		{"INSERT INTO customer_orders VALUES (?, 'ann', ?, 'placed', '', 0, ?, NULL)", id(old, 1), cart, old},
		{"INSERT INTO customer_orders VALUES (?, 'ann', ?, 'placed', '', 0, ?, NULL)", id(now, 3), cart, now},
		{
			"INSERT INTO reservations (id, customer, cart, state, order_id, expires_at, created_at, ended_at)" +
				" VALUES (?, 'ann', ?, 'canceled', '', ?, ?, ?)", id(old, 2), cart,
			old.Add(time.Hour), old, old,
		},
	} {
		if _, err := db.Exec(row[0].(string), row[1:]...); err != nil {
			t.Fatal(row[0], err)
		}
	}
	return dsn
}

func TestArchiveCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	dsn, dir := oldLedger(t), filepath.Join(t.TempDir(), "new", "archive")
	stock := func(args ...string) (string, error) {
		t.Helper()
		out, _, err := run(t.Context(), append(args, "--store=mysql", "--mysql-dsn="+dsn)...)
		return out, err
	}
	out, err := stock("archive", "--before=2026-01-01", "--to", dir)
	if err != nil || !strings.HasPrefix(out, "archived 0 movements, 0 orders and 0 reservations in 0 parts: "+dir) ||
		!strings.Contains(out, "old movements of 1 SKU stay, with 2 orders or reservations of theirs") {
		t.Errorf("not delivered: %v\n%s", err, out)
	}
	out, err = stock("archive", "--before=2026-01-01", "--to", dir, "--undelivered", "--dry-run", "--json")
	var report struct{ Parts, Movements, Orders, Reservations int }
	if bad := json.Unmarshal([]byte(out), &report); err != nil || bad != nil || report.Movements != 4 ||
		report.Orders != 1 || report.Reservations != 1 {
		t.Errorf("dry run: %v, %v\n%s", err, bad, out)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("a dry run has written %v", list)
	}
	const done = "archived 4 movements, 1 order and 1 reservation in 2 parts: "
	out, err = stock("archive", "--before=2026-01-01", "--to", dir, "--undelivered")
	if err != nil || out != done+dir+"\n" {
		t.Errorf("%v\n%s", err, out)
	}
	const whole = "2 parts: 4 movements of 1 SKU, 1 order, 1 reservation: whole\n"
	if out, err = stock("archive", "verify", dir); err != nil || out != whole {
		t.Errorf("%v\n%s", err, out)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 2 || filepath.Base(names[0]) != "mysql-000001.jsonl.gz" {
		t.Fatalf("%v", names)
	}
	if err := os.Remove(names[1]); err != nil {
		t.Fatal(err)
	}
	if out, err = stock("archive", "verify", dir, "--offline"); err != nil || !strings.HasSuffix(out, ": whole\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = stock("archive", "verify", dir, "--lang=zh")
	status, is := errors.AsType[exitError](err)
	if !is || status.code != exitVerdict || words.Of(status.err).ZH != "归档有 2 处错误" ||
		!strings.Contains(out, "最后一份是第 1 份，而存储所知的最后一份不是它") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = stock("archive", "verify", dir, "--json"); err == nil ||
		!strings.Contains(out, `"the last part is 1, and not the last that the store knows"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestArchiveCommandRefuses(t *testing.T) {
	t.Parallel()
	dsn, dir := oldLedger(t), t.TempDir()
	for _, row := range []struct {
		args []string
		says string
		code int
	}{
		{nil, `--before "" is neither a day`, 0},
		{[]string{"--before=yesterday"}, `"yesterday" is neither`, 0},
		{[]string{"--before", time.Now().UTC().Format(time.RFC3339)}, "or earlier: what is younger may", 0},
		{[]string{"--before=2026-01-01", "--batch=0"}, "--batch must be from 1 to 10000", 0},
		{[]string{"--before=2026-01-01", "--mysql-dsn=stock@tcp(127.0.0.1:1)/stock"}, "dial", exitTarget},
	} {
		args := append([]string{"archive", "--store=mysql", "--mysql-dsn=" + dsn, "--to", dir}, row.args...)
		_, _, err := run(t.Context(), args...)
		status, _ := errors.AsType[exitError](err)
		if err == nil || !strings.Contains(err.Error(), row.says) || status.code != row.code {
			t.Errorf("%v: %v", row.args, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := run(ctx, "archive", "--before=2026-01-01", "--store=mysql", "--mysql-dsn="+dsn, "--to", dir)
	if status, is := errors.AsType[exitError](err); !is || status.code != exitInterrupted {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mysql-000001.jsonl.gz"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = run(t.Context(), "archive", "--before=2026-01-01", "--store=mysql", "--mysql-dsn="+dsn, "--to", dir)
	says(t, err, "the archive is damaged")
}
