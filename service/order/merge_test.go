package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A counter is a ledger that makes its steps in batches, for the order in which things happen, in a bubble. What real
// stores do is tested with them.
type counter struct {
	*memory
	mu      sync.Mutex
	batches []string          // customers of each, in their order
	during  func(n int) error // called in the middle of the n-th batch, from 1
}

func (c *counter) Batch(ctx context.Context, steps []Request) []StepResult {
	c.mu.Lock()
	var names []string
	for _, step := range steps {
		names = append(names, step.About.Customer)
	}
	c.batches = append(c.batches, strings.Join(names, " "))
	n := len(c.batches)
	c.mu.Unlock()
	var err error
	if c.during != nil {
		err = c.during(n)
	}
	outcomes := make([]StepResult, len(steps))
	for i, step := range steps {
		if outcomes[i].Err = err; err == nil {
			outcomes[i].Reply, outcomes[i].Replayed, outcomes[i].Err = c.Step(ctx, step.About, step.Decide)
		}
	}
	return outcomes
}

// A crowd sends steps, one after the other.
type crowd struct {
	t     *testing.T
	store *counter
	*Merged
	letGo func() // ends the first batch
	all   sync.WaitGroup
	mu    sync.Mutex
	done  map[string]error
	leave map[string]context.CancelCauseFunc
}

// inBatches runs a test in a bubble with a Merged whose first batch stays under way until it is let go. There are ten
// of a, b and c.
func inBatches(t *testing.T, o MergeOptions, test func(c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		store := &counter{memory: newMemory("a", "b", "c")}
		for _, sku := range []service.SKU{"a", "b", "c"} {
			_, _, err := store.Step(t.Context(), About{SKUs: []service.SKU{sku}}, set(sku, 10, service.Condition{}))
			if err != nil {
				t.Fatal(err)
			}
		}
		store.during = func(n int) error {
			if n == 1 {
				<-first
			}
			return nil
		}
		c := &crowd{
			t: t, store: store, Merged: NewMerged(store, o),
			letGo: sync.OnceFunc(func() { close(first); synctest.Wait() }),
			done:  map[string]error{}, leave: map[string]context.CancelCauseFunc{},
		}
		test(c)
		c.letGo()
		c.all.Wait()
		if err := store.check(); err != nil {
			t.Error(err)
		}
		if n := c.queues.Len(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

var errPanicked = errors.New("panicked")

// come asks for a unit of each SKU, such as "ab", and returns when the step waits or is answered. The customer has the
// name.
func (c *crowd) come(name, skus string) { c.ask(name, About{}, strings.Split(skus, "")) }

func (c *crowd) ask(name string, about About, skus []string) {
	var lines []Line
	for _, sku := range skus {
		lines = append(lines, Line{service.SKU(sku), 1})
	}
	about.SKUs, about.Customer = skusOf(lines), name
	c.step(name, about, place("order of "+name, name, lines))
}

func (c *crowd) step(name string, about About, decide rule) {
	ctx, cancel := context.WithCancelCause(c.t.Context())
	c.leave[name] = cancel
	c.all.Go(func() {
		err := errPanicked
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errPanicked, p)
			}
			cancel(nil)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.done[name] = err
		}()
		wait, end := context.WithTimeout(ctx, time.Second)
		defer end()
		work := service.WithWait(context.WithoutCancel(ctx), wait)
		_, _, err = c.Step(work, about, decide)
	})
	synctest.Wait()
}

// answer returns what became of a step, and whether it was answered.
func (c *crowd) answer(name string) (err error, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, answered = c.done[name]
	return err, answered
}

func (c *crowd) wants(batches ...string) {
	c.t.Helper()
	if !slices.Equal(c.store.batches, batches) {
		c.t.Errorf("batches %q, want %q", c.store.batches, batches)
	}
}

// A batch is what came while the last one was under way, in the order of arrival, and at most the limit. Nobody waits
// for company.
func TestMergedInOrderOfArrival(t *testing.T) {
	inBatches(t, MergeOptions{Limit: 3}, func(c *crowd) {
		for i := range 8 {
			c.come(fmt.Sprint(i), "a")
		}
		c.letGo()
		c.wants("0", "1 2 3", "4 5 6", "7")
		c.come("8", "a")
		c.come("9", "a")
		c.come("10", "a")
		for i := range 11 {
			want := error(nil)
			if i == 10 {
				want = ErrShort
			}
			if err, _ := c.answer(fmt.Sprint(i)); !errors.Is(err, want) {
				t.Errorf("step %d: %v, want %v", i, err, want)
			}
		}
	})
}

// A cart waits where most others do, and steps about other SKUs do not wait at all.
func TestMergedCarts(t *testing.T) {
	inBatches(t, MergeOptions{}, func(c *crowd) {
		c.come("0", "b")
		c.come("1", "ab") // behind 0
		c.come("2", "a")  // not behind 1: the queue is b's
		c.come("3", "bc")
		c.come("4", "c")
		c.letGo()
		c.wants("0", "2", "4", "1 3")
	})
}

// The lines of a batch are bounded, but for its first step.
func TestMergedLines(t *testing.T) {
	inBatches(t, MergeOptions{}, func(c *crowd) {
		many := make([]service.SKU, mergeLines+1)
		for i := range many {
			many[i] = service.SKU(fmt.Sprintf("a%03d", i))
			c.store.levels[many[i]] = Level{}
		}
		nothing := func(State) (Changes, error) { return Changes{}, nil }
		for i, n := range []int{1, mergeLines + 1, 1, mergeLines - 1, 1} {
			name := fmt.Sprint(i)
			c.step(name, About{SKUs: many[:n], Customer: name}, nothing)
		}
		c.letGo()
		c.wants("0", "1", "2 3", "4")
	})
}

// A step about a reservation or an order waits with those about its SKUs; one about nothing that is there waits
// nowhere, nor does one that may create SKUs.
func TestMergedFindsTheSKUs(t *testing.T) {
	inBatches(t, MergeOptions{}, func(c *crowd) {
		lines := []Line{{"a", 1}}
		_, _, err := c.store.Step(c.t.Context(), About{SKUs: skusOf(lines), Customer: "r"},
			reserve("held", "r", lines, time.Hour, Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		c.come("0", "a")
		c.step("r", About{Reservation: "held", Customer: "r"}, confirm("bought", "r"))
		c.step("1", About{Order: "none", Customer: "1"}, cancelOrder("1"))
		if err, _ := c.answer("1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("no order: %v", err)
		}
		c.step("2", About{SKUs: []service.SKU{"a"}, Create: true}, set("a", 5, service.Condition{}))
		if err, answered := c.answer("2"); !answered || err != nil {
			t.Errorf("create: %v, %v", answered, err)
		}
		c.letGo()
		c.wants("0", "r")
		if err, _ := c.answer("r"); err != nil {
			t.Error(err)
		}
	})
}

// Who leaves before its batch begins is not written, and nobody behind it waits longer. Who leaves after that is.
func TestMergedLeaving(t *testing.T) {
	inBatches(t, MergeOptions{}, func(c *crowd) {
		gone := errors.New("the client went away")
		for _, name := range []string{"0", "1", "2"} {
			c.come(name, "a")
		}
		c.leave["1"](gone)
		synctest.Wait()
		if err, _ := c.answer("1"); !errors.Is(err, gone) || errors.Is(err, lock.ErrOverloaded) {
			t.Errorf("the one that left: %v", err)
		}
		c.leave["0"](gone)
		synctest.Wait()
		if err, answered := c.answer("0"); answered {
			t.Errorf("the one whose batch is under way was answered: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err, _ := c.answer("2"); !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrHeld) {
			t.Errorf("the one whose turn did not come: %v", err)
		}
		c.come("3", "a")
		c.letGo()
		c.wants("0", "3")
		if err, _ := c.answer("0"); err != nil {
			t.Errorf("the one that left too late: %v", err)
		}
		wait, cancel := context.WithCancel(c.t.Context())
		cancel()
		ctx := service.WithWait(c.t.Context(), wait)
		if _, _, err := c.Step(ctx, About{SKUs: []service.SKU{"a"}}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("one that had left before it came: %v", err)
		}
		c.wants("0", "3")
	})
}

// The queue is bounded: the next one is refused before anything was done.
func TestMergedOverload(t *testing.T) {
	inBatches(t, MergeOptions{Queue: 2}, func(c *crowd) {
		for i := range 4 {
			c.come(fmt.Sprint(i), "a")
		}
		if err, answered := c.answer("3"); !answered || !errors.Is(err, lock.ErrOverloaded) {
			t.Errorf("the one too many: %v, %v", answered, err)
		}
		c.come("4", "b") // another queue
		if err, answered := c.answer("4"); !answered || err != nil {
			t.Errorf("another SKU: %v, %v", answered, err)
		}
		c.letGo()
		c.wants("0", "4", "1 2")
	})
}

// An outcome that is not known is not known for each, and nothing is tried again. A panic is everybody's, and the queue
// goes on.
func TestMergedFaults(t *testing.T) {
	inBatches(t, MergeOptions{Limit: 2}, func(c *crowd) {
		first := c.store.during
		c.store.during = func(n int) error {
			switch n {
			case 2:
				return service.ErrOutcomeUnknown
			case 3:
				panic("oh")
			}
			return first(n)
		}
		for i := range 6 {
			c.come(fmt.Sprint(i), "a")
		}
		c.letGo()
		c.wants("0", "1 2", "3 4", "5")
		for i, want := range []error{
			nil, service.ErrOutcomeUnknown, service.ErrOutcomeUnknown, errPanicked, errPanicked, nil,
		} {
			if err, _ := c.answer(fmt.Sprint(i)); !errors.Is(err, want) {
				t.Errorf("step %d: %v, want %v", i, err, want)
			}
		}
	})
}

// Steps are not merged under a lock, nor where nobody asked for it.
func TestServiceMerges(t *testing.T) {
	store := &counter{memory: newMemory()}
	for name, c := range map[string]struct {
		config Config
		merges bool
	}{
		"merged": {Config{Store: store}.Merged(MergeOptions{}), true},
		"singly": {Config{Store: store}, false},
		"a lock": {Config{Store: store, Lock: noLock{}}.Merged(MergeOptions{}), false},
	} {
		s := New(c.config)
		if _, merges := s.Ledger.(*Merged); merges != c.merges || s.Ledger == nil {
			t.Errorf("%s: merges is %v", name, merges)
		}
	}
}

// noLock is never taken.
type noLock struct{ lock.Locker }
