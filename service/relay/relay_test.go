package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
)

var errPoison = errors.New("no \xff such field")

// Sinks that lose events, and sinks that take an event and say that they have not, change nothing: every stream has
// every event once, in order.
func TestStreamsHaveEveryEventOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const skus, each = 50, 20
	s, _ := newShelf(t)
	client := dialRedis(t, stacktest.Redis(t).Addr)
	streams := relay.NewStreams(client, nil)
	var failed atomic.Int64
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(1, 2))
	roll := func() float64 { mu.Lock(); defer mu.Unlock(); return dice.Float64() }
	sink := &diary{Sink: streams}
	sink.answer = func(e relay.Event, _ int) error {
		switch r := roll(); {
		case r < 0.1:
			failed.Add(1)
			return errPoison
		case r < 0.2:
			failed.Add(1)
			return errors.Join(streams.Deliver(t.Context(), e), relay.ErrUnavailable)
		}
		return nil
	}
	c := quick(s, sink, newLatch())
	c.Attempts, c.Batch, c.Parallel, c.Term = 100, 7, 4, 300*time.Millisecond
	start(t, c)
	var sellers sync.WaitGroup
	for w := range 5 {
		sellers.Go(func() {
			for range each {
				for i := w; i < skus; i += 5 {
					s.receive(t, service.SKU(fmt.Sprintf("sku.%d", i)), 1)
				}
			}
		})
	}
	sellers.Wait()
	emptied(t, s)
	if failed.Load() < 100 {
		t.Errorf("%d failures: too few for this test", failed.Load())
	}
	names, err := client.SMembers(t.Context(), relay.StreamIndex).Result()
	if err != nil || len(names) != skus {
		t.Errorf("%d streams in the index, %v, want %d", len(names), err, skus)
	}
	for _, name := range names {
		entries, err := client.XRange(t.Context(), name, "-", "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, entry := range entries {
			ids = append(ids, entry.ID)
		}
		var want []string
		for _, n := range numbers(each) {
			want = append(want, fmt.Sprint(n, "-0"))
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v", name, ids)
		}
	}
}

// An ahead is the outbox of a server whose clock is two hours ahead of this computer's.
type ahead struct{ order.Outbox }

func (a ahead) Now(ctx context.Context) (time.Time, error) {
	now, err := a.Outbox.Now(ctx)
	return now.Add(2 * time.Hour), err
}

// Movements have their times from the store's server, and how old they are is by its clock.
func TestTheLagIsByTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	s.receive(t, "book", 1)
	oldest := make(chan time.Duration, 1)
	c := quick(s, &diary{answer: func(relay.Event, int) error { return relay.ErrUnavailable }}, newLatch())
	c.Outbox = ahead{s}
	c.Observer.Lag = func(l relay.Lag) {
		select {
		case oldest <- l.Oldest:
		default:
		}
	}
	start(t, c)
	if age := <-oldest; age < 2*time.Hour || age > 3*time.Hour {
		t.Errorf("a movement that is two hours old by that clock: %v", age)
	}
}

func TestAPoisonEventStopsItsOwnSKUUntilAPersonDecides(t *testing.T) {
	t.Parallel()
	for _, verdict := range []order.Decision{order.Resend, order.Skip} {
		t.Run(string(verdict), func(t *testing.T) {
			t.Parallel()
			s, _ := newShelf(t)
			var fixed atomic.Bool
			sink := &diary{answer: func(e relay.Event, _ int) error {
				if e.Data.Number == 3 && e.Data.SKU == "bad" && !fixed.Load() {
					return errPoison
				}
				return nil
			}}
			var lag atomic.Pointer[relay.Lag]
			c := quick(s, sink, newLatch())
			c.Observer.Lag = func(l relay.Lag) { lag.Store(&l) }
			s.receive(t, "bad", 6)
			s.receive(t, "good", 6)
			stop := start(t, c)
			var letters []order.DeadLetter
			stacktest.Eventually(t, 30*time.Second, "bad/3 parked, all else delivered", func() (bool, string) {
				letters, _ = s.Parked(t.Context(), "", 10)
				return len(letters) == 1 && s.undelivered(t) == 4, fmt.Sprint(letters, s.undelivered(t))
			})
			letter := letters[0]
			if letter.SKU != "bad" || letter.Number != 3 || letter.Attempts != c.Attempts || letter.Reason == "" {
				t.Errorf("letter %+v", letter)
			}
			if got := sink.of("good"); !slices.Equal(got, numbers(6)) {
				t.Errorf("good: %v", got)
			}
			if got := sink.of("bad"); !slices.Equal(got, numbers(2)) {
				t.Errorf("bad: %v: those behind the letter must wait", got)
			}
			// Another relay, which has not seen it fail, does not try it either.
			stop()
			start(t, c)
			s.receive(t, "good", 1)
			stacktest.Eventually(t, 30*time.Second, "good/7", func() (bool, string) {
				return len(sink.of("good")) == 7, fmt.Sprint(sink.of("good"))
			})
			if got := sink.tries("bad/3"); got != c.Attempts {
				t.Errorf("bad/3 was tried %d times, want %d", got, c.Attempts)
			}
			stacktest.Eventually(t, 30*time.Second, "the lag", func() (bool, string) {
				l := lag.Load()
				return l != nil && l.Parked == 1 && l.Undelivered == 4 && l.Oldest > 0, fmt.Sprintf("%+v", l)
			})

			fixed.Store(verdict == order.Resend)
			if err := s.Decide(t.Context(), "bad", 3, verdict); err != nil {
				t.Fatal(err)
			}
			emptied(t, s)
			want := numbers(6)
			if verdict == order.Skip {
				want = slices.Delete(want, 2, 3)
			}
			if got := sink.of("bad"); !slices.Equal(got, want) {
				t.Errorf("bad: %v, want %v", got, want)
			}
			stacktest.Eventually(t, 30*time.Second, "no letter", func() (bool, string) {
				letters, err := s.Parked(t.Context(), "", 10)
				return len(letters) == 0, fmt.Sprint(letters, err)
			})
		})
	}
}

// A letter sent again that is refused again is parked again, with its attempts anew.
func TestALetterThatIsRefusedAgainIsParkedAgain(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	sink := &diary{answer: func(relay.Event, int) error { return errPoison }}
	c := quick(s, sink, newLatch())
	s.receive(t, "bad", 2)
	start(t, c)
	for round := 1; round <= 2; round++ {
		stacktest.Eventually(t, 30*time.Second, "parked", func() (bool, string) {
			letters, err := s.Parked(t.Context(), "", 10)
			return len(letters) == 1 && letters[0].Decision == order.Undecided, fmt.Sprint(letters, err)
		})
		if got := sink.tries("bad/1"); got != round*c.Attempts {
			t.Errorf("round %d: tried %d times", round, got)
		}
		if err := s.Decide(t.Context(), "bad", 1, order.Resend); err != nil {
			t.Fatal(err)
		}
	}
}

// A relay that died after it had delivered an event that was parked, and before it removed the letter, leaves a letter
// that means nothing. The next one removes it, and keeps those that mean something.
func TestALetterThatWasLeftBehindIsRemoved(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	for _, sku := range []service.SKU{"idle", "busy", "bad"} {
		s.receive(t, sku, 3)
		if err := s.Park(t.Context(), order.DeadLetter{SKU: sku, Number: 2}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []order.Delivered{{SKU: "idle", Number: 3}, {SKU: "busy", Number: 2}, {SKU: "bad", Number: 1}} {
		if err := s.Delivered(t.Context(), d, 0); err != nil {
			t.Fatal(err)
		}
	}
	sink := &diary{}
	start(t, quick(s, sink, newLatch()))
	stacktest.Eventually(t, 30*time.Second, "the letter of bad alone is left", func() (bool, string) {
		letters, err := s.Parked(t.Context(), "", 10)
		return len(letters) == 1 && letters[0].SKU == "bad", fmt.Sprint(letters, err)
	})
	stacktest.Eventually(t, 30*time.Second, "busy/3", func() (bool, string) {
		return slices.Equal(sink.of("busy"), []uint64{3}), fmt.Sprint(sink.of("busy"))
	})
	if got := sink.of("bad"); len(got) > 0 {
		t.Errorf("bad: %v, but 2 is parked", got)
	}
}

// A receiver that hangs for one SKU, or is slow, does not hold up the others.
func TestASlowReceiverHoldsUpItsOwnSKU(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	let := make(chan struct{})
	sink := &diary{answer: func(e relay.Event, _ int) error {
		if e.Data.SKU == "a-slow-one" { // the first of all
			<-let
		}
		return nil
	}}
	s.receive(t, "a-slow-one", 3)
	for i := range 30 {
		s.receive(t, service.SKU(fmt.Sprintf("quick-%d", i)), 5)
	}
	start(t, quick(s, sink, newLatch()))
	stacktest.Eventually(t, 30*time.Second, "all but slow", func() (bool, string) {
		n := s.undelivered(t)
		return n == 3, fmt.Sprint(n)
	})
	close(let)
	emptied(t, s)
}

// While the receiver is away nothing is parked, however long. TestWhoBegins has that it is not stormed.
func TestAReceiverThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	var back atomic.Bool
	var tries atomic.Int64
	sink := &diary{answer: func(relay.Event, int) error {
		tries.Add(1)
		if !back.Load() {
			return relay.ErrUnavailable
		}
		return nil
	}}
	const skus = 40
	for i := range skus {
		s.receive(t, service.SKU(fmt.Sprintf("sku-%d", i)), 2)
	}
	c := quick(s, sink, newLatch())
	c.Attempts = 1
	start(t, c)
	stacktest.Eventually(t, 30*time.Second, "twenty attempts", func() (bool, string) {
		return tries.Load() > 20, fmt.Sprint(tries.Load())
	})
	if letters, err := s.Parked(t.Context(), "", 10); err != nil || len(letters) > 0 {
		t.Errorf("parked: %v, %v", letters, err)
	}
	back.Store(true)
	emptied(t, s)
}

// What is being delivered when the relay is told to stop is delivered and recorded, and nothing more is begun.
func TestTheEndOfARelayIsOrderly(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	const events = 60
	begun, let := make(chan struct{}, events), make(chan struct{})
	sink := &diary{answer: func(relay.Event, int) error {
		begun <- struct{}{}
		<-let
		time.Sleep(50 * time.Millisecond) // so all would take 3 s: as long has the relay to see that it is to stop
		return nil
	}}
	s.receive(t, "a", events)
	l := newLatch()
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { relay.New(quick(s, sink, l)).Run(ctx) })
	<-begun
	end()
	close(let)
	running.Wait()
	if got, marked := sink.of("a"), s.delivered(t, "a"); len(got) != int(marked) || marked == 0 || marked == events {
		t.Errorf("delivered %v, recorded %d", got, marked)
	}
	select {
	case l.held <- struct{}{}:
	default:
		t.Error("the lock was not given back")
	}
}

// A relay that has lost its lock begins no event any more, and leaves the one that it is at.
func TestALostLockEndsDeliveryAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	hang := make(chan struct{}, 1)
	sink := &hanging{at: hang}
	s.receive(t, "a", 5)
	l := newLatch()
	var active atomic.Int64
	c := quick(s, sink, l)
	c.Observer.Active = func(on bool) {
		if on {
			active.Add(1)
		}
	}
	start(t, c)
	<-hang
	l.lose()
	<-hang // the next holding of the lock begins with the same event
	if active.Load() != 2 {
		t.Errorf("the lock was held %d times", active.Load())
	}
	if n := s.delivered(t, "a"); n != 0 {
		t.Errorf("%d recorded as delivered", n)
	}
}
