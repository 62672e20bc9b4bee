package lab

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// The quick scenarios come out as predicted, with evidence.
func TestQuick(t *testing.T) {
	var o Options
	for _, s := range All() {
		if s.Quick {
			o.Scenarios = append(o.Scenarios, s)
		}
	}
	report := run(t, o)
	for _, c := range report.Cells {
		if c.Skipped != "" {
			continue
		}
		if !c.AsPredicted || c.Before != "" {
			t.Errorf("%s: %s: %s %s\n%+v", c.Scenario, c.Case(), c.Verdict(), c.Before, c.Evidence)
		}
		if len(c.Evidence) == 0 || len(c.Events) == 0 {
			t.Errorf("%s: %s: %d pieces of evidence, %d events", c.Scenario, c.Case(), len(c.Evidence), len(c.Events))
		}
		if c.Observed == Oversells && !slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Kind == Pair || e.Kind == Hold }) {
			t.Errorf("%s: %s: oversold without a pair of orders, or two holders at once, that prove it", c.Scenario, c.Case())
		}
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil || len(again.Cells) != len(report.Cells) || !reflect.DeepEqual(again.Cells[0].Events, report.Cells[0].Events) {
		t.Errorf("the report does not survive JSON: %v", err)
	}
}

// probe is a scenario of the tests.
func probe(name string, f func(*Bench) Observation, cases ...Case) Scenario {
	return Scenario{Name: name, Group: NoLock, Needs: []Need{NeedRedis}, Cases: cases, Run: f}
}

func coded(want Outcome) Case { return Case{Code: "probe", Want: Forecast{Outcome: want}} }

// The engine finds out: a verdict that is not as predicted, a bench that failed, a panic, a case that nobody knows, a delay that is too long.
func TestTheEngineFindsOut(t *testing.T) {
	attempts := make(map[string]int)
	safely := func(*Bench) Observation { return Observation{Outcome: Safe} }
	scenarios := []Scenario{
		probe("right", safely, coded(Safe)),
		probe("wrong", func(b *Bench) Observation { attempts["wrong"]++; return Observation{Outcome: Oversells} }, coded(Safe)),
		probe("failed-once", func(b *Bench) Observation {
			if attempts["failed-once"]++; attempts["failed-once"] == 1 {
				b.Fatalf("a server was asleep")
			}
			return Observation{Outcome: Safe}
		}, coded(Safe)),
		probe("failed", func(b *Bench) Observation {
			b.Must("try", errors.New("it broke"))
			return Observation{Outcome: Safe}
		}, coded(Safe)),
		probe("panics", func(*Bench) Observation { panic("out of order") }, coded(Safe)),
		probe("late", func(*Bench) Observation { return Observation{Delays, time.Hour} }, Case{Code: "probe", Want: Forecast{Outcome: Delays, Within: time.Second}}),
		probe("in-time", func(*Bench) Observation { return Observation{Delays, time.Second} }, Case{Code: "probe", Want: Forecast{Outcome: Delays, Within: time.Second}}),
		probe("nobody", safely, Case{Strategy: "prayer", Want: Forecast{Outcome: Safe}}),
		probe("down", safely, Case{Strategy: "zk-sequential", Want: Forecast{Outcome: Safe}}), // no ZooKeeper was started
	}
	missing := probe("missing", safely, coded(Safe))
	missing.Needs = []Need{"tape-drive"}
	report := run2(t, append(scenarios, missing)...)
	for _, c := range report.Cells {
		want := map[string]string{
			"right": "safe, as predicted (stated)", "wrong": "oversells, BUT PREDICTED: safe (stated)", "failed-once": "safe, as predicted (stated)",
			"failed": "no verdict: try: it broke", "panics": "no verdict: panic: out of order",
			"late": "delays, 1h0m0s, BUT PREDICTED: delays, up to 1s (stated)", "in-time": "delays, 1s, as predicted (stated)",
			"nobody": "no verdict: the service has no strategy prayer", "down": "skipped, ", "missing": "skipped, tape-drive: it was not started",
		}[c.Scenario]
		if !strings.HasPrefix(c.Verdict().EN, want) {
			t.Errorf("%s: %s, want %s", c.Scenario, c.Verdict(), want)
		}
		if (c.Before != "") != (c.Scenario == "failed-once" || c.Failed != "") {
			t.Errorf("%s: before: %q", c.Scenario, c.Before)
		}
	}
	if attempts["wrong"] != 1 || attempts["failed-once"] != 2 {
		t.Errorf("attempts %v: a verdict is not tried again, a failure is once", attempts)
	}
	if got := len(report.Wrong()); got != 5 {
		t.Errorf("%d wrong, want 5", got)
	}
	if got := len(report.Skipped()); got != 2 {
		t.Errorf("%d skipped, want 2", got)
	}
}

// run2 is run without the complaint about what is skipped.
func run2(t *testing.T, scenarios ...Scenario) Report {
	t.Helper()
	t.Setenv("REQUIRE_BACKENDS", "")
	return run(t, Options{Scenarios: scenarios})
}

// A case that leaves everything upside down leaves nothing to the next: frozen and dead instances, customers at a pause, traps.
func TestTheNextCaseFindsEverythingInOrder(t *testing.T) {
	upside := func(b *Bench) Observation {
		apps := b.Apps(3)
		b.Stock(3)
		for i, app := range apps {
			b.Begin(app, string(rune('A'+i)), Ask{Pause: []string{AfterLock, AfterRead, BeforeWrite}}).Paused(AfterLock)
		}
		b.Freeze(apps[0])
		b.Kill(apps[1])
		return Observation{Outcome: Safe}
	}
	calm := func(b *Bench) Observation {
		b.Stock(3)
		for i, app := range b.Apps(3) {
			if r := b.Sell(app, string(rune('A'+i)), Ask{}); r.Outcome != loadtest.Accepted {
				b.Fatalf("%s: %s", app.Name, Told(r))
			}
		}
		return Observation{Outcome: map[bool]Outcome{true: Oversells, false: Safe}[b.Judge().Lost()]}
	}
	none := Case{Strategy: "none", Want: Forecast{Outcome: Safe}}
	for _, c := range run(t, Options{Scenarios: []Scenario{probe("upside", upside, none), probe("calm", calm, none)}, Repeat: 2}).Cells {
		if !c.AsPredicted || c.Before != "" {
			t.Errorf("%s: %s %s", c.Scenario, c.Verdict(), c.Before)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stuck := probe("stuck", func(b *Bench) Observation {
		cancel(errors.New("Ctrl-C"))
		b.Eventually("hell freezes", func() bool { return false })
		return Observation{}
	}, coded(Safe))
	report, err := Run(ctx, Options{Scenarios: []Scenario{stuck, stuck}, Binary: path, Parent: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "Ctrl-C") || len(report.Cells) != 1 || report.Cells[0].Failed == "" {
		t.Errorf("%v, %+v", err, report.Cells)
	}
}
