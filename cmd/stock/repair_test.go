package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ledgerAfter returns oldLedger after a statement.
func ledgerAfter(t *testing.T, statement string) (dsn string) {
	t.Helper()
	dsn = oldLedger(t)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
	return dsn
}

// damaged returns a ledger with five units more in the counters than in the movements.
func damaged(t *testing.T) string {
	t.Helper()
	return ledgerAfter(t, "UPDATE stock SET quantity = quantity + 5, adjusted = adjusted + 5")
}

// A plan is made and shown, a person chooses, and it is applied once.
func TestRepairCommand(t *testing.T) {
	t.Parallel()
	dsn, plan := damaged(t), filepath.Join(t.TempDir(), "plan.json")
	stock := func(code int, args ...string) string {
		t.Helper()
		out, _, err := run(t.Context(), append(args, "--store=mysql", "--mysql-dsn="+dsn)...)
		status, _ := errors.AsType[exitError](err)
		if status.code != code || code == 0 && err != nil {
			t.Errorf("%v: %v, want status %d\n%s", args, err, code, out)
		}
		return out
	}
	wants := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("no %q in\n%s", part, out)
			}
		}
	}
	wants(stock(exitVerdict, "audit", "--repair-plan", plan),
		"counters:     received 15, available 13, reserved 0, sold 2; last movement 5",
		"movements:    received 10, available 8, reserved 0, sold 2; last movement 5",
		"orders:       2 units in placed orders",
		"counters: write received 5, available 5, reserved 0, sold 0, because the counters are believed",
		"then received 10 = available 8 + reserved 0 + sold 2",
		"--believe book=NAME, with one of counters, movements", "Nothing was written to the store")
	if _, _, err := run(t.Context(), "audit", "--repair-plan", plan, "--store=mysql", "--mysql-dsn="+dsn); !errors.Is(
		err, os.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	wants(stock(exitVerdict, "audit", "--apply", plan), "book: a person must choose")
	wants(stock(exitVerdict, "audit", "--apply", plan, "--lang=zh"), "book: 须由人选择")
	wants(stock(0, "audit", "--apply", plan, "--believe", "book=movements"), "book: applied: movement 6 (movements)")
	wants(stock(0, "audit", "--apply", plan, "--believe", "book=movements"),
		"book: already applied: movement 6; nothing was written")
	wants(stock(0, "audit", "--repair-plan", plan+"2"), "The books balance.")
	if _, err := os.Stat(plan + "2"); err == nil {
		t.Error("a plan of nothing was written")
	}
}

func TestRepairCommandRefuses(t *testing.T) {
	t.Parallel()
	dsn, plan := damaged(t), filepath.Join(t.TempDir(), "plan.json")
	_, _, _ = run(t.Context(), "audit", "book", "--repair-plan", plan, "--store=mysql", "--mysql-dsn="+dsn)
	text, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Plan string }
	if err := json.Unmarshal(text, &read); err != nil || !strings.HasPrefix(read.Plan, "repair-") {
		t.Fatalf("%v\n%s", err, text)
	}
	edited := filepath.Join(t.TempDir(), "edited.json")
	changed := strings.Replace(string(text), `"held": 0`, `"held": 1`, 1)
	if err := os.WriteFile(edited, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	other := usedLedger(t)
	for _, row := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"--repair-plan", plan, "--apply", plan}, "exclude each other", 0},
		{[]string{"--apply", plan, "book"}, "takes its SKUs from the plan", 0},
		{[]string{"--apply", plan + "3"}, "no such file", 0},
		{[]string{"--apply", edited}, "the plan was edited", 0},
		{[]string{"--apply", plan, "--believe", "book"}, `--believe "book" is not SKU=NAME`, 0},
		{[]string{"--apply", plan, "--believe", "book=shelf"}, `no option "shelf" for "book"`, 0},
		{[]string{"--apply", plan, "--believe", "pen=counters"}, `no option "counters" for "pen"`, 0},
		{[]string{"--apply", plan, "--mysql-dsn", other}, "for another store", 0},
		{[]string{"--repair-plan", plan + "4", "ghost"}, "audit of ghost", exitTarget},
		{[]string{"--repair-plan", plan + "4", "a/b"}, "sku", 0},
		{
			[]string{"--repair-plan", plan + "4", "--mysql-dsn=stock@tcp(127.0.0.1:1)/stock"},
			"connection refused", exitTarget,
		},
	} {
		args := append([]string{"audit", "--store=mysql", "--mysql-dsn=" + dsn}, row.args...)
		_, _, err := run(t.Context(), args...)
		status, _ := errors.AsType[exitError](err)
		if err == nil || !strings.Contains(err.Error(), row.says) || status.code != row.code {
			t.Errorf("%v: %v, want %q", row.args, err, row.says)
		}
	}
}

// usedLedger returns a ledger that an instance has used, so its data have an origin.
func usedLedger(t *testing.T) string {
	t.Helper()
	return ledgerAfter(t, "INSERT INTO origins (name, id, generation, lost) VALUES ('', 'other', 1, 0)")
}
