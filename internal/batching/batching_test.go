package batching_test

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

	"go.uber.org/goleak"

	"example.com/stock/internal/batching"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A note is what waits in these tests: who sent it, and what its turn wrote.
type note struct {
	name  string
	batch int
}

// A desk is queues whose turns are written down. The first turn lasts until it is let go.
type desk struct {
	t *testing.T
	*batching.Queues[string, note]
	letGo func()
	all   sync.WaitGroup

	mu    sync.Mutex
	turns []string // the key, and the names of the batch
	got   map[string]note
	errs  map[string]error
	leave map[string]context.CancelCauseFunc
}

// in runs a test in a bubble.
func in(t *testing.T, waiting, size int, test func(d *desk)) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		d := &desk{
			t: t, got: map[string]note{}, errs: map[string]error{}, leave: map[string]context.CancelCauseFunc{},
			letGo: sync.OnceFunc(func() { close(first); synctest.Wait() }),
		}
		d.Queues = batching.New(waiting, size, func(key string, batch []*note) {
			names := []string{key + ":"}
			for _, n := range batch {
				names = append(names, n.name)
			}
			d.mu.Lock()
			d.turns = append(d.turns, strings.Join(names, " "))
			turn := len(d.turns)
			d.mu.Unlock()
			for _, n := range batch {
				n.batch = turn
			}
			if turn == 1 {
				<-first
			}
			if slices.ContainsFunc(batch, func(n *note) bool { return n.name == "panics" }) {
				panic("oh")
			}
		})
		test(d)
		d.letGo()
		d.all.Wait()
	})
}

// come sends a note, and returns when it waits or is answered.
func (d *desk) come(name, key string) {
	ctx, cancel := context.WithCancelCause(d.t.Context())
	d.leave[name] = cancel
	d.all.Go(func() {
		var n note
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panicked: %v", p)
			}
			cancel(nil)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.got[name], d.errs[name] = n, err
		}()
		n, err = d.Do(ctx, key, note{name: name})
	})
	synctest.Wait()
}

func (d *desk) wants(turns ...string) {
	d.t.Helper()
	if !slices.Equal(d.turns, turns) {
		d.t.Errorf("turns %q, want %q", d.turns, turns)
	}
}

// A batch is what came while the last one was under way, in the order of arrival, and at most so many. Do returns what
// the turn has written.
func TestInOrderOfArrival(t *testing.T) {
	in(t, 100, 3, func(d *desk) {
		for _, name := range strings.Fields("a b c d e") {
			d.come(name, "k")
		}
		d.letGo()
		d.wants("k: a", "k: b c d", "k: e")
		d.come("f", "k")
		d.wants("k: a", "k: b c d", "k: e", "k: f")
		for name, turn := range map[string]int{"a": 1, "b": 2, "d": 2, "e": 3, "f": 4} {
			if got := d.got[name]; d.errs[name] != nil || got != (note{name, turn}) {
				t.Errorf("%s: %+v, %v", name, got, d.errs[name])
			}
		}
	})
}

// Keys do not wait for each other.
func TestSeveralKeys(t *testing.T) {
	in(t, 100, 100, func(d *desk) {
		d.come("1", "b")
		d.come("2", "b") // behind 1
		d.come("3", "a") // not behind 2
		d.wants("b: 1", "a: 3")
		d.letGo()
		d.wants("b: 1", "a: 3", "b: 2")
	})
}

// Who leaves before its batch begins is not in it, and is told the cause. Who leaves later is told what became of it.
func TestLeaving(t *testing.T) {
	in(t, 100, 100, func(d *desk) {
		gone := errors.New("the client went away")
		for _, name := range strings.Fields("a b c") {
			d.come(name, "k")
		}
		d.leave["b"](gone)
		d.leave["a"](gone)
		synctest.Wait()
		if err := d.errs["b"]; err != gone {
			t.Errorf("the one that left: %v", err)
		}
		if _, answered := d.errs["a"]; answered {
			t.Errorf("the one whose batch is under way was answered: %v", d.errs["a"])
		}
		d.letGo()
		d.wants("k: a", "k: c")
		if d.errs["a"] != nil || d.got["a"].batch != 1 {
			t.Errorf("the one that left too late: %+v, %v", d.got["a"], d.errs["a"])
		}
		ctx, cancel := context.WithCancelCause(d.t.Context())
		cancel(gone)
		if _, err := d.Do(ctx, "k", note{}); err != gone {
			t.Errorf("one that had left before it came: %v", err)
		}
		d.wants("k: a", "k: c")
	})
}

// A queue is bounded, each by itself. Those under way do not count.
func TestFull(t *testing.T) {
	in(t, 2, 100, func(d *desk) {
		for _, name := range strings.Fields("a b c d") {
			d.come(name, "k")
		}
		if err := d.errs["d"]; err != batching.ErrFull {
			t.Errorf("the one too many: %v", err)
		}
		d.come("e", "l")
		d.letGo()
		d.wants("k: a", "l: e", "k: b c")
	})
}

// A panic is that of all in the batch, with where it came from, and of nobody else; the queue goes on.
func TestAPanicIsEverybodysInTheBatch(t *testing.T) {
	in(t, 100, 2, func(d *desk) {
		for _, name := range strings.Fields("a b panics c") {
			d.come(name, "k")
		}
		d.letGo()
		d.wants("k: a", "k: b panics", "k: c")
		for name, panicked := range map[string]bool{"a": false, "b": true, "panics": true, "c": false} {
			said := fmt.Sprint(d.errs[name])
			if strings.Contains(said, "oh") != panicked || strings.Contains(said, "batching_test.go") != panicked {
				t.Errorf("%s: %v", name, said)
			}
		}
	})
}

// Many come, leave and are refused at once: whoever is answered without an error was in exactly one batch.
func TestStorm(t *testing.T) {
	var mu sync.Mutex
	served := map[int]int{}
	qs := batching.New(20, 7, func(_ string, batch []*int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range batch {
			served[*n]++
			*n = -*n
		}
	})
	var all sync.WaitGroup
	const each = 200
	done := make([]error, 32*each)
	for g := range 32 {
		all.Go(func() {
			for i := range each {
				id := g*each + i
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(id%50)*time.Microsecond)
				got, err := qs.Do(ctx, string(rune('a'+id%3)), id)
				cancel()
				if done[id] = err; err == nil && got != -id {
					t.Errorf("%d: got %d", id, got)
				}
			}
		})
	}
	all.Wait()
	for id, err := range done {
		if want := map[bool]int{true: 1}[err == nil]; served[id] != want {
			t.Errorf("%d: %v, served %d times", id, err, served[id])
		}
	}
}
