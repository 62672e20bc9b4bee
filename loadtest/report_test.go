package loadtest_test

import (
	"bytes"
	"encoding/json"
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

func TestJSONReport(t *testing.T) {
	var b bytes.Buffer
	if err := loadtest.WriteJSON(&b, results()); err != nil {
		t.Fatal(err)
	}
	var got loadtest.Report
	dec := json.NewDecoder(bytes.NewReader(b.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Format != loadtest.ReportFormat || got.Version != loadtest.ReportVersion || len(got.Runs) != 6 {
		t.Errorf("%+v", got)
	}
	if v := got.Runs[0].Verdict; v.Finding != loadtest.Broken || v.LostUnits != 29 || len(v.Certificates) != 10 ||
		v.Collisions <= 10 {
		t.Errorf("finding %s, lost %d, %d certificates of %d", v.Finding, v.LostUnits, len(v.Certificates),
			v.Collisions)
	}
}

func TestMeasure(t *testing.T) {
	tape := newTape(1000)
	for range 100 {
		tape.next(1)
	}
	for i := range tape.records {
		tape.records[i].SentAt = noon.Add(time.Duration(i) * 10 * time.Millisecond)
		tape.records[i].DoneAt = tape.records[i].SentAt.Add(time.Duration(i+1) * time.Millisecond)
	}
	tape.answer(loadtest.Failed, 1).Instance = ""
	l := loadtest.Measure(tape.records)
	near := func(got, want float64) bool { return got >= want*0.998 && got <= want*1.002 }
	a := l.ByOutcome[loadtest.Accepted]
	if a.Count != 100 || !near(a.P50, 50) || !near(a.P90, 90) || !near(a.P95, 95) || !near(a.P99, 99) ||
		!near(a.Max, 100) || !near(a.Mean, 50.5) {
		t.Errorf("accepted %+v", a)
	}
	if !near(l.Seconds, 1.09) || !near(l.Rate, 101/1.09) || l.All.Count != 101 || len(l.ByOutcome) != 2 {
		t.Errorf("%+v", l)
	}
	if !near(l.Sold, 100/1.09) {
		t.Errorf("%.2f units sold per second", l.Sold)
	}
	if len(l.Instances) != 3 || l.Instances[0].Instance != "" || l.Instances[1].Accepted != 50 {
		t.Errorf("instances %+v", l.Instances)
	}
	// The refusals come after the last sale: they make the run longer, but its sales no slower.
	for range 900 {
		tape.answer(loadtest.SoldOut, 1)
		late := &tape.records[len(tape.records)-1]
		late.SentAt, late.DoneAt = noon.Add(2*time.Second), noon.Add(3*time.Second)
	}
	if late := loadtest.Measure(tape.records); late.Sold != l.Sold || late.Seconds <= 2.9 {
		t.Errorf("with refusals after the last sale %.2f units/s in %.2f s, want %.2f in 3", late.Sold, late.Seconds,
			l.Sold)
	}
	if empty := loadtest.Measure(nil); empty.Rate != 0 || empty.All.Count != 0 {
		t.Errorf("of nothing: %+v", empty)
	}
}
