package lab

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

var program stacktest.Program

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs scenarios on real servers.
func run(t *testing.T, o Options) Report {
	t.Helper()
	servertest.Needs(t, server.Redis)
	o.Binary, o.Parent = program.Path(t), t.TempDir()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return report
}

// probe is a scenario of the tests.
func probe(name string, f func(*Testbed) Outcome, cases ...Case) Scenario {
	return Scenario{Name: name, Group: NoLock, Needs: []Need{NeedRedis}, Cases: cases, Run: f}
}

func coded(want Outcome) Case { return Case{Code: "probe", Want: Forecast{Outcome: want}} }

// The engine finds out: a verdict that is not as predicted, a testbed that failed, a panic, a case that nobody
// knows, a delay that is too long.
func TestTheEngineFindsOut(t *testing.T) {
	t.Parallel()
	attempts := make(map[string]int)
	safely := func(*Testbed) Outcome { return Safe }
	scenarios := []Scenario{
		probe("right", safely, coded(Safe)),
		probe(
			"wrong",
			func(b *Testbed) Outcome { attempts["wrong"]++; return Oversells },
			coded(Safe),
		),
		probe("failed-once", func(b *Testbed) Outcome {
			if attempts["failed-once"]++; attempts["failed-once"] == 1 {
				b.Fatalf("a server was asleep")
			}
			return Safe
		}, coded(Safe)),
		probe("failed", func(b *Testbed) Outcome {
			b.Must("try", errors.New("it broke"))
			return Safe
		}, coded(Safe)),
		probe("panics", func(*Testbed) Outcome { panic("out of order") }, coded(Safe)),
		probe(
			"late", func(b *Testbed) Outcome { return b.Delayed(time.Hour) },
			Case{Code: "probe", Want: Forecast{Outcome: Delays, Within: time.Second}},
		),
		probe(
			"in-time", func(b *Testbed) Outcome { return b.Delayed(time.Second) },
			Case{Code: "probe", Want: Forecast{Outcome: Delays, Within: time.Second}},
		),
		probe("nobody", safely, Case{Strategy: "prayer", Want: Forecast{Outcome: Safe}}),
		probe(
			"down", safely, Case{Strategy: "zk-sequential", Want: Forecast{Outcome: Safe}},
		), // no ZooKeeper was started
	}
	missing := probe("missing", safely, coded(Safe))
	missing.Needs = []Need{"tape-drive"}
	report := run(t, Options{Scenarios: append(scenarios, missing)})
	for _, c := range report.Cells {
		want := map[string]string{
			"right": "safe, as predicted (by the scenario)", "wrong": "oversells, BUT PREDICTED: safe " +
				"(by the scenario)", "failed-once": "safe, as predicted (by the scenario)",
			"failed": "no verdict: try: it broke", "panics": "no verdict: panic: out of order",
			"late": "delays, 1h0m0s, BUT PREDICTED: delays, up to 1s " +
				"(by the scenario)", "in-time": "delays, 1s, as predicted (by the scenario)",
			"nobody": "no verdict: the service has no " +
				"strategy prayer", "down": "skipped, ", "missing": "skipped, tape-drive: it was not started",
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

// A case that leaves everything upside down leaves nothing to the next: frozen and dead instances, customers at a
// pause, traps.
func TestTheNextCaseFindsEverythingInOrder(t *testing.T) {
	t.Parallel()
	upside := func(b *Testbed) Outcome {
		apps := b.Apps(3)
		b.Stock(3)
		for i, app := range apps {
			r := Request{Pause: []string{AfterLock, AfterRead, BeforeWrite}}
			b.Begin(app, string(rune('A'+i)), r).Paused(AfterLock)
		}
		b.Freeze(apps[0])
		b.Kill(apps[1])
		return Safe
	}
	calm := func(b *Testbed) Outcome {
		b.Stock(3)
		for i, app := range b.Apps(3) {
			if r := b.Sell(app, string(rune('A'+i)), Request{}); r.Outcome != loadtest.Accepted {
				b.Fatalf("%s: %s", app.Name, Told(r))
			}
		}
		return b.Judge().Seen()
	}
	none := Case{Strategy: "none", Want: Forecast{Outcome: Safe}}
	before, after := probe("upside", upside, none), probe("calm", calm, none)
	report := run(t, Options{Scenarios: []Scenario{before, after, before, after}})
	for _, c := range report.Cells {
		if !c.AsPredicted || c.Before != "" {
			t.Errorf("%s: %s %s", c.Scenario, c.Verdict(), c.Before)
		}
	}
}

// An idle instance of an earlier scenario would end the reservations of a later one.
func TestNobodySweepsBesideAShop(t *testing.T) {
	t.Parallel()
	var idle *App
	before := probe("before", func(b *Testbed) Outcome {
		idle = b.Shop(1, "ORDERS_HTTP_MOST=19").Apps[0]
		return Safe
	}, coded(Safe))
	shop := probe("shop", func(b *Testbed) Outcome {
		s := b.Shop(1)
		b.Require(s.Apps[0].Pid() != 0, "the shop runs")
		b.Require(idle.Pid() == 0, "the instance of the scenario before has ended")
		more := s.Join(1, "ORDERS_HTTP_MOST=20")[0]
		b.Require(s.Apps[0].Pid() != 0 && more.Pid() != 0, "those of one scenario run side by side")
		return Safe
	}, coded(Safe))
	before.Needs, shop.Needs = []Need{NeedMySQL}, []Need{NeedMySQL}
	report := run(t, Options{Scenarios: []Scenario{before, shop}})
	for _, c := range report.Cells {
		if c.Failed != "" {
			t.Errorf("%s: %s", c.Scenario, c.Failed)
		}
	}
}

// Without Galera its cells are skipped, with the reason.
func TestWithoutGalera(t *testing.T) {
	path := program.Path(t)
	t.Setenv("PATH", t.TempDir())
	s := probe("two", func(*Testbed) Outcome { return Safe }, coded(Safe))
	s.Needs = []Need{NeedGalera}
	report, err := Run(t.Context(), Options{Scenarios: []Scenario{s}, Binary: path, Parent: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := report.Cells[0]
	if !strings.Contains(c.Skipped, "galera: ") || !strings.Contains(c.Skipped, "apt-get install") {
		t.Errorf("%s: %q", c.Verdict(), c.Skipped)
	}
}

// Who stands with the lock has a bar: how much of the lease is left, as the server has it. The scenario need not ask.
func TestAHolderWhoStandsHasALease(t *testing.T) {
	t.Parallel()
	stand := func(b *Testbed) Outcome {
		apps := b.Apps(2)
		b.Stock(1)
		a := b.BeginPaused(apps[0], "A", BeforeWrite, Request{})
		thaw := b.Freeze(apps[0]) // at once
		b.Sell(apps[1], "B", Request{Wait: Once()})
		thaw()
		a.Go()
		return Safe
	}
	names := []string{"redis-setnx", "redis-watchdog", "none"}
	var cases []Case
	for _, name := range names {
		cases = append(cases, Case{Strategy: name, Want: Forecast{Outcome: Safe}})
	}
	report := run(t, Options{Scenarios: []Scenario{probe("stand", stand, cases...)}})
	if len(report.Cells) != len(names) {
		t.Fatalf("%d cells", len(report.Cells))
	}
	for _, c := range report.Cells {
		held := slices.ContainsFunc(c.Events, func(e CaseEvent) bool {
			return e.Kind == Standing && e.Lane == "lock" && strings.HasPrefix(e.Who, "A on ") && len(e.TTL) > 0
		})
		if c.Failed != "" || held != (c.Strategy != "none") {
			t.Errorf("%s: %s %v", c.Strategy, c.Failed, c.Events)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	servertest.Needs(t, server.Redis)
	path := program.Path(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stuck := probe("stuck", func(b *Testbed) Outcome {
		cancel(errors.New("Ctrl-C"))
		b.Eventually("hell freezes", func() bool { return false })
		return ""
	}, coded(Safe))
	report, err := Run(ctx, Options{Scenarios: []Scenario{stuck, stuck}, Binary: path, Parent: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "Ctrl-C") || len(report.Cells) != 1 ||
		report.Cells[0].Failed == "" {
		t.Errorf("%v, %+v", err, report.Cells)
	}
}
