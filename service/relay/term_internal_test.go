package relay

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A ledger is what a turn works on, in this process.
type ledger struct {
	repair uint64 // number of the movement that repaired the books; 0: none
	order.Book
	mu        sync.Mutex
	movements map[service.SKU][]uint64
	delivered map[service.SKU]uint64
	letters   map[service.SKU]order.DeadLetter
	looks     int
	broken    func(look int) error // nil: never
	sent      []string
	answer    func(ctx context.Context, e Event) error // nil: it takes everything
	kind      order.Kind                               // of all movements; "": Sell
	marks     []uint64                                 // as they were recorded
	fence     uint64                                   // of the last record
	refusal   error                                    // of every record
	undecided error                                    // of every decision
	unparked  error                                    // of every letter
	reads     int                                      // of letters
}

func (l *ledger) Behind(_ context.Context, after service.SKU, limit int) (behind []order.Delivered, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looks++; l.broken != nil {
		err = l.broken(l.looks)
	}
	for _, sku := range slices.Sorted(maps.Keys(l.movements)) {
		all := l.movements[sku]
		if sku > after && len(behind) < limit && all[len(all)-1] > l.delivered[sku] {
			behind = append(behind, order.Delivered{SKU: sku, Number: l.delivered[sku]})
		}
	}
	return behind, err
}

func (l *ledger) Delivered(_ context.Context, d order.Delivered, fence uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal != nil {
		return l.refusal
	}
	l.delivered[d.SKU], l.fence = d.Number, fence
	l.marks = append(l.marks, d.Number)
	return nil
}

func (l *ledger) Level(context.Context, service.SKU) (order.Level, error) { return order.Level{}, nil }

func (l *ledger) Movements(_ context.Context, sku service.SKU, after uint64, limit int) ([]order.Movement, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []order.Movement
	for _, n := range l.movements[sku] {
		if n > after && len(list) < limit {
			m := order.Movement{SKU: sku, Number: n, Kind: cmp.Or(l.kind, order.Sell)}
			if n == l.repair {
				m.Kind, m.Ref = order.Adjust, "repair-1"
			}
			list = append(list, m)
		}
	}
	return list, nil
}

func (l *ledger) Park(_ context.Context, letter order.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unparked != nil {
		return l.unparked
	}
	l.letters[letter.SKU] = letter
	return nil
}

func (l *ledger) Parked(_ context.Context, after service.SKU, limit int) (list []order.DeadLetter, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	for _, sku := range slices.Sorted(maps.Keys(l.letters)) {
		if sku > after && len(list) < limit {
			list = append(list, l.letters[sku])
		}
	}
	return list, nil
}

func (l *ledger) Decide(_ context.Context, sku service.SKU, _ uint64, verdict order.Decision) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if verdict == order.Settled && l.undecided == nil {
		delete(l.letters, sku)
	}
	return l.undecided
}

func (l *ledger) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (l *ledger) Deliver(ctx context.Context, e Event) error {
	if l.answer != nil {
		if err := l.answer(ctx, e); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, e.ID)
	return nil
}

func (l *ledger) term(t *testing.T, change func(*Config)) (work *term, stop context.CancelFunc) {
	if l.delivered == nil {
		l.delivered = map[service.SKU]uint64{}
	}
	c := Config{Outbox: l, Book: l, Dead: l, Sink: l}
	if change != nil {
		change(&c)
	}
	stopped, stop := context.WithCancel(t.Context())
	return newTerm(New(c), t.Context(), stopped.Done(), 7), stop
}

// What comes behind a gap is not delivered, and what comes before it is recorded.
func TestAGapIsNotDeliveredOver(t *testing.T) {
	l := &ledger{movements: map[service.SKU][]uint64{"a": {1, 2, 4, 5}}}
	work, stop := l.term(t, nil)
	defer stop()
	done := work.deliver(order.Delivered{SKU: "a"}, false)
	if done.failed == nil || done.fatal != nil || done.Number != 2 || l.delivered["a"] != 2 {
		t.Errorf("%+v, recorded %d: want 2, and an error", done, l.delivered["a"])
	}
	if len(l.sent) != 2 || !strings.HasPrefix(l.sent[0], "a/1/") || !strings.HasPrefix(l.sent[1], "a/2/") {
		t.Errorf("delivered %v, want 1 and 2", l.sent)
	}
}

// A gap that a repair has counted later is delivered over, wherever the repair is. One after the repair is not.
func TestARepairedGapIsDeliveredOver(t *testing.T) {
	l := &ledger{movements: map[service.SKU][]uint64{"a": {1, 4, 5, 6, 7, 9}}, repair: 7}
	work, stop := l.term(t, func(c *Config) { c.Batch = 2 })
	defer stop()
	at := uint64(0)
	for range 5 {
		done := work.deliver(order.Delivered{SKU: "a", Number: at}, false)
		if at = done.Number; done.failed != nil {
			break
		}
	}
	if at != 7 || len(l.sent) != 5 {
		t.Errorf("delivered up to %d, %v: want 7", at, l.sent)
	}
}

// A letter from before this turn stays while its SKU waits for it. It goes if its event was delivered before, although
// the next one is refused.
func TestALetterStaysWhileItsSKUWaits(t *testing.T) {
	l := &ledger{
		movements: map[service.SKU][]uint64{"a": {1, 2, 3, 4}, "b": {1, 2}},
		delivered: map[service.SKU]uint64{"a": 2, "b": 1},
		letters: map[service.SKU]order.DeadLetter{
			"a": {SKU: "a", Number: 3, Decision: order.Undecided},
			"b": {SKU: "b", Number: 1, Decision: order.Undecided},
		},
		answer: func(context.Context, Event) error { return errors.New("no") },
	}
	synctest.Test(t, func(t *testing.T) {
		work, stop := l.term(t, nil)
		var running sync.WaitGroup
		running.Go(func() {
			if err := work.loop(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Second)
		stop()
		running.Wait()
	})
	if len(l.letters) != 1 || l.letters["a"].Number != 3 {
		t.Errorf("letters %v, want that of a", l.letters)
	}
	if l.delivered["a"] != 2 || l.delivered["b"] != 1 {
		t.Errorf("delivered %v", l.delivered)
	}
}

// After an error of the store those who deliver are told to leave at once. At a planned end they have Grace.
func TestWhoDeliversAtTheEnd(t *testing.T) {
	down := errors.New("the store is down")
	for _, row := range []struct {
		name   string
		broken bool
		takes  time.Duration // the loop, from the end on
		number uint64
	}{{"planned", false, 3 * time.Second, 1}, {"an error", true, 0, 0}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended time.Time
				l := &ledger{movements: map[service.SKU][]uint64{"a": {1}}}
				l.broken = func(look int) error {
					if row.broken && look > 1 && !ended.IsZero() {
						return down
					}
					return nil
				}
				l.answer = func(ctx context.Context, _ Event) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(4 * time.Second):
						return nil
					}
				}
				work, stop := l.term(t, func(c *Config) { c.Grace = 5 * time.Second })
				defer stop()
				time.AfterFunc(time.Second, func() {
					l.mu.Lock()
					ended = time.Now()
					l.mu.Unlock()
					if !row.broken {
						stop()
					}
				})
				err := work.loop()
				if row.broken != errors.Is(err, down) {
					t.Errorf("error %v", err)
				}
				number := l.delivered["a"]
				if took := time.Since(ended).Truncate(time.Second); took != row.takes || number != row.number {
					t.Errorf("it took %v and recorded %d, want %v and %d", took, number, row.takes, row.number)
				}
			})
		})
	}
}
