package selltest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// told returns the kinds of all steps, in order.
func told(t *testing.T, s *service.Steps) (steps []service.Step, kinds string) {
	t.Helper()
	for n := uint64(0); ; {
		part, dropped, _ := s.After(n)
		if dropped > 0 {
			t.Fatalf("%d steps were dropped", dropped)
		}
		if len(part) == 0 {
			break
		}
		steps = append(steps, part...)
		n = part[len(part)-1].Number
	}
	var names []string
	for i, step := range steps {
		names = append(names, string(step.Kind))
		if step.Number != uint64(i+1) || step.RequestID != "r-1" || step.At.IsZero() {
			t.Errorf("step %d: %+v", i, step)
		}
	}
	return steps, strings.Join(names, " ")
}

func watch(s *service.Steps) func(*service.Config) {
	return func(c *service.Config) { c.Watch, c.Pauses = s, &service.Pauses{} }
}

// A sale that gets the receipt of an earlier one tells so at its end: its version is that of the earlier one, and who
// compares versions would take it for a collision.
func TestASaleTellsThatItIsReplayed(t *testing.T) {
	t.Parallel()
	ring := service.NewSteps(64)
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t), watch(ring))
	for range 2 {
		if _, err := s.sell(t.Context(), key(t, "one")); err != nil {
			t.Fatal(err)
		}
	}
	steps, kinds := told(t, ring)
	var replayed []bool
	for _, step := range steps {
		if step.Kind == service.Ended {
			replayed = append(replayed, step.Replayed)
		}
	}
	if !slices.Equal(replayed, []bool{false, true}) || strings.Count(kinds, string(service.Wrote)) != 1 {
		t.Errorf("told %s, replayed %v", kinds, replayed)
	}
}

// A sale that fails tells why, also if it never came near a lock.
func TestASaleTellsHowItFailed(t *testing.T) {
	t.Parallel()
	ring := service.NewSteps(64)
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t), watch(ring))
	if _, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = initial + 1 }); err == nil {
		t.Fatal("it sold more than there is")
	}
	steps, kinds := told(t, ring)
	if want := "arrived waits acquired read released ended"; kinds != want {
		t.Errorf("told %s, want %s", kinds, want)
	}
	if !errors.Is(steps[len(steps)-1].Err, service.ErrSoldOut) {
		t.Errorf("ended with %v", steps[len(steps)-1].Err)
	}
	s.serving.turn(t, &driver.DownError{Server: "lock", Reason: "gone"})
	_, _ = s.sell(t.Context())
	steps, kinds = told(t, ring)
	if !strings.HasSuffix(kinds, " arrived ended") || !errors.Is(steps[len(steps)-1].Err, lock.ErrDown) {
		t.Errorf("told %s, ended with %v", kinds, steps[len(steps)-1].Err)
	}
}

// What does not fit into the ring is counted, and never told as if it were all.
func TestStepsThatAreForgottenAreCounted(t *testing.T) {
	t.Parallel()
	ring := service.NewSteps(8)
	for range 20 {
		ring.Tell(service.Step{})
	}
	steps, dropped, more := ring.After(0)
	if len(steps) != 8 || dropped != 12 || steps[0].Number != 13 || steps[7].Number != 20 || more != nil {
		t.Errorf("%d steps from %d on, %d dropped", len(steps), steps[0].Number, dropped)
	}
	if steps, dropped, _ := ring.After(18); len(steps) != 2 || dropped != 0 {
		t.Errorf("%d steps after 18, %d dropped", len(steps), dropped)
	}
	_, _, more = ring.After(ring.Last())
	select {
	case <-more:
		t.Error("there is no step after the last")
	default:
	}
	ring.Tell(service.Step{})
	<-more
}
