package soak

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func plan(seed uint64, length time.Duration) []Step {
	return Random{Seed: seed, For: length}.Plan()
}

// The faults, their targets, times and parameters follow from the seed alone: the first steps of one seed are
// written down here. A change to how plans are drawn would give another meaning to every seed in people's notes.
func TestAPlanFollowsFromItsSeed(t *testing.T) {
	var text strings.Builder
	Writer{&text, "en"}.Plan(plan(1, 20*time.Second))
	if text.String() != wantPlan {
		t.Errorf("seed 1:\n%s\nwant\n%s", text.String(), wantPlan)
	}
	for seed := range uint64(20) {
		long, short := plan(seed, 10*time.Minute), plan(seed, time.Minute)
		if !reflect.DeepEqual(long, plan(seed, 10*time.Minute)) {
			t.Errorf("seed %d: two plans of one seed differ", seed)
		}
		if len(short) >= len(long) || !reflect.DeepEqual(long[:len(short)], short) {
			t.Errorf("seed %d: 10 minutes do not begin like 1 minute", seed)
		}
		if reflect.DeepEqual(long, plan(seed+1, 10*time.Minute)) {
			t.Errorf("seeds %d and %d have the same plan", seed, seed+1)
		}
	}
}

func TestAPlanIsWithinItsBounds(t *testing.T) {
	kinds, targets, past, two := make(map[Kind]int), make(map[string]int), 0, 0
	for seed := range uint64(20) {
		length := time.Duration(0)
		for _, s := range plan(seed, 10*time.Minute) {
			length += s.nominal()
			if s.Quiet < time.Second || s.Quiet > 4*time.Second || len(s.Faults) < 1 || len(s.Faults) > 2 {
				t.Errorf("seed %d: %s", seed, s)
			}
			if len(s.Faults) == 2 {
				two++
				if s.Faults[0].Target == s.Faults[1].Target || s.Faults[1].Later > s.Faults[0].For {
					t.Errorf("seed %d: two faults of one target, or one after the other: %s", seed, s)
				}
			}
			for _, f := range s.Faults {
				kinds[f.Kind]++
				targets[f.Target]++
				if f.Past() {
					past++
				}
				onLink := strings.Contains(f.Target, "~")
				if onLink != slices.Contains([]Kind{Cut, Silence, Slow}, f.Kind) || f.For < 0 || f.For > 8*time.Second {
					t.Errorf("seed %d: %s", seed, f)
				}
				if (f.Kind == Slow) != (f.By > 0) || (f.Kind == Silence) != (f.Way != "") {
					t.Errorf("seed %d: %+v", seed, f)
				}
			}
		}
		if length > 10*time.Minute || length < 9*time.Minute {
			t.Errorf("seed %d: its steps take %v", seed, length)
		}
	}
	for _, kind := range Kinds() {
		if kinds[kind] == 0 {
			t.Errorf("no %s in twenty plans", kind)
		}
	}
	for _, server := range serverNames() {
		for _, instance := range instanceNames() {
			for _, target := range []string{server, instance, link(instance, server)} {
				if targets[target] == 0 {
					t.Errorf("nothing is ever done to %s", target)
				}
			}
		}
	}
	if past == 0 || two == 0 {
		t.Errorf("%d freezes past the lease, %d steps of two faults", past, two)
	}
}

func TestOnlyAnInstanceOutlivesItsLease(t *testing.T) {
	for _, row := range []struct {
		f    Fault
		want bool
	}{
		{Fault{Kind: Freeze, Target: "app-1", For: lease + time.Millisecond}, true},
		{Fault{Kind: Freeze, Target: "app-1", For: lease}, false},
		{Fault{Kind: Kill, Target: "app-1", For: 2 * lease}, false},
		{Fault{Kind: Freeze, Target: "redis", For: 2 * lease}, false},
	} {
		if got := row.f.Past(); got != row.want {
			t.Errorf("%s: %v, want %v", row.f, got, row.want)
		}
	}
}

const wantPlan = `   1  quiet for 1.195s, then silence orders-1~zookeeper for 4.471s, both ways
   2  quiet for 2.058s, then cut app-2~mysql for 2.964s
   3  quiet for 1.369s, then restart mysql for 2.346s; 57ms later: freeze app-3 for 1.825s
`
