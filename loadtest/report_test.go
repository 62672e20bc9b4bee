package loadtest_test

import (
	"bytes"
	"errors"
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

// Every line of a table and of a report fits a terminal of 121 columns, and colour changes no text.
func TestReportsFitATerminal(t *testing.T) {
	race, right, down := newTape(20), newTape(20), newTape(20)
	for range 30 {
		race.sell(race.version/3*3, 20, 1)
	}
	for range 20 {
		right.next(1)
	}
	down.next(1)
	down.answer(loadtest.Failed, 1).Error = "not sent: dial tcp 127.0.0.1:8080: connect: connection refused"
	down.answer(loadtest.Unknown, 1).Error = "no whole reply: EOF"
	down.account.After, down.account.Complete = nil, false
	down.account.Gap = words.Same("http://localhost:8080 cannot be reached")
	list := []*loadtest.Result{
		result("none", loadtest.Nowhere, race), result("redis-watchdog", loadtest.Cluster, race),
		result("zk-sequential", loadtest.Cluster, right), result("optimistic", loadtest.Cluster, down),
	}
	list[3].Interrupted, list[3].Plan.Requests = true, 3000
	ansi := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, write := range []func(*bytes.Buffer, report.Style) error{
		func(b *bytes.Buffer, s report.Style) error { return report.WriteTable(b, list, s) },
		func(b *bytes.Buffer, s report.Style) error { s.Width = 80; return report.WriteTable(b, list, s) },
		func(b *bytes.Buffer, s report.Style) error { return report.WriteReport(b, list[0], s) },
		func(b *bytes.Buffer, s report.Style) error { return report.WriteReport(b, list[1], s) },
		func(b *bytes.Buffer, s report.Style) error { return report.WriteReport(b, list[3], s) },
	} {
		var without, with bytes.Buffer
		if err := errors.Join(write(&without, report.Style{}), write(&with, report.Style{Color: true})); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(without.String()) {
			if n := utf8.RuneCountInString(line); n > 121 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		if bytes.Contains(without.Bytes(), []byte("\x1b")) || !bytes.Contains(with.Bytes(), []byte("\x1b[")) {
			t.Error("colour where there should be none, or the reverse")
		}
		trimmed := regexp.MustCompile(" +\n").ReplaceAllString(ansi.ReplaceAllString(with.String(), ""), "\n")
		if trimmed != without.String() {
			t.Errorf("with colour\n%s\nwithout\n%s", trimmed, without.String())
		}
	}
}
