package gate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/repo/gate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A queue is goroutines at a gate, and who of them came in, in that order.
type queue struct {
	g    *gate.Gate
	all  sync.WaitGroup
	mu   sync.Mutex
	came []string
	errs map[string]error
}

// enter asks in the background, works for that long, and leaves.
func (q *queue) enter(ctx context.Context, name string, t gate.Request, work time.Duration) {
	q.all.Go(func() {
		leave, err := q.g.Enter(ctx, t)
		q.mu.Lock()
		if q.errs == nil {
			q.errs = make(map[string]error)
		}
		q.errs[name] = err
		if err == nil {
			q.came = append(q.came, name)
		}
		q.mu.Unlock()
		if err == nil {
			time.Sleep(work)
			leave()
		}
	})
	synctest.Wait() // so that they ask in the order of the calls
}

func (q *queue) is(t *testing.T, want ...string) {
	t.Helper()
	q.all.Wait()
	if !slices.Equal(q.came, want) {
		t.Errorf("came in as %q, want %q", q.came, want)
	}
	if in, waiting := q.g.Load(); in != 0 || waiting != 0 {
		t.Errorf("at the end %d are in and %d wait", in, waiting)
	}
}

func TestFirstInFirstOutAndKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1})}
		for i := range 4 {
			q.enter(t.Context(), fmt.Sprint("a", i), gate.Request{Key: "a"}, time.Second)
		}
		q.enter(t.Context(), "b0", gate.Request{Key: "b"}, time.Second)
		q.enter(t.Context(), "b1", gate.Request{Key: "b"}, time.Second)
		q.is(t, "a0", "b0", "a1", "b1", "a2", "a3")
	})
}

func TestOneKeyDoesNotTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 3, PerKey: 2})}
		for i := range 3 {
			q.enter(t.Context(), fmt.Sprint("stuck", i), gate.Request{Key: "stuck"}, time.Hour)
		}
		if !q.g.Busy("stuck") || q.g.Busy("free") {
			t.Errorf("Busy: stuck %t, free %t", q.g.Busy("stuck"), q.g.Busy("free"))
		}
		for i := range 3 {
			q.enter(t.Context(), fmt.Sprint("free", i), gate.Request{Key: "free"}, time.Second)
		}
		time.Sleep(time.Minute)
		if in, waiting := q.g.Load(); in != 2 || waiting != 1 {
			t.Errorf("%d in, %d waiting; want 2 and 1", in, waiting)
		}
		q.is(t, "stuck0", "stuck1", "free0", "free1", "free2", "stuck2")
	})
}

func refused(t *testing.T, what string, err error, keyBusy bool) {
	t.Helper()
	var told *gate.RefusedError
	if !errors.Is(err, lock.ErrOverloaded) || !errors.As(err, &told) || told.KeyBusy != keyBusy ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v, want overloaded, with KeyBusy %t", what, err, keyBusy)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1, Waiting: 2})}
		for _, name := range []string{"in", "first", "second", "third"} {
			q.enter(t.Context(), name, gate.Request{Key: "a"}, time.Second)
		}
		refused(t, "the third", q.errs["third"], true)
		q.enter(t.Context(), "other", gate.Request{Key: "b"}, time.Second)
		refused(t, "another key", q.errs["other"], false)
		q.enter(t.Context(), "begun", gate.Request{Key: "a", Begun: true}, time.Second)
		q.is(t, "in", "first", "second", "begun")
	})
}

// Whoever leaves the queue, for whatever reason, leaves no trace, and those behind move up.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 2, PerKey: 1})}
		gone := errors.New("the client went away")
		client, leave := context.WithCancelCause(t.Context())
		q.enter(t.Context(), "in", gate.Request{Key: "a"}, time.Minute)
		q.enter(t.Context(), "client", gate.Request{Key: "a", Wait: client}, 0)
		q.enter(t.Context(), "begun", gate.Request{Key: "a", Begun: true, Wait: client}, 0)
		q.enter(t.Context(), "late", gate.Request{Key: "a", Until: time.Now().Add(time.Second)}, 0)
		timed, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		q.enter(timed, "timed", gate.Request{Key: "a"}, 0)
		q.enter(timed, "twice timed", gate.Request{Key: "a", Wait: t.Context()}, 0)
		q.enter(t.Context(), "behind", gate.Request{Key: "a"}, 0)
		leave(gone)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		q.mu.Lock()
		if err := q.errs["client"]; !errors.Is(err, gone) || errors.Is(err, lock.ErrOverloaded) {
			t.Errorf("a client that went away: %v", err)
		}
		refused(t, "its own time was over", q.errs["late"], true)
		refused(t, "ctx's time was over", q.errs["timed"], true)
		refused(t, "ctx's time was over, and the wait's was not", q.errs["twice timed"], true)
		q.mu.Unlock()
		q.is(t, "in", "begun", "behind")
	})
}

// Once it is known how quick it goes, nobody is kept waiting who would be refused in the end.
func TestWhoWouldWaitTooLongIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1, Waiting: 100})}
		for i := range 10 {
			q.enter(t.Context(), fmt.Sprint("sale", i), gate.Request{Key: "a"}, time.Second)
		}
		time.Sleep(5500 * time.Millisecond) // five are done in five seconds, one is in, four wait
		until := time.Now().Add(3 * time.Second)
		q.enter(t.Context(), "hasty", gate.Request{Key: "a", Until: until}, 0)
		refused(t, "3 s where 4 are needed", q.errs["hasty"], true)
		q.enter(t.Context(), "patient", gate.Request{Key: "a", Until: until.Add(3 * time.Second)}, 0)
		q.all.Wait()
		if q.errs["patient"] != nil {
			t.Error(q.errs["patient"])
		}
	})
}

// One who waits already is enough to know the speed of a queue. Who comes first does not know it, and waits.
func TestTheSecondWaiterKnowsTheSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1, Waiting: 100})}
		for i := range 3 {
			q.enter(t.Context(), fmt.Sprint("sale", i), gate.Request{Key: "a"}, time.Second)
		}
		time.Sleep(1500 * time.Millisecond) // one is done, one is in, one waits
		q.enter(t.Context(), "hasty", gate.Request{Key: "a", Until: time.Now().Add(time.Millisecond)}, 0)
		q.all.Wait()
		refused(t, "1 ms where more than a second is needed", q.errs["hasty"], true)
	})
}

func TestWithoutAGate(t *testing.T) {
	var none *gate.Gate
	leave, err := none.Enter(t.Context(), gate.Request{Key: "a"})
	if err != nil || none.Busy("a") {
		t.Errorf("%v, busy %t", err, none.Busy("a"))
	}
	leave()
}

// Many come and go, and some give up: never are more in than may be, and nobody is forgotten.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Limits{In: 4, PerKey: 2})
		var mu sync.Mutex
		inside := map[string]int{}
		total, most := 0, 0
		count := func(key string, change int) {
			mu.Lock()
			defer mu.Unlock()
			inside[key] += change
			total += change
			most = max(most, total)
			if inside[key] > 2 || total > 4 {
				t.Errorf("%d of key %s, %d in all", inside[key], key, total)
			}
		}
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				key := fmt.Sprint(i % 5)
				for n := range 50 {
					ctx, cancel := context.WithCancel(context.Background())
					if n%3 == 0 {
						stop := time.AfterFunc(time.Duration(n)*time.Millisecond, cancel)
						defer stop.Stop()
					}
					if leave, err := g.Enter(ctx, gate.Request{Key: key}); err == nil {
						count(key, 1)
						time.Sleep(time.Duration(1+i%3) * time.Millisecond)
						count(key, -1)
						leave()
					}
					cancel()
				}
			})
		}
		all.Wait()
		if in, waiting := g.Load(); in != 0 || waiting != 0 || most != 4 {
			t.Errorf("at the end %d are in and %d wait; %d were in at once, of 4", in, waiting, most)
		}
	})
}

// A place that becomes free is taken, though the key that waits for it has just had a turn.
func TestAKeyTakesAllThatOthersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 2})}
		q.enter(t.Context(), "b0", gate.Request{Key: "b"}, time.Second)
		q.enter(t.Context(), "b1", gate.Request{Key: "b"}, 2*time.Second)
		q.enter(t.Context(), "a0", gate.Request{Key: "a"}, time.Hour)
		q.enter(t.Context(), "a1", gate.Request{Key: "a"}, time.Hour)
		time.Sleep(time.Minute)
		if in, waiting := q.g.Load(); in != 2 || waiting != 0 {
			t.Errorf("%d are in and %d wait, want 2 and nobody", in, waiting)
		}
		q.is(t, "b0", "b1", "a0", "a1")
	})
}

// A turn may come at the moment at which the wait ends. Whoever got it has it, or nobody would give it back.
func TestATurnThatComesAsTheWaitEndsIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 64 {
			g := gate.New(gate.Limits{In: 1})
			leave, err := g.Enter(t.Context(), gate.Request{Key: "a"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var second sync.WaitGroup
			second.Go(func() {
				if leave, err := g.Enter(ctx, gate.Request{Key: "a"}); err == nil {
					leave()
				}
			})
			synctest.Wait()
			cancel()
			leave() // before the second, which cancel has woken, looks
			second.Wait()
			if in, waiting := g.Load(); in != 0 || waiting != 0 {
				t.Fatalf("round %d: %d are in and %d wait, want nobody", n, in, waiting)
			}
		}
	})
}

// Whoever gives up while the gate is full leaves those behind and other keys their turns.
func TestOneOfAKeyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1})}
		q.enter(t.Context(), "in", gate.Request{Key: "a"}, time.Minute)
		q.enter(t.Context(), "hasty", gate.Request{Key: "b", Until: time.Now().Add(time.Second)}, 0)
		q.enter(t.Context(), "behind", gate.Request{Key: "b"}, 0)
		q.enter(t.Context(), "other", gate.Request{Key: "c"}, 0)
		q.is(t, "in", "behind", "other")
		refused(t, "its time was over", q.errs["hasty"], false)
	})
}

// The last waiter of a key takes the key's turn along, and nothing else: what the key has in the server still counts.
func TestTheLastOfAKeyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 2, PerKey: 2})}
		soon := func() gate.Request { return gate.Request{Key: "a", Until: time.Now().Add(time.Second)} }
		q.enter(t.Context(), "a", gate.Request{Key: "a"}, time.Minute)
		q.enter(t.Context(), "b", gate.Request{Key: "b"}, 10*time.Second)
		q.enter(t.Context(), "hasty", soon(), 0)
		time.Sleep(5 * time.Second)
		q.enter(t.Context(), "next", gate.Request{Key: "c"}, 0)
		time.Sleep(10 * time.Second) // one of two places is free
		q.enter(t.Context(), "second", gate.Request{Key: "a"}, time.Minute)
		if !q.g.Busy("a") {
			t.Error("two of a are in, of two: want it busy")
		}
		q.is(t, "a", "b", "next", "second")
	})
}

// A key may have waiters and nothing in the server: the others take all of it.
func TestAKeyWithWaitersAloneIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1, Waiting: 10})}
		q.enter(t.Context(), "in", gate.Request{Key: "a"}, time.Minute)
		q.enter(t.Context(), "first", gate.Request{Key: "b"}, time.Second)
		q.enter(t.Context(), "hasty", gate.Request{Key: "b", Until: time.Now().Add(time.Second)}, time.Second)
		time.Sleep(2 * time.Second) // the hasty one is gone
		q.enter(t.Context(), "second", gate.Request{Key: "b"}, time.Second)
		q.enter(t.Context(), "third", gate.Request{Key: "c"}, time.Second)
		q.is(t, "in", "first", "third", "second")
	})
}

// What was quick for long and is slow now refuses by what it is now.
func TestTheSpeedIsThatOfTheLatestOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1, Waiting: 1000})}
		for i := range 400 {
			q.enter(t.Context(), fmt.Sprint("quick", i), gate.Request{Key: "a"}, time.Millisecond)
		}
		for i := range 301 {
			q.enter(t.Context(), fmt.Sprint("slow", i), gate.Request{Key: "a"}, time.Second)
		}
		time.Sleep(298*time.Second + 500*time.Millisecond) // two wait, which takes three seconds
		q.enter(t.Context(), "hasty", gate.Request{Key: "a", Until: time.Now().Add(time.Second)}, 0)
		refused(t, "1 s where 3 are needed", q.errs["hasty"], true)
		q.enter(t.Context(), "patient", gate.Request{Key: "a", Until: time.Now().Add(10 * time.Second)}, 0)
		q.all.Wait()
		if err := q.errs["patient"]; err != nil {
			t.Errorf("10 s where 3 are needed: %v", err)
		}
	})
}

// A key that nobody uses is forgotten, with what was known of its speed.
func TestAnIdleKeyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{g: gate.New(gate.Limits{In: 1, Waiting: 100})}
		q.enter(t.Context(), "slow", gate.Request{Key: "a"}, time.Hour)
		q.all.Wait()
		for i := range 3 {
			q.enter(t.Context(), fmt.Sprint("quick", i), gate.Request{
				Key: "a", Until: time.Now().Add(time.Minute),
			}, time.Second)
		}
		q.is(t, "slow", "quick0", "quick1", "quick2")
	})
}

func TestLimitsHaveDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limits := range []gate.Limits{{}, {In: 1, PerKey: -1}, {In: 1, PerKey: 5}} {
			q := &queue{g: gate.New(limits)}
			q.enter(t.Context(), "first", gate.Request{Key: "a"}, time.Second)
			if !q.g.Busy("a") {
				t.Errorf("%+v: one of a is in, of one: want it busy", limits)
			}
			q.enter(t.Context(), "second", gate.Request{Key: "a"}, time.Second)
			q.is(t, "first", "second")
		}
	})
}
