package selltest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// Every way to sell tells what it does, in the order in which it does it, with what it saw.
func TestASaleTellsItsSteps(t *testing.T) {
	t.Parallel()
	const all = "arrived waits acquired read thinks writes wrote released ended"
	const atomic = "arrived waits acquired writes wrote released ended"
	mutex := func() service.Seller { return service.UnderLock(&local.Mutex{}) }
	for _, row := range []struct {
		name   string
		seller service.Seller
		store  func(testing.TB) shop
		want   string
	}{
		{"under lock", mutex(), func(t testing.TB) shop { return redisStore(t) }, all},
		{
			"optimistic", service.Optimistically(service.OptimisticOptions{}),
			func(t testing.TB) shop { return redisStore(t) }, all,
		},
		{
			"segmented", service.Segmented(&local.Mutex{}, service.SegmentedOptions{Segments: 1}),
			func(t testing.TB) shop { return redisStore(t) },
			// units are fetched first
			"arrived waits acquired released acquired read thinks writes wrote released ended",
		},
		{"in transaction", service.InTransaction, func(t testing.TB) shop { return mysqlStore(t) }, all},
		{"atomic", service.Atomically, func(t testing.TB) shop { return redisStore(t) }, atomic},
		{
			"merged", service.Merged(service.MergeOptions{}), func(t testing.TB) shop { return redisStore(t) }, atomic,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ring := service.NewSteps(64)
			s := stage(t, row.seller, row.store(t), watch(ring))
			receipt, err := s.sell(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			steps, kinds := told(t, ring)
			if kinds != row.want {
				t.Fatalf("told %s\nwant %s", kinds, row.want)
			}
			if receipt.ReadAt.IsZero() || receipt.WrittenAt.Before(receipt.ReadAt) {
				t.Errorf("read at %v, written at %v", receipt.ReadAt, receipt.WrittenAt)
			}
			for _, step := range steps {
				switch step.Kind {
				case service.ReadIt, service.Wrote, service.Ended:
					if step.Read != receipt.Read || step.Version != receipt.Version || step.Epoch != receipt.Epoch ||
						step.Fence != receipt.HolderFence || step.Err != nil {
						t.Errorf("%s: %+v, but the receipt is %+v", step.Kind, step, receipt)
					}
				}
				seen := map[service.StepKind]time.Time{service.ReadIt: receipt.ReadAt, service.Wrote: receipt.WrittenAt}
				if at, ok := seen[step.Kind]; ok && (at.After(step.At) || at.Before(receipt.AcquiredAt)) {
					t.Errorf("%s at %v, but the receipt says %v", step.Kind, step.At, at)
				}
				if step.Kind == service.Wrote && step.Remaining != receipt.Remaining {
					t.Errorf("wrote %d, but %d remain", step.Remaining, receipt.Remaining)
				}
			}
		})
	}
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

// Whatever the pace of the reader: what it got and what it was told to have missed is all there was, in order.
func TestAReaderKnowsWhatItMissed(t *testing.T) {
	t.Parallel()
	const tellers, each = 4, 5000
	ring := service.NewSteps(32)
	var all sync.WaitGroup
	for range tellers {
		all.Go(func() {
			for range each {
				ring.Tell(service.Step{Kind: service.ReadIt})
			}
		})
	}
	var last, got, missed uint64
	for last < tellers*each {
		steps, dropped, more := ring.After(last)
		if more != nil {
			<-more
			continue
		}
		missed += dropped
		for _, step := range steps {
			got++
			if step.Number != last+dropped+1 {
				t.Fatalf("step %d after %d, with %d dropped", step.Number, last, dropped)
			}
			last, dropped = step.Number, 0
		}
	}
	all.Wait()
	if got+missed != tellers*each {
		t.Errorf("%d read and %d missed of %d", got, missed, tellers*each)
	}
}

// A sale that is under way can be told to stop further on, and all sales at once.
func TestASaleUnderWayIsHeld(t *testing.T) {
	t.Parallel()
	ring := service.NewSteps(64)
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t), watch(ring))
	if err := s.Pauses.Hold("r-1", service.AfterRead); !errors.Is(err, service.ErrNotPaused) {
		t.Errorf("held before it began: %v", err)
	}
	s.Pauses.HoldAll(service.AfterLock)
	done := make(chan error, 1)
	go func() {
		_, err := s.sell(t.Context())
		done <- err
	}()
	stands := func(point service.Points) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if list := s.Pauses.List(); len(list) == 1 && list[0].Point == point {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("it does not stand at %v", point)
			}
		}
	}
	stands(service.AfterLock)
	if err := s.Pauses.Hold("r-1", service.BeforeWrite); err != nil {
		t.Fatal(err)
	}
	if n := s.Pauses.ReleaseAll(); n != 1 {
		t.Errorf("%d sales went on, want 1", n)
	}
	stands(service.BeforeWrite)
	s.Pauses.HoldAll(0)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	steps, kinds := told(t, ring)
	want := "arrived waits acquired paused resumed read thinks paused resumed writes wrote released ended"
	if kinds != want {
		t.Errorf("told %s\nwant %s", kinds, want)
	}
	if i := slices.IndexFunc(steps, func(s service.Step) bool { return s.Kind == service.Paused }); i >= 0 &&
		steps[i].Point != service.AfterLock {
		t.Errorf("paused at %v", steps[i].Point)
	}
	if err := s.Pauses.Hold("r-1", service.AfterRead); !errors.Is(err, service.ErrNotPaused) {
		t.Errorf("held after its end: %v", err)
	}
}
