package lab

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Timeline records events. It is safe for concurrent use.
type Timeline struct {
	mu     sync.Mutex
	events []CaseEvent
}

// Record adds an event with its text. One without a time is of this moment.
func (t *Timeline) Record(e CaseEvent, said Text) {
	e.Text, e.ZH = said.EN, said.ZH
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC()
	if !e.Until.IsZero() {
		e.Until = e.Until.UTC()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// Events returns a copy of the events, oldest first.
func (t *Timeline) Events() []CaseEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	events := slices.Clone(t.events)
	slices.SortStableFunc(events, func(x, y CaseEvent) int {
		return cmp.Or(x.At.Compare(y.At), x.Until.Compare(y.Until))
	})
	return events
}
