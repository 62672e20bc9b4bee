package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A store that was restored from an older copy of itself has the right origin, balanced books, and not the last
// movements: orders that customers were told of are gone, and their numbers are given to others. What tells is that
// the numbers of movements only grow. An instance remembers the last number of each SKU that it was told is written,
// and what the store says later must not be below it. See docs/adr/0025.

// An OldCopyError says that a store has less than it had.
type OldCopyError struct {
	SKU     service.SKU
	Number  uint64 // of the last movement that was written
	Missing uint64 // movements, at least
}

func (e *OldCopyError) Error() string {
	return fmt.Sprintf("the store has gone back to an older copy: at least %d movements of %s are missing, "+
		"of which %d were written", e.Missing, e.SKU, e.Number)
}

// A Copy says which data a store has, and is told that they are older than they were.
type Copy interface {
	// Current names the data. It is another name once a person has said that what is there now is the data.
	Current() string
	// GoneBack stops everything until a person sets stock, and returns a service.DataLostError. Of is what Current said
	// before the older copy was read. Where it says another name by now, nothing happens, and there may be no error.
	GoneBack(ctx context.Context, of string, why error) error
}

// A mark is the last movement of a SKU that this instance was told is written.
type mark struct {
	number uint64
	at     time.Time
	serial uint64 // marks are counted as they are made
}

// marks are those of one copy. The zero value is ready.
type marks struct {
	mu     sync.Mutex
	of     string // the copy
	serial uint64
	set    map[service.SKU]mark
	newest service.SKU
}

// maxMarks bounds the memory: some 10 MB. A full set forgets any of them for a new one.
const maxMarks = 50_000

// since returns a moment: marks that are made later say nothing of what was read before.
func (m *marks) since(copied string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != copied {
		m.of, m.set, m.newest = copied, nil, ""
	}
	return m.serial
}

// compare returns an OldCopyError if what was read after that moment is older than what was written before it.
func (m *marks) compare(since uint64, stock map[service.SKU]Level) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for sku, level := range stock {
		if at, ok := m.set[sku]; ok && at.serial <= since && level.Number < at.number {
			return &OldCopyError{sku, at.number, at.number - level.Number}
		}
	}
	return nil
}

// raise notes movements that were written to that copy.
func (m *marks) raise(copied string, written []Movement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != copied {
		return
	}
	for _, w := range written {
		if w.Number <= m.set[w.SKU].number {
			continue
		}
		if m.set == nil {
			m.set = make(map[service.SKU]mark)
		}
		if _, there := m.set[w.SKU]; !there && len(m.set) >= maxMarks {
			for any := range m.set {
				delete(m.set, any)
				break
			}
		}
		m.serial++
		m.set[w.SKU], m.newest = mark{w.Number, w.At, m.serial}, w.SKU
	}
}

// last returns the mark that was made last.
func (m *marks) last(copied string) (service.SKU, mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.set[m.newest]
	return m.newest, at, ok && m.of == copied
}

// A Watched is a Store that tells its Copy where it has gone back. It is safe for concurrent use.
type Watched struct {
	Store
	data  Copy
	marks marks
}

// Watch returns s with each step watched. All steps of a process should be made through one Watched.
func Watch(s Store, data Copy) *Watched { return &Watched{Store: s, data: data} }

// Step is that of the Store. In an older copy nothing is written, and the error is that of Copy.GoneBack.
func (w *Watched) Step(
	ctx context.Context, about About, decide func(State) (Changes, error),
) (reply []byte, replayed bool, err error) {
	steps := w.begin([]Request{{about, decide}})
	reply, replayed, err = w.Store.Step(ctx, about, steps[0].rule)
	one := []Outcome{{reply, replayed, err}}
	w.end(ctx, steps, one)
	return reply, replayed, one[0].Err
}

// Batch is that of the Store, with each step as Step has it.
func (w *Watched) Batch(ctx context.Context, steps []Request) []Outcome {
	begun := w.begin(steps)
	watched := make([]Request, len(steps))
	for i, step := range begun {
		watched[i] = Request{step.About, step.rule}
	}
	outcomes := w.Store.Batch(ctx, watched)
	w.end(ctx, begun, outcomes)
	return outcomes
}

// A watchedStep compares what a step reads with what was written before it, and notes what it writes.
type watchedStep struct {
	Request
	marks *marks
	of    string // the copy
	since uint64
	wrote []Movement
}

func (w *Watched) begin(steps []Request) []*watchedStep {
	of := w.data.Current()
	since := w.marks.since(of)
	begun := make([]*watchedStep, len(steps))
	for i, step := range steps {
		begun[i] = &watchedStep{Request: step, marks: &w.marks, of: of, since: since}
	}
	return begun
}

// rule is the step's, on what is no older copy. A person who sets stock goes on with what is there.
func (w *watchedStep) rule(state State) (c Changes, err error) {
	w.wrote = nil
	if !w.About.Create {
		if err := w.marks.compare(w.since, state.Stock); err != nil {
			return Changes{}, err
		}
	}
	c, err = w.Decide(state)
	w.wrote = c.Movements
	return c, err
}

// end takes what the steps have returned, and makes it what they are to return. The Copy is told once.
func (w *Watched) end(ctx context.Context, steps []*watchedStep, outcomes []Outcome) {
	var lost error
	for i, step := range steps {
		out := &outcomes[i]
		if out.Err == nil && !out.Replayed {
			w.marks.raise(step.of, step.wrote)
		}
		old, ok := errors.AsType[*OldCopyError](out.Err)
		if !ok {
			continue
		}
		if lost == nil {
			// Without an error it is there again: the next step finds out.
			lost = w.data.GoneBack(context.WithoutCancel(ctx), step.of, old)
			lost = cmp.Or(lost, lock.Down("step of the ledger", old))
		}
		out.Err = lost
	}
}

// Compare looks whether the newest movement that this instance was told of is still in the store, as it was. It is
// for every health probe, so that a store that has gone back is noticed before much is sold from it. Book is of the
// same store. It is one round trip, two where the movement was archived. An error is that the store does not answer.
func (w *Watched) Compare(ctx context.Context, book Book) error {
	copied := w.data.Current()
	sku, newest, ok := w.marks.last(copied)
	if !ok {
		return nil
	}
	found, err := book.Movements(ctx, sku, newest.number-1, 1)
	switch {
	case err != nil && !noLedger(err):
		return err
	case len(found) == 1 && found[0].Number == newest.number && found[0].At.Equal(newest.at):
		return nil
	}
	old := &OldCopyError{sku, newest.number, 1}
	if len(found) == 0 || found[0].Number != newest.number { // else it is another one with its number
		level, err := book.Level(ctx, sku)
		switch {
		case err != nil && !noLedger(err):
			return err
		case level.Number >= newest.number:
			return nil // it was archived
		}
		old.Missing = newest.number - level.Number
	}
	// The store's data say so from now on, unless a person has set stock meanwhile.
	_ = w.data.GoneBack(ctx, copied, old)
	return nil
}

// noLedger reports whether err says that a SKU has no movements.
func noLedger(err error) bool {
	_, guarded := errors.AsType[*service.GuardError](err)
	return guarded || errors.Is(err, service.ErrUnknownSKU)
}
