package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"example.com/stock/tools/bench/rig"
)

// TestMain is also the worker: the contest starts its own program.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == workerRole {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestJain(t *testing.T) {
	for _, row := range []struct {
		shares []int64
		want   float64
	}{
		{[]int64{7, 7, 7}, 1},
		{[]int64{9, 0, 0}, 1. / 3},
		{[]int64{1, 2, 3}, 36. / 42},
		{[]int64{0, 0}, 0},
		{nil, 0},
	} {
		if got := jain(row.shares); math.Abs(got-row.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", row.shares, got, row.want)
		}
	}
}

func TestReportsAddUp(t *testing.T) {
	h := newHistogram()
	for range 99 {
		record(h, time.Millisecond)
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	h.Reset()
	record(h, 2*time.Second)
	slow, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]report{
		{Done: []int64{60, 38}, Late: 1, Histogram: encoded},
		{Done: []int64{0}, Late: 1, Histogram: slow},
	})
	if err != nil {
		t.Fatal(err)
	}
	var reports []report
	if err := json.Unmarshal(text, &reports); err != nil {
		t.Fatal(err)
	}
	o, err := judge(reports, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if o.Rate != 49 || o.turns() != 100 || o.P50 > 1.01 || math.Abs(o.Max-2000) > 2 || o.Jain >= 1 {
		t.Errorf("got %+v", o)
	}
}

// rowOf returns a row with these rates, one for each round; 0 is a round that failed.
func rowOf(table, name string, rates ...float64) *row {
	w := &row{Table: table, Name: name, Server: "redis", shape: shape{Procs: 3, Contenders: 10, Keys: 1}}
	for _, v := range rates {
		if v == 0 {
			w.Rounds = append(w.Rounds, nil)
			continue
		}
		w.Rounds = append(w.Rounds, &outcome{Rate: v, P99: 1000 / v})
	}
	return w
}

func TestRatioIsWithinRounds(t *testing.T) {
	a, b := rowOf(contended, "a", 200, 20, 0, 2000), rowOf(contended, "b", 100, 10, 5, 1000)
	if got, ok := a.ratio(b, rate); !ok || got != 2 {
		t.Errorf("ratio %v, %v: want 2, whatever the computer did in each round", got, ok)
	}
	if got, ok := rowOf(contended, "a", 20, 20, 300, 300).ratio(rowOf(contended, "b", 10, 100), rate); !ok ||
		got != 2.5 {
		t.Errorf("ratio %v, %v: want 2.5, each against its own round", got, ok)
	}
	if _, ok := a.ratio(nil, rate); ok {
		t.Error("there is a ratio to nothing")
	}
}

func TestFiguresAreHeldAgainstTheStrongestPeer(t *testing.T) {
	r := &results{Rows: []*row{
		rowOf(contended, nameWatchdog, 300, 300, 300),
		rowOf(contended, nameSpin, 250, 100, 250),
		rowOf(contended, nameRedislock, 100, 250, 100),
		rowOf(contended, nameRedsync, 10, 10, 10),
	}}
	compared := 0
	for _, f := range r.figures() {
		switch {
		case strings.HasPrefix(f.Text, "redis-watchdog throughput / best of") && !f.Missing:
			compared++
			if f.Got != 1.2 || f.Against != nameSpin || f.reached() {
				t.Errorf("throughput: %+v", f)
			}
		case strings.HasPrefix(f.Text, "redis-watchdog p99"):
			compared++
			if math.Abs(f.Got-250./300) > 1e-9 || f.Against != nameSpin || f.reached() {
				t.Errorf("p99: %+v", f)
			}
		}
	}
	if compared != 2 {
		t.Errorf("%d figures were compared", compared)
	}
}

// A lock with two holders at once makes the run fail. A race without a lock does not.
func TestLostUpdatesAreFoundOut(t *testing.T) {
	w := rowOf(contended, nameWatchdog, 1)
	r := &results{Rows: []*row{w}}
	if r.lostUpdates() {
		t.Error("nothing is lost yet")
	}
	w.Rounds[0].Lost = 1
	if !r.lostUpdates() || !strings.Contains(strings.Join(r.cells(w, false), " "), "WRONG") {
		t.Error("a lost update is not told")
	}
	w.Loses = true
	if r.lostUpdates() {
		t.Error("a race is taken for a lock")
	}
}

func TestFill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("a\n<!-- bench -->\nold\n<!-- /bench -->\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rig.Fill(file, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != "a\n<!-- bench -->\nnew\n<!-- /bench -->\nb\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("a\n<!-- bench -->\nold\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if rig.Fill(file, "x") == nil {
		t.Error("no complaint about a missing mark")
	}
}

// One short run with real servers: a lock loses nothing, no lock loses much, and both are told apart by the counter.
func TestContest(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Redis")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := parse([]string{
		"-rounds", "1", "-duration", "300ms", "-tables", contended, "-only",
		"^(no lock .*|redis-watchdog|SET NX.*)$",
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := openContest(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if c.missing[nameNone] != "" {
		t.Skip(c.missing[nameNone])
	}
	r, err := c.measure(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Rows {
		o := w.Rounds[0]
		if o == nil {
			t.Fatalf("%s failed: %v", w.Name, w.Errors)
		}
		if (w.Name == nameNone) != (o.Lost > 0) || o.Done == 0 || o.Stuck != 0 {
			t.Errorf("%s: %+v", w.Name, *o)
		}
	}
	if r.lostUpdates() {
		t.Error("a lock lost updates")
	}
}
