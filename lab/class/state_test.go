package class

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// recorded is a run of three sources: two buyers of one unit, one of them held, on two instances, and the class.
func recorded() map[string][]RunEvent {
	sources := map[string][]RunEvent{}
	clock := int64(1_000_000)
	add := func(e RunEvent) {
		clock += 1000
		e.At = clock
		e.Seq = uint64(len(sources[e.From]) + 1)
		if e.From != class {
			e.Boot = 77
		}
		sources[e.From] = append(sources[e.From], e)
	}
	plan := &RunPlan{Strategy: "none", Store: "redis", Stock: 1, Requests: 2, Scope: "none"}
	add(RunEvent{From: class, Kind: standing, Server: "app-1", State: "up"})
	add(RunEvent{From: class, Kind: runBegan, Run: 1, Plan: plan})
	add(RunEvent{From: class, Kind: stockSeen, Run: 1, Stock: &StockSeen{true, 1, 1, 0}})
	sell := func(app, req string) (step func(kind string, e RunEvent)) {
		add(RunEvent{From: class, Kind: fired, Run: 1, Req: req})
		return func(kind string, e RunEvent) {
			e.From, e.Kind, e.Req, e.Epoch, e.Version, e.Read = app, kind, req, 5, 0, 1
			add(e)
		}
	}
	a, b := sell("app-1", "r1.1"), sell("app-2", "r1.2")
	for _, kind := range []string{"arrived", "waits", "acquired", "read", "thinks"} {
		a(kind, RunEvent{Fence: "100"})
		b(kind, RunEvent{Fence: "99"})
	}
	a("paused", RunEvent{Point: "before_write"})
	add(RunEvent{From: class, Kind: standing, Server: "app-1", State: "frozen"})
	for _, kind := range []string{"writes", "wrote", "released", "ended"} {
		b(kind, RunEvent{Fence: "99", Outcome: map[bool]string{true: accepted}[kind == "ended"]})
	}
	add(RunEvent{From: class, Kind: answered, Run: 1, Req: "r1.2", Outcome: accepted})
	add(RunEvent{From: class, Kind: stockSeen, Run: 1, Stock: &StockSeen{true, 1, 0, 1}})
	add(RunEvent{From: class, Kind: standing, Server: "app-1", State: "up"})
	a("resumed", RunEvent{Point: "before_write"})
	for _, kind := range []string{"writes", "wrote", "released", "ended"} {
		a(kind, RunEvent{Fence: "100", Outcome: map[bool]string{true: accepted}[kind == "ended"]})
	}
	add(RunEvent{From: "app-1", Kind: gap, Count: 3, Run: 1})
	add(RunEvent{From: class, Kind: answered, Run: 1, Req: "r1.1", Outcome: accepted})
	add(RunEvent{From: class, Kind: allFired, Run: 1})
	add(RunEvent{From: class, Kind: stockSeen, Run: 1, Stock: &StockSeen{true, 1, 0, 2}})
	return sources
}

// interleave merges the sources at random, each in its own order.
func interleave(r *rand.Rand, sources map[string][]RunEvent) (merged []RunEvent) {
	left := map[string][]RunEvent{}
	names := []string{}
	for _, name := range []string{class, "app-1", "app-2"} {
		left[name] = sources[name]
		names = append(names, name)
	}
	for len(names) > 0 {
		i := r.IntN(len(names))
		name := names[i]
		n := min(1+r.IntN(8), len(left[name])) // sources come in bursts
		merged = append(merged, left[name][:n]...)
		if left[name] = left[name][n:]; len(left[name]) == 0 {
			names = append(names[:i], names[i+1:]...)
		}
	}
	return merged
}

func show(events []RunEvent) string {
	s := NewState()
	for _, e := range events {
		s.Apply(e)
	}
	return fmt.Sprintf("%s", s.View())
}

// Instances tell at their own pace, and a page must not show another run for that.
func FuzzAnyInterleavingShowsTheSame(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		sources := recorded()
		want := show(interleave(rand.New(rand.NewPCG(1, 1)), sources))
		merged := interleave(rand.New(rand.NewPCG(seed, seed)), sources)
		if got := show(merged); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		// An event that comes twice, after a connection was lost, changes nothing.
		if got := show(append(merged, merged[len(merged)/3:]...)); got != want {
			t.Errorf("with events told twice\ngot  %s\nwant %s", got, want)
		}
	})
}

// What the wall says of the run: one unit sold twice, both orders read the same, the fences have ranks.
func TestTheVerdictOfARecordedRun(t *testing.T) {
	s := NewState()
	for _, source := range recorded() {
		for _, e := range source {
			s.Apply(e)
		}
	}
	want := WallVerdict{
		Code: "race", Known: true, Initial: 1, Sold: 2, Truth: -1, Oversold: 1, Lost: 1, Collisions: 1, Dropped: 3,
	}
	if v := s.Verdict(); v != want {
		t.Errorf("%+v\nwant %+v", v, want)
	}
	for id, fence := range map[string]int{"r1.1": 2, "r1.2": 1} {
		token := s.token(id)
		if token.Fence != fence || !token.Twin || token.Phase != "done" || *token.Wrote != 0 || len(token.Holds) != 1 ||
			token.Holds[0].To <= token.Holds[0].From {
			t.Errorf("%s: %+v", id, token)
		}
	}
	bands := s.bands(s.faults["app-1"])
	if len(bands) != 1 || bands[0].State != "frozen" || bands[0].To <= bands[0].From {
		t.Errorf("bands %+v", bands)
	}
}

// What a later run begins is not mixed with what is left of an earlier one.
func TestALateStepOfAnEarlierRunIsNotShown(t *testing.T) {
	s := NewState()
	s.Apply(RunEvent{From: "app-1", Seq: 1, Kind: "waits", Req: "r2.1"})
	s.Apply(RunEvent{From: "app-2", Seq: 1, Kind: "waits", Req: "r1.9"})
	s.Apply(RunEvent{From: class, Seq: 1, Kind: answered, Run: 1, Req: "r1.9"})
	if len(s.reqs) != 1 || s.token("r2.1") == nil {
		t.Errorf("%v", s.reqs)
	}
}

// What the wall says of a run: by the store, and only when it was asked after the last reply.
func TestVerdicts(t *testing.T) {
	for _, row := range []struct {
		what string
		seen StockSeen
		over bool // the last reply has come
		late bool // it came after the stock was read
		want string
	}{
		{"nothing is wrong", StockSeen{true, 10, 7, 3}, true, false, "kept"},
		{"one is lost", StockSeen{true, 10, 8, 3}, true, false, "race"},
		{"one is lost, and it goes on", StockSeen{true, 10, 8, 3}, false, false, "race"},
		{"one is gone", StockSeen{true, 10, 6, 3}, true, false, "race"},
		{"one is oversold", StockSeen{true, 10, -1, 11}, true, false, "race"},
		{"it goes on", StockSeen{true, 10, 7, 3}, false, false, "selling"},
		{"the stock was read too early", StockSeen{true, 10, 7, 3}, true, true, "selling"},
		{"the store cannot be asked", StockSeen{}, true, false, "unknown"},
	} {
		s := NewState()
		s.Apply(RunEvent{From: class, Seq: 1, Kind: runBegan, Run: 1, Plan: &RunPlan{}})
		s.Apply(RunEvent{From: class, Seq: 2, Kind: stockSeen, Run: 1, Stock: &StockSeen{true, 10, 10, 0}})
		if row.over {
			s.Apply(RunEvent{From: class, Seq: map[bool]uint64{false: 3, true: 5}[row.late], Kind: allFired, Run: 1})
		}
		s.Apply(RunEvent{From: class, Seq: 4, Kind: stockSeen, Run: 1, Stock: &row.seen})
		if v := s.Verdict(); v.Code != row.want {
			t.Errorf("%s: %+v, want %s", row.what, v, row.want)
		}
	}
}

// A page that has the frames has the view, whatever was in between, and when the next run begins.
func TestFramesAddUp(t *testing.T) {
	s, shown, page := NewState(), View{}, View{}
	events := interleave(rand.New(rand.NewPCG(3, 3)), recorded())
	next := RunEvent{From: class, Seq: 99, Kind: runBegan, Run: 2, Plan: &RunPlan{}}
	for i, e := range append(events, next) {
		s.Apply(e)
		view := s.View()
		for key, value := range view.Diff(shown) {
			if page[key] = value; string(value) == "null" {
				delete(page, key)
			}
		}
		shown = view
		if got, want := fmt.Sprintf("%s", page), show(append(events, next)[:i+1]); got != want {
			t.Fatalf("the page has %s\nwant %s", got, want)
		}
	}
}

func TestRunOf(t *testing.T) {
	for id, want := range map[string]int{
		"r1.2": 1, "r12.345": 12, "": 0, "r": 0, "r.1": 0, "x1.2": 0, "r1": 0, "r1x.2": 0, "r99999999999999999999.1": 0,
	} {
		if got := runOf(id); got != want {
			t.Errorf("%q is of run %d, want %d", id, got, want)
		}
	}
}
