package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A parted store has a stock in parts, in this process. It records what it was asked.
type parted struct {
	Shop
	view    Segments
	swaps   []error // its answers, one after the other; the last one from then on
	refills []Refill
	ordered []Order
	begun   bool // every call was of a sale that has begun
}

func (p *parted) Segments(ctx context.Context, _ SKU) (Segments, error) {
	p.begun = p.begun && Begun(ctx)
	v := p.view
	v.SKU, v.Quantity = "a", v.Reserve
	for _, row := range v.Rows {
		v.Quantity += row.Quantity
	}
	return v, nil
}

func (p *parted) Swap(ctx context.Context, o Order) error {
	p.begun = p.begun && Begun(ctx)
	p.ordered = append(p.ordered, o)
	if len(p.swaps) == 0 {
		return nil
	}
	return p.swaps[min(len(p.ordered), len(p.swaps))-1]
}

func (p *parted) Refill(ctx context.Context, r Refill) error {
	p.begun = p.begun && Begun(ctx)
	p.refills = append(p.refills, r)
	into := p.view.Row(r.Into.Number)
	into.Quantity += r.Reserve
	p.view.Reserve -= r.Reserve
	p.view.Rows = slices.DeleteFunc(slices.Clone(p.view.Rows), func(row Segment) bool {
		return row.Number == into.Number
	})
	for _, from := range r.From {
		into.Quantity += from.Quantity
		for i := range p.view.Rows {
			if p.view.Rows[i].Number == from.Number {
				p.view.Rows[i].Quantity = 0
			}
		}
	}
	p.view.Rows = append(p.view.Rows, into)
	slices.SortFunc(p.view.Rows, func(a, b Segment) int { return a.Number - b.Number })
	return nil
}

func rows(quantities ...int64) (list []Segment) {
	for i, q := range quantities {
		list = append(list, Segment{Number: i + 1, Quantity: q})
	}
	return list
}

// A granted lock gives each key at once.
type granted struct{}

func (granted) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	lease, _ := lock.NewLease(key, lock.NoFence, func(context.Context) error { return nil })
	return lease, nil
}

// A sale takes from its segment, fills it from the reserve, goes elsewhere, or gathers fragments, in this order. The
// store gets it as one that has begun, so that it does not refuse it when it is full.
func TestWhereASegmentedSaleTakesItsUnits(t *testing.T) {
	for _, row := range []struct {
		name     string
		reserve  int64
		rows     []Segment
		quantity int64
		from     int   // the segment of the order; 0: none
		reserved int64 // taken from the reserve
		gathered int   // segments that were emptied
		want     error
	}{
		{"of its own", 9, rows(0, 3, 0), 3, 2, 0, 0, nil},
		{"of the reserve, a third of it", 8, nil, 1, 2, 3, 0, nil},
		{"of the reserve, what is missing", 8, rows(0, 2, 0), 7, 2, 5, 0, nil},
		{"of the reserve, all of it", 1, nil, 1, 2, 1, 0, nil},
		{"elsewhere", 0, rows(1, 0, 1), 1, 3, 0, 0, nil},
		{"elsewhere, from the first again", 0, rows(1, 0, 0), 1, 1, 0, 0, nil},
		{"elsewhere, with the reserve", 1, rows(0, 0, 2), 3, 3, 1, 0, nil},
		{"gathered, with the reserve", 1, rows(0, 1, 2), 4, 2, 1, 1, nil},
		{"gathered from all", 0, rows(1, 1, 1), 3, 2, 0, 2, nil},
		{"elsewhere, the next", 0, rows(1, 0, 1, 1), 1, 3, 0, 0, nil},
		{"elsewhere, of an instance with more segments", 0, rows(0, 0, 0, 1), 1, 4, 0, 0, nil},
		{"gathered from the fewest", 0, rows(0, 0, 2, 1, 3), 5, 2, 0, 2, nil},
		{"sold out", 1, rows(1, 0, 1), 4, 0, 0, 0, ErrSoldOut},
	} {
		p := &parted{view: Segments{Reserve: row.reserve, Rows: row.rows}, begun: true}
		sale := &Sale{Order: Order{ID: "o", SKU: "a", Quantity: row.quantity}, most: time.Minute}
		s := segmentedSale{Sale: sale, lock: granted{}, k: 3, store: p}
		err := s.sell(t.Context(), 2)
		if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) || sale.written != (row.want == nil) {
			t.Errorf("%s: %v, written %t", row.name, err, sale.written)
		}
		var reserved int64
		gathered := 0
		for _, r := range p.refills {
			reserved, gathered = reserved+r.Reserve, gathered+len(r.From)
		}
		if reserved != row.reserved || gathered != row.gathered || !p.begun {
			t.Errorf("%s: %d of the reserve, %d gathered, want %d and %d; begun %t",
				row.name, reserved, gathered, row.reserved,
				row.gathered, p.begun)
		}
		if len(p.refills) > 1 {
			t.Errorf("%s: it moved units %d times", row.name, len(p.refills))
		}
		if row.from > 0 && (len(p.ordered) != 1 || p.ordered[0].Segment != row.from ||
			p.ordered[0].Remaining != p.ordered[0].Read-row.quantity) {
			t.Errorf("%s: %+v, want it of segment %d", row.name, p.ordered, row.from)
		}
	}
}

// A sale that conflicts begins again under its lock, up to a bound, and then under the lock anew. Other errors end it.
func TestASegmentedSaleBeginsAgain(t *testing.T) {
	broken := errors.New("no reply")
	for _, row := range []struct {
		name  string
		swaps []error
		tries int
		want  error
	}{
		{"at once", nil, 1, nil},
		{"after two conflicts", []error{ErrConflict, ErrConflict, nil}, 3, nil},
		{
			"under the lock anew",
			append(slices.Repeat([]error{fmt.Errorf("version: %w", ErrConflict)}, restarts), nil),
			restarts + 1, nil,
		},
		{"another error", []error{ErrConflict, broken}, 2, broken},
	} {
		p := &parted{view: Segments{Rows: rows(0, 5)}, swaps: row.swaps}
		sale := &Sale{Order: Order{SKU: "a", Quantity: 1}, most: time.Minute}
		s := segmentedSale{Sale: sale, lock: granted{}, k: 3, store: p}
		err := s.sell(t.Context(), 2)
		if !errors.Is(err, row.want) || sale.tries != row.tries || sale.written != (row.want == nil) {
			t.Errorf("%s: %d tries, want %d; %v", row.name, sale.tries, row.tries, err)
		}
	}
}

// A held lock is held for nobody else.
type held struct{ asked []string }

func (h *held) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	h.asked = append(h.asked, key)
	return nil, &lock.HeldError{Key: key}
}

// A sale that tries once asks for each segment once. One that waits asks for its own.
func TestASegmentedSaleTriesEachSegmentOnce(t *testing.T) {
	for once, want := range map[bool][]string{true: {"a#2", "a#3", "a#1"}, false: {"a#2"}} {
		l := new(held)
		sale := &Sale{Order: Order{SKU: "a", Quantity: 1}, most: time.Minute, TryOnce: once}
		s := segmentedSale{Sale: sale, lock: l, k: 3, store: new(parted)}
		if err := s.sell(t.Context(), 2); !errors.Is(err, lock.ErrHeld) || !slices.Equal(l.asked, want) {
			t.Errorf("once %t: asked for %v, want %v; %v", once, l.asked, want, err)
		}
	}
}

// The key of a segment's lock is written in one way alone.
func TestKeysOfSegments(t *testing.T) {
	for _, n := range []int{1, 9, MaxSegments} {
		if sku, got, ok := parseSegmentKey(segmentKey("a.b", n)); !ok || sku != "a.b" || got != n {
			t.Errorf("segment %d: %s, %d, %t", n, sku, got, ok)
		}
	}
	for _, key := range []string{"a", "a#", "a#0", "a#65", "a#-1", "a#+1", "a#01", "#1", "a b#1", "a#1#1", "a#x", ""} {
		if sku, n, ok := parseSegmentKey(key); ok {
			t.Errorf("%q is segment %d of %s", key, n, sku)
		}
	}
}

// Inspected is a lock of which only some keys are held, and one cannot be looked at.
type inspected struct {
	lock.Locker
	held  map[string]bool
	fails string
}

func (i inspected) InspectAll(_ context.Context, keys []string) (all []lock.State, err error) {
	for _, key := range keys {
		state := lock.State{Local: true}
		switch {
		case key == i.fails:
			return all, lock.ErrDown
		case i.held[key]:
			state.Holder = &lock.Contender{}
		}
		all = append(all, state)
	}
	return all, nil
}

// The locks of the segments are those that somebody holds or waits for. If one cannot be looked at, nothing is said of
// any.
func TestTheLocksOfSegments(t *testing.T) {
	l := inspected{held: map[string]bool{"pen#2": true, segmentKey("pen", MaxSegments): true}}
	got, err := segmentLocks(t.Context(), l, "pen")
	if err != nil || !got.Local || len(got.Segments) != 2 || got.Segments[0].Key != "pen#2" ||
		got.Segments[0].Segment != 2 || got.Segments[1].Segment != MaxSegments {
		t.Errorf("%+v, %v", got, err)
	}
	l.fails = "pen#3"
	if got, err := segmentLocks(t.Context(), l, "pen"); !errors.Is(err, lock.ErrDown) || len(got.Segments) > 0 {
		t.Errorf("%+v, %v, want %v", got, err, lock.ErrDown)
	}
}
