package loadtest_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// result returns a run of strategy with the evidence of the tape.
func result(strategy, scope string, t *tape) *loadtest.Result {
	for i := range t.records {
		t.records[i].SentAt = noon.Add(time.Duration(i) * time.Millisecond)
		t.records[i].DoneAt = t.records[i].SentAt.Add(time.Duration(2+i%20) * 777 * time.Microsecond)
		if t.records[i].Outcome == loadtest.Accepted {
			t.records[i].OrderID = strings.Replace(t.records[i].OrderID, "o", "0198c0de-7000-7000-8000-00000000000", 1)
		}
	}
	for i := range t.account.Orders {
		t.account.Orders[i].OrderID = strings.Replace(t.account.Orders[i].OrderID, "o",
			"0198c0de-7000-7000-8000-00000000000", 1)
	}
	r := &loadtest.Result{
		Plan: loadtest.Plan{
			Strategy: strategy, Store: "redis", SKU: "load-" + strategy, Quantity: 1, Stock: t.account.Before.Quantity,
			Requests: len(t.records), Concurrency: 30, Timeout: 30 * time.Second,
		},
		Target:    "http://localhost:8080",
		Run:       "load-x",
		StartedAt: noon,
		Records:   t.records,
		Accounts:  []loadtest.Account{t.account},
		Strategy:  loadtest.Strategy{Name: strategy, Promise: loadtest.Promise{Scope: scope, Exclusive: true}},
	}
	r.Verdict = loadtest.Judge(
		loadtest.Evidence{Records: t.records, Accounts: []loadtest.Account{t.account}, Promise: r.Strategy.Promise})
	r.Latency = loadtest.Measure(t.records)
	return r
}

func results() []*loadtest.Result {
	race := newTape(20)
	for range 30 {
		race.sell(race.version/3*3, 20, 1)
	}
	luck := newTape(100)
	luck.next(1)
	luck.next(1)
	right := newTape(20)
	for range 20 {
		right.next(1)
	}
	for range 10 {
		right.answer(loadtest.SoldOut, 1)
	}
	tries := newTape(20)
	for i := range 30 {
		if i%3 == 0 {
			tries.next(1)
			continue
		}
		tries.answer(loadtest.Busy, 1).Problem = "lock_busy"
	}
	broken := newTape(20)
	broken.next(1)
	broken.sell(3, 20, 1)
	overlapping := broken.next(1)
	overlapping.AcquiredAt, overlapping.ReleasedAt = noon, noon.Add(2*time.Millisecond)
	overlapping = broken.next(1)
	overlapping.AcquiredAt, overlapping.ReleasedAt = noon.Add(time.Millisecond), noon.Add(3*time.Millisecond)
	down := newTape(20)
	down.next(1)
	down.answer(loadtest.Failed, 1).Error = "not sent: dial tcp 127.0.0.1:8080: connect: connection refused"
	down.answer(loadtest.Unknown, 1).Error = "no whole reply: EOF"
	down.account.After, down.account.Complete, down.account.Gap = nil, false, words.Same(
		"http://localhost:8080 cannot be reached")

	list := []*loadtest.Result{
		result("none", loadtest.Nowhere, race),
		result("local-mutex", loadtest.Process, luck),
		result("redis-setnx", loadtest.Cluster, tries),
		result("redis-watchdog", loadtest.Cluster, broken),
		result("zk-sequential", loadtest.Cluster, right),
		result("optimistic", loadtest.Cluster, down),
	}
	list[5].Interrupted, list[5].Plan.Requests = true, 3000
	return list
}

// Every line of a table and of a report fits a terminal of 121 columns.
func TestReportsFitATerminal(t *testing.T) {
	list := results()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table":        func(b *bytes.Buffer) error { return report.WriteTable(b, list, report.Style{}) },
		"table-narrow": func(b *bytes.Buffer) error { return report.WriteTable(b, list, report.Style{Width: 80}) },
		"race":         func(b *bytes.Buffer) error { return report.WriteReport(b, list[0], report.Style{}) },
		"broken":       func(b *bytes.Buffer) error { return report.WriteReport(b, list[3], report.Style{}) },
		"holds":        func(b *bytes.Buffer) error { return report.WriteReport(b, list[4], report.Style{}) },
		"unknown":      func(b *bytes.Buffer) error { return report.WriteReport(b, list[5], report.Style{}) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(line); n > 121 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestColourChangesNoText(t *testing.T) {
	list := results()
	for _, write := range []func(*bytes.Buffer, report.Style) error{
		func(b *bytes.Buffer, s report.Style) error { return report.WriteTable(b, list, s) },
		func(b *bytes.Buffer, s report.Style) error { return report.WriteReport(b, list[3], s) },
	} {
		var without, with bytes.Buffer
		if err := write(&without, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if err := write(&with, report.Style{Color: true}); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(without.Bytes(), []byte("\x1b")) || !bytes.Contains(with.Bytes(), []byte("\x1b[1;31m")) {
			t.Error("colour where there should be none, or the reverse")
		}
		trimmed := regexp.MustCompile(" +\n").ReplaceAllString(ansi.ReplaceAllString(with.String(), ""), "\n")
		if trimmed != without.String() {
			t.Errorf("with colour\n%s\nwithout\n%s", trimmed, without.String())
		}
	}
}
