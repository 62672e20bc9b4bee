package order

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"example.com/stock/service"
)

// A shelfCopy is the Copy of a memory, which can be put back to what it was.
type shelfCopy struct {
	name string
	why  error // it has gone back; nil: not so
	told int
}

func (c *shelfCopy) Current() string { return c.name }

func (c *shelfCopy) ReportOlderCopy(_ context.Context, of string, why error) error {
	if of != c.name {
		return nil
	}
	c.why = why
	c.told++
	return &service.DataLostError{Store: "memory", Why: why}
}

// copied returns a shop that has gone back to before its three orders of a.
func copied(t *testing.T) (*memory, *Service, *shelfCopy) {
	t.Helper()
	m := newMemory()
	c := &shelfCopy{name: "first"}
	s := New(Config{Store: Watch(m, c), Needs: up{}, Work: time.Second})
	for _, sku := range []service.SKU{"a", "b"} {
		if _, _, err := s.Set(t.Context(), "", sku, 10, service.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	older := maps.Clone(m.levels)
	for range 3 {
		if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); err != nil {
			t.Fatal(err)
		}
	}
	m.levels = older
	return m, s, c
}

func TestAStepNoticesAnOlderCopy(t *testing.T) {
	m, s, c := copied(t)
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"b", 1}}); err != nil || c.why != nil {
		t.Fatalf("nothing of b is missing: %v", err)
	}
	_, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}, {"b", 1}})
	old, ok := errors.AsType[*OldCopyError](c.why)
	if !errors.Is(err, service.ErrDataLost) || !ok || old.SKU != "a" || old.Number != 4 || old.Missing != 3 {
		t.Fatalf("%v; found %v", err, c.why)
	}
	if l := m.levels["b"]; l.Sold != 1 {
		t.Errorf("b: %+v, want nothing written", l)
	}
	// A person sets stock: the data are others, and their numbers count anew.
	if _, _, err := s.Set(t.Context(), "", "a", 5, service.Condition{}); err != nil {
		t.Fatal(err)
	}
	c.name = "second"
	for range 4 {
		if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); err != nil {
			t.Fatal(err)
		}
	}
}

// The sweeper ends nothing in an older copy, and notices it.
func TestASweeperNoticesAnOlderCopy(t *testing.T) {
	m, s, c := copied(t)
	r := Reservation{
		ID: "r", Customer: "ann", Lines: []Line{{"a", 1}}, State: Held, ExpiresAt: time.Now().Add(-time.Second),
	}
	l := m.levels["a"]
	l.Available, l.Reserved = l.Available-1, 1
	m.levels["a"], m.reservations["r"] = l, r
	if _, err := s.sweep(t.Context()); !errors.Is(err, service.ErrDataLost) || c.why == nil {
		t.Errorf("%v; found %v", err, c.why)
	}
	if m.levels["a"].Reserved != 1 {
		t.Error("it was given back")
	}
}

// A batch says once that the copy is older, and each of its steps about what is missing is refused.
func TestABatchNoticesAnOlderCopy(t *testing.T) {
	m, s, c := copied(t)
	steps := make([]Request, 3)
	for i, sku := range []service.SKU{"a", "b", "a"} {
		lines := []Line{{sku, 1}}
		steps[i] = Request{About{SKUs: skusOf(lines), Customer: "ann"}, place(fmt.Sprint(i), "ann", lines)}
	}
	out := s.Store.Batch(t.Context(), steps)
	if !errors.Is(out[0].Err, service.ErrDataLost) || out[1].Err != nil || !errors.Is(out[2].Err, service.ErrDataLost) {
		t.Errorf("%v, %v, %v", out[0].Err, out[1].Err, out[2].Err)
	}
	if c.told != 1 || m.levels["a"].Sold != 0 {
		t.Errorf("told %d times, a is %+v", c.told, m.levels["a"])
	}
}

// What was written after a step had read says nothing of what it has read.
func TestASlowStepIsNoOlderCopy(t *testing.T) {
	var m marks
	since := m.since("x")
	m.raise("x", []Movement{{SKU: "a", Number: 7}})
	stock := map[service.SKU]Level{"a": {Number: 6}}
	if err := m.compare(since, stock); err != nil {
		t.Error(err)
	}
	if err := m.compare(m.since("x"), stock); err == nil {
		t.Error("a later one does not notice")
	}
	m.raise("x", []Movement{{SKU: "a", Number: 5}}) // a reply that was slower
	if err := m.compare(m.since("x"), stock); err == nil {
		t.Error("a mark went back")
	}
	if err := m.compare(m.since("y"), stock); err != nil {
		t.Errorf("another copy: %v", err)
	}
	m.raise("x", []Movement{{SKU: "a", Number: 9}}) // written before a person has set stock
	if err := m.compare(m.since("y"), stock); err != nil {
		t.Errorf("another copy, told late: %v", err)
	}
	for i := range maxMarks + 10 {
		m.raise("y", []Movement{{SKU: service.SKU(fmt.Sprint(i)), Number: 1}})
	}
	if len(m.set) != maxMarks {
		t.Errorf("%d marks, want %d", len(m.set), maxMarks)
	}
}

// An outcome that is not known raises no mark: the step may not have been written.
func TestAnUnknownStepIsNotMissed(t *testing.T) {
	m := newMemory()
	c := &shelfCopy{name: "first"}
	s := New(Config{Store: Watch(m, c), Needs: up{}, Work: time.Second})
	if _, _, err := s.Set(t.Context(), "", "a", 10, service.Condition{}); err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(m.levels)
	m.fail = service.ErrOutcomeUnknown
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	m.levels = before // it was not
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); err != nil || c.why != nil {
		t.Errorf("%v, %v", err, c.why)
	}
}

// A shelfBook is what a probe reads of a.
type shelfBook struct {
	Book
	level     Level
	movements []Movement
	err       error
}

func (b shelfBook) Level(context.Context, service.SKU) (Level, error) { return b.level, b.err }

func (b shelfBook) Movements(_ context.Context, _ service.SKU, after uint64, _ int) ([]Movement, error) {
	for _, m := range b.movements {
		if m.Number > after {
			return []Movement{m}, b.err
		}
	}
	return nil, b.err
}

// A probe looks for the newest movement that this instance was told of.
func TestAProbeNoticesAnOlderCopy(t *testing.T) {
	at := time.Now()
	four := []Movement{{SKU: "a", Number: 4, At: at}}
	later := []Movement{{SKU: "a", Number: 8, At: at}}
	for name, row := range map[string]struct {
		book    shelfBook
		missing uint64
		fails   bool
	}{
		"it is there":             {book: shelfBook{level: Level{Number: 4}, movements: four}},
		"and more":                {book: shelfBook{level: Level{Number: 9}, movements: four}},
		"it was archived":         {book: shelfBook{level: Level{Number: 4}}},
		"it was, and more came":   {book: shelfBook{level: Level{Number: 9}, movements: later}},
		"two are gone":            {book: shelfBook{level: Level{Number: 2}}, missing: 2},
		"all is gone":             {book: shelfBook{err: service.ErrUnknownSKU}, missing: 4},
		"a strategy sells it":     {book: shelfBook{err: &service.GuardError{Guard: "none"}}, missing: 4},
		"another has its number":  {book: shelfBook{movements: []Movement{{Number: 4, At: at.Add(1)}}}, missing: 1},
		"the store does not tell": {book: shelfBook{err: errors.New("down")}, fails: true},
	} {
		c := &shelfCopy{name: "first"}
		s := Watch(newMemory(), c)
		if err := s.Compare(t.Context(), row.book); err != nil && !row.fails || c.why != nil {
			t.Errorf("%s, before the first step: %v, %v", name, err, c.why)
		}
		s.marks.since("first")
		s.marks.raise("first", []Movement{{SKU: "b", Number: 7, At: at}, {SKU: "a", Number: 4, At: at}})
		if err := s.Compare(t.Context(), row.book); (err != nil) != row.fails {
			t.Errorf("%s: %v", name, err)
		}
		var missing uint64
		if old, ok := errors.AsType[*OldCopyError](c.why); ok {
			missing = old.Missing
		}
		if missing != row.missing {
			t.Errorf("%s: %d missing, want %d", name, missing, row.missing)
		}
		c.name, c.why = "second", nil
		if err := s.Compare(t.Context(), row.book); err != nil || c.why != nil {
			t.Errorf("%s, after a person has set stock: %v, %v", name, err, c.why)
		}
	}
}
