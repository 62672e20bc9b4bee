package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plain are costs that are easy to reckon with: 100 µs of CPU for a request, and a store that locks the row for 1 ms
// and 10 µs for each sale.
func plain() costs {
	return costs{
		Client: price{20, 0}, Nginx: price{30, 0}, Service: price{50, 0}, StepWait: 500,
		StepStore: line{500, 10}, Trips: 1, TripsLocked: 1,
	}
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: got %.1f, want %.1f, give or take %.0f %%", what, got, want, 100*share)
	}
}

func TestOneCallerIsABatchOfOne(t *testing.T) {
	a := simulate(setup{costs: plain(), instances: 1, callers: 1, limit: 8, shared: 2, seed: 1, seconds: 1})
	if a.batch != 1 {
		t.Errorf("batches of %g", a.batch)
	}
	near(t, "sold/s, one after the other", a.rate, 1e6/(100+1010), 0.02)
}

// With a store that costs nothing the CPUs are the limit, however many callers there are.
func TestCPUsAreTheLimitOfCheapSteps(t *testing.T) {
	k := plain()
	k.StepWait, k.StepStore, k.TripsLocked = 0, line{}, 0
	for _, shared := range []int{1, 2} {
		a := simulate(setup{costs: k, instances: 3, callers: 60, limit: 128, shared: shared, seed: 1, seconds: 1})
		near(t, "sold/s", a.rate, float64(shared)*1e6/100, 0.02)
	}
	a := simulate(setup{costs: k, instances: 3, callers: 60, limit: 128, shared: 2, speed: 0.5, seed: 1, seconds: 1})
	near(t, "sold/s with half of the CPUs", a.rate, 1e6/100, 0.02)
	a = simulate(setup{costs: k, instances: 3, callers: 60, limit: 128, own: 2, seed: 1, seconds: 1})
	near(t, "sold/s on computers of their own, without the client", a.rate, 3*2*1e6/80, 0.02)
}

// With many instances the row is always locked, by one batch at a time, and batches are full.
func TestTheRowIsTheLimitOfManyInstances(t *testing.T) {
	k := plain()
	for _, limit := range []int{16, 128} {
		a := simulate(setup{
			costs: k, instances: 20, callers: 20 * 4 * limit, limit: limit, own: 4, trip: 200, seed: 1, seconds: 1,
		})
		near(t, "sold/s", a.rate, float64(limit)/(1000+10*float64(limit))*1e6, 0.05)
		near(t, "sales in a step", a.batch, float64(limit), 0.05)
		near(t, "share of the time with the row locked", a.row, 1, 0.01)
	}
	a := simulate(setup{costs: k, instances: 20, callers: 10240, limit: 128, own: 4, trip: 200, seed: 1, seconds: 1})
	near(t, "the limit from the costs alone", rowLimit(k, 0), a.rate, 0.05)
}

// Everybody gets a reply: no caller is forgotten in a queue.
func TestLittlesLaw(t *testing.T) {
	a := simulate(setup{costs: plain(), instances: 3, callers: 90, limit: 8, shared: 2, seed: 1, seconds: 2})
	near(t, "callers = sold/s x time of each", a.rate*a.p50/1000, 90, 0.15)
	if a.batch > 8.1 { // what was begun before counting counts when it ends
		t.Errorf("batches of %.2f, want 8 at most", a.batch)
	}
}

func TestTheSameSeedIsTheSameRun(t *testing.T) {
	s := setup{costs: plain(), instances: 3, callers: 90, limit: 128, shared: 2, seed: 1, seconds: 1}
	first, again := simulate(s), simulate(s)
	s.seed = 2
	other := simulate(s)
	if first != again {
		t.Errorf("%+v, then %+v", first, again)
	}
	if first == other {
		t.Error("another seed makes no difference")
	}
	near(t, "sold/s with another seed", other.rate, first.rate, 0.05)
}

// Processes take turns: one that has little to do does not wait behind all that another has.
func TestProcessesTakeTurns(t *testing.T) {
	var c clock
	one := &computer{clock: &c, idle: 1, speed: 1}
	greedy, modest := one.process(1), one.process(1)
	var ended []string
	for range 100 {
		greedy.use(1000, func() { ended = append(ended, "greedy") })
	}
	var at float64
	modest.use(10, func() { at = c.now })
	c.run(1e6)
	if at == 0 || at > slice+10 {
		t.Errorf("the modest one ended at %.0f µs, want one slice and its own 10", at)
	}
	if len(ended) != 100 || one.busy != 100*1000+10 {
		t.Errorf("%d ended, %.0f µs used: work was lost", len(ended), one.busy)
	}
}

func TestFit(t *testing.T) {
	var steps []step
	for _, n := range []int{1, 8, 32, 128} {
		steps = append(steps, step{N: n, Wall: 300 + 15*float64(n)})
	}
	got := fit(steps, func(p step) float64 { return p.Wall })
	near(t, "a", got.A, 300, 1e-9)
	near(t, "b", got.B, 15, 1e-9)
}

func TestMiddle(t *testing.T) {
	if got := middle([]point{{Rate: 3}, {Rate: 1}, {Rate: 2}}); got.Rate != 2 {
		t.Errorf("got the round of %g", got.Rate)
	}
}

func TestPricesAreWhatStepsLeave(t *testing.T) {
	s := &store{Costs: costs{StepCaller: line{300, 5}}}
	for _, n := range []float64{2, 10, 50} {
		s.Runs = append(s.Runs, point{Batch: n, CPU: map[string]float64{
			"client": 20, "nginx": 40 + 100/n, "service": 80 + 50/n + 300/n + 5,
		}})
	}
	if err := s.request(); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ got, want price }{
		"client": {s.Costs.Client, price{20, 0}}, "nginx": {s.Costs.Nginx, price{40, 100}},
		"service": {s.Costs.Service, price{80, 50}},
	} {
		if math.Abs(row.got.Each-row.want.Each) > 1e-6 || math.Abs(row.got.Wake-row.want.Wake) > 1e-6 {
			t.Errorf("%s: got %+v, want %+v", name, row.got, row.want)
		}
	}
	if (&store{}).request() == nil {
		t.Error("there are prices of nothing")
	}
}

// Neither part of a price is less than nothing, whatever noise there is.
func TestPricesAreNotNegative(t *testing.T) {
	for _, row := range []struct {
		cpu  [2]float64 // of batches of 1 and of 2
		want price
	}{
		{[2]float64{40, 60}, price{50, 0}},
		{[2]float64{60, 20}, price{0, 56}},
	} {
		got := priceOf([]point{{Batch: 1, Rate: row.cpu[0]}, {Batch: 2, Rate: row.cpu[1]}},
			func(p point) float64 { return p.Rate })
		if math.Abs(got.Each-row.want.Each) > 1e-9 || math.Abs(got.Wake-row.want.Wake) > 1e-9 {
			t.Errorf("of %v: got %+v, want %+v", row.cpu, got, row.want)
		}
	}
}

// Who is answered with many others costs less.
func TestWakingUpIsShared(t *testing.T) {
	k := plain()
	k.StepWait, k.StepStore, k.TripsLocked = 0, line{}, 0
	k.Service.Wake = 100
	few := simulate(setup{costs: k, instances: 1, callers: 60, limit: 2, shared: 1, seed: 1, seconds: 1})
	many := simulate(setup{costs: k, instances: 1, callers: 60, limit: 128, shared: 1, seed: 1, seconds: 1})
	if many.batch < 2*few.batch || many.rate < 1.2*few.rate {
		t.Errorf("in batches of %.1f %.0f/s, in batches of %.1f %.0f/s", few.batch, few.rate, many.batch, many.rate)
	}
	near(t, "sold/s in large batches", many.rate, 1e6/(100+100/many.batch), 0.05)
}

func TestAbout(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 7.44: "7", 99.6: "100", 1234: "1,200", 48_765: "49,000", 1_250_001: "1,300,000",
	} {
		if got := about(f); got != want {
			t.Errorf("%g is about %s, want %s", f, got, want)
		}
	}
}

func TestFillWantsItsMarks(t *testing.T) {
	if _, err := fill("no marks", &constants{}, &findings{}, en); err == nil {
		t.Error("no complaint")
	}
}

// The pages and their pictures are what the generator makes of the constants that are kept beside them.
func TestPagesAreOfTheKeptConstants(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	c, err := load(filepath.Join(docs, kept))
	if err != nil {
		t.Fatal(err)
	}
	found := simulateAll(c)
	for _, p := range pages() {
		text, err := os.ReadFile(filepath.Join(docs, p.name))
		if err != nil {
			t.Fatal(err)
		}
		made, err := fill(string(text), c, found, p.language)
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if made != string(text) {
			t.Errorf("docs/%s has other tables than docs/%s gives: make bench-scale ARGS=-write", p.name, kept)
		}
		if !strings.Contains(made, "]("+p.picture+")") {
			t.Errorf("docs/%s does not show %s", p.name, p.picture)
		}
		picture, err := os.ReadFile(filepath.Join(docs, p.picture))
		if err != nil {
			t.Fatal(err)
		}
		if got := found.picture(c, p.language); got != string(picture) {
			t.Errorf("docs/%s is another picture than docs/%s gives: make bench-scale ARGS=-write", p.picture,
				kept)
		}
	}
}
