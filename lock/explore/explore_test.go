package explore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/explore"
)

// counter is a model in which n goes up by 1 or 3, to 9 at most. Calm steps go up by 1.
func counter(settled func(n int) error) explore.Model[int] {
	return explore.Model[int]{
		Lanes: []string{"a"}, Init: []int{0}, Key: func(n int) string { return fmt.Sprint(n) }, Settled: settled,
		Steps: func(n int) (steps []explore.Step[int]) {
			for _, by := range []int{1, 3} {
				if n+by <= 9 {
					steps = append(steps, explore.Step[int]{
						To: n + by, Notes: []explore.Note{{Text: fmt.Sprint("+", by)}},
						Takes: time.Second, Calm: by == 1,
					})
				}
			}
			return steps
		},
	}
}

func TestTheShortestWayIsFound(t *testing.T) {
	m := counter(nil)
	m.Check = func(n int) error {
		if n == 7 {
			return errors.New("seven")
		}
		return nil
	}
	v := explore.Explore(m).Violation
	if v == nil || len(v.Events) != 3 || !strings.Contains(v.String(), "3s | +") {
		t.Errorf("found\n%v\nwant three steps to 7", v)
	}
	m.Check = nil
	if r := explore.Explore(m); r.Violation != nil || !r.Whole || r.States != 10 {
		t.Errorf("%v, want all 10 states", r)
	}
}

func TestCalmRuns(t *testing.T) {
	forgotten := errors.New("forgotten")
	m := counter(func(n int) error { return forgotten })
	if v := explore.Explore(m).Violation; v == nil || !errors.Is(v.Why, forgotten) || len(v.Events) != 9 {
		t.Errorf("found\n%v\nwant the calm run to 9", v)
	}
	m.Settled = func(int) error { return nil }
	m.Patience = 8 * time.Second
	if v := explore.Explore(m).Violation; v == nil || !strings.Contains(v.Why.Error(), "9s") {
		t.Errorf("found\n%v\nwant that nine seconds are too long", v)
	}
	m.Patience = 0
	steps := m.Steps
	m.Steps = func(n int) []explore.Step[int] {
		if n == 9 {
			return []explore.Step[int]{{To: 5, Calm: true}}
		}
		return steps(n)
	}
	if v := explore.Explore(m).Violation; v == nil || !strings.Contains(v.Why.Error(), "circle") {
		t.Errorf("found\n%v\nwant the circle", v)
	}
}
