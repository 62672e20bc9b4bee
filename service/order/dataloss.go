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

// This file detects a data loss that the store's origin does not show (see service/dataloss.go): a store restored from
// an older copy of itself has the right origin and balanced books, but lacks the last movements. Customers have
// confirmations of orders that no longer exist, and the numbers of the lost movements are used again. An instance
// detects the older copy because the numbers of movements only grow: it remembers the last number written for each SKU,
// and the store must never return a smaller one. See docs/adr/README.md.

// An OldCopyError reports that movements which had been written are missing.
type OldCopyError struct {
	SKU     service.SKU
	Number  uint64 // number of the last movement that was written
	Missing uint64 // least number of missing movements
}

func (e *OldCopyError) Error() string {
	return fmt.Sprintf("the store has gone back to an older copy: at least %d movements of %s are missing, "+
		"of which %d were written", e.Missing, e.SKU, e.Number)
}

// A Copy identifies the data of a store. service.DataCheck implements it.
type Copy interface {
	// Current returns the id of the data, which changes when a person sets stock after a loss.
	Current() string
	// ReportOlderCopy stops all sales until a person sets stock, and returns a service.DataLostError. of is the result
	// of Current before the older copy was read. If Current has changed since, ReportOlderCopy does nothing and may
	// return nil.
	ReportOlderCopy(ctx context.Context, of string, why error) error
}

// A mark is the last written movement of a SKU that this instance knows of.
type mark struct {
	number uint64
	at     time.Time
	serial uint64 // marks are numbered in the order in which they are made
}

// marks are the marks of one copy of the data, by SKU. The zero value is ready.
type marks struct {
	mu     sync.Mutex
	of     string // the copy
	serial uint64
	set    map[service.SKU]mark
	newest service.SKU
}

// maxMarks limits the memory to some 10 MB. When the set is full, a new mark replaces an arbitrary one.
const maxMarks = 50_000

// since returns the serial of the newest mark. A read that begins now must show the marks up to that serial.
func (m *marks) since(copied string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != copied {
		m.of, m.set, m.newest = copied, nil, ""
	}
	return m.serial
}

// compare returns an OldCopyError if stock is older than a mark. It ignores marks with a serial greater than since,
// because the read of stock may have begun before those writes.
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

// raise sets the marks of movements that were written to the copy.
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

func (m *marks) last(copied string) (service.SKU, mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.set[m.newest]
	return m.newest, at, ok && m.of == copied
}

// A Watched is a Store that checks in each step whether the data are an older copy. It is safe for concurrent use.
type Watched struct {
	Store
	data  Copy
	marks marks
}

// Watch returns a Watched. A process should make all its steps through one Watched.
func Watch(s Store, data Copy) *Watched { return &Watched{Store: s, data: data} }

// Step is like Store.Step. If the data are an older copy, it writes nothing and returns the error of
// Copy.ReportOlderCopy.
func (w *Watched) Step(
	ctx context.Context, about About, decide func(State) (Changes, error),
) (reply []byte, replayed bool, err error) {
	steps := w.begin([]Request{{about, decide}})
	reply, replayed, err = w.Store.Step(ctx, about, steps[0].rule)
	one := []StepResult{{reply, replayed, err}}
	w.end(ctx, steps, one)
	return reply, replayed, one[0].Err
}

// Batch is like Store.Batch. It checks each step as Step does.
func (w *Watched) Batch(ctx context.Context, steps []Request) []StepResult {
	begun := w.begin(steps)
	watched := make([]Request, len(steps))
	for i, step := range begun {
		watched[i] = Request{step.About, step.rule}
	}
	outcomes := w.Store.Batch(ctx, watched)
	w.end(ctx, begun, outcomes)
	return outcomes
}

// A watchedStep compares what a step reads with the marks, and keeps the movements that it returns.
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

// rule calls the step's Decide, unless the state is that of an older copy. A step that may create SKUs is not
// checked, because a person must be able to set stock in an older copy.
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

// end sets marks for the written movements. If steps failed with an OldCopyError, it reports one of these errors to the
// Copy, and replaces all of them by the result.
func (w *Watched) end(ctx context.Context, steps []*watchedStep, outcomes []StepResult) {
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
			// If the result is nil, the data were replaced meanwhile. The next step checks the new data.
			lost = w.data.ReportOlderCopy(context.WithoutCancel(ctx), step.of, old)
			lost = cmp.Or(lost, lock.Down("step of the ledger", old))
		}
		out.Err = lost
	}
}

// Compare checks that the newest movement that this instance knows of is still in the store, unchanged. Every health
// probe calls it, so that an older copy is noticed before much is sold from it. book must be of the same store.
// Compare takes one round trip, or two if the movement was archived. It returns an error if the store does not
// answer.
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
	if len(found) == 0 || found[0].Number != newest.number { // otherwise another movement has its number
		level, err := book.Level(ctx, sku)
		switch {
		case err != nil && !noLedger(err):
			return err
		case level.Number >= newest.number:
			return nil // it was archived
		}
		old.Missing = newest.number - level.Number
	}
	// ReportOlderCopy records the loss, and the health probe reports it. So Compare returns no error.
	_ = w.data.ReportOlderCopy(ctx, copied, old)
	return nil
}

// noLedger reports whether err means that a SKU has no movements.
func noLedger(err error) bool {
	_, guarded := errors.AsType[*service.GuardError](err)
	return guarded || errors.Is(err, service.ErrUnknownSKU)
}
