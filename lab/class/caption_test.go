package class

import (
	"encoding/json"
	"testing"
)

// A course of events of a scene, as instances and the class tell them.
type script struct {
	t   *testing.T
	s   *State
	seq map[string]uint64
}

func begunAs(t *testing.T, scene string, plan RunPlan) *script {
	plan.Scene = scene
	p := &script{t, NewState(), map[string]uint64{}}
	p.tell(class, RunEvent{Kind: runBegan, Run: 1, Plan: &plan})
	p.tell(class, RunEvent{Kind: stockSeen, Run: 1, Stock: &StockSeen{true, plan.Stock, plan.Stock, 0}})
	return p
}

func (p *script) tell(from string, e RunEvent) {
	p.seq[from]++
	e.From, e.Boot, e.Seq = from, 1, p.seq[from]
	e.At = int64(len(p.s.reqs)+1)*1000 + int64(e.Seq)
	p.s.Apply(e)
}

func (p *script) fire(id string) { p.tell(class, RunEvent{Kind: fired, Run: 1, Req: id, Who: "A"}) }

// counts returns the counts of the page.
func (p *script) counts() (n map[string]int) {
	if err := json.Unmarshal(p.s.View()["tally"], &n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// A holder that died is dead, also when its instance has been started again: it has no lock, and got no reply, which is
// no refusal.
func TestADeadHolderStaysDead(t *testing.T) {
	p := begunAs(t, "killed_holder", RunPlan{Strategy: "redis-watchdog", Stock: 10, Exclusive: true, Scope: "cluster"})
	p.fire("r1.1")
	p.tell("app-1", RunEvent{Kind: "acquired", Req: "r1.1"})
	p.fire("r1.2")
	p.tell("app-2", RunEvent{Kind: "waits", Req: "r1.2"})
	p.tell(class, RunEvent{Kind: stopped, Run: 1, N: 3, Of: 5})
	for _, step := range []struct {
		state, outcome, want string
	}{
		{"killed", "", "stop_killed_holder_3"},
		{"starting", "no_reply", "stop_killed_holder_3"},
		{"up", "", "stop_killed_holder_3"},
	} {
		p.tell(class, RunEvent{Kind: standing, Server: "app-1", State: step.state})
		if step.outcome != "" {
			p.tell(class, RunEvent{Kind: answered, Run: 1, Req: "r1.1", Outcome: step.outcome})
		}
		if got := p.s.caption().Key; got != step.want {
			t.Errorf("app-1 is %s: %s, want %s", step.state, got, step.want)
		}
	}
	if n := p.counts(); n["refused"] != 0 || n["silent"] != 1 {
		t.Errorf("%v, want one request without a reply, and none refused", n)
	}
}

// A wake-up counts when it happens. The reply repeats it, and adds only those whose step was lost.
func TestWakeUpsCountAtOnce(t *testing.T) {
	p := begunAs(t, "herd", RunPlan{Strategy: "zk-ephemeral", Stock: 100, Exclusive: true, Scope: "cluster"})
	for _, id := range []string{"r1.1", "r1.2"} {
		p.fire(id)
		p.tell("app-1", RunEvent{Kind: "waits", Req: id})
		p.tell("app-1", RunEvent{Kind: "woken", Req: id})
	}
	p.tell("app-1", RunEvent{Kind: "woken", Req: "r1.2"})
	if n := p.counts(); n["wakes"] != 3 {
		t.Errorf("%v, want 3 wake-ups before any reply", n)
	}
	p.tell(class, RunEvent{Kind: answered, Run: 1, Req: "r1.2", Outcome: accepted, Wakes: 4})
	if n := p.counts(); n["wakes"] != 5 {
		t.Errorf("%v, want 5 wake-ups: two of the second were told only by its reply", n)
	}
}
