package order

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// An audit takes what is carried for all before it, wherever it comes, and still finds what is wrong behind it.
func TestAuditBeginsWithWhatIsCarried(t *testing.T) {
	t.Parallel()
	at := func(n uint64, kind Kind, r, a, v, s int64) Movement {
		return Movement{SKU: "a", Number: n, Kind: kind, Received: r, Available: a, Reserved: v, Sold: s}
	}
	all := []Movement{at(1, Receive, 10, 10, 0, 0), at(2, Reserve, 0, -2, 2, 0), at(3, Confirm, 0, 0, -2, 2)}
	carried := Movement{}.Carry(all[0]).Carry(all[1])
	if want := at(2, Carried, 10, 8, 2, 0); carried != want {
		t.Errorf("%+v, want %+v", carried, want)
	}
	counters := Level{Received: 10, Available: 8, Sold: 2, Number: 3}
	for name, row := range map[string]struct {
		movements []Movement
		good      bool
	}{
		"first":            {[]Movement{carried, all[2]}, true},
		"alone":            {[]Movement{carried.Carry(all[2])}, true},
		"while it is read": {[]Movement{all[0], carried, all[2]}, true},
		"too far":          {[]Movement{all[0], all[1], all[2], at(4, Carried, 10, 8, 0, 2)}, false},
		"a gap after it":   {[]Movement{Movement{}.Carry(all[0]), all[2]}, false},
		"another sum":      {[]Movement{at(2, Carried, 11, 9, 2, 0), all[2]}, false},
		"twice":            {[]Movement{carried, carried, all[2]}, false},
	} {
		if a := Audit("a", counters, slices.Values(row.movements)); (len(a.Problems) == 0) != row.good {
			t.Errorf("%s: %v", name, a.Problems)
		}
	}
}

// An archivist is what was archived.
type archivist struct {
	Archivable
	last Part
	err  error
}

func (g archivist) Archived(context.Context) (Part, time.Time, error) {
	return g.last, time.Now(), g.err
}

// Who asks for what is not there is told whether it may have been archived, also where it is another's: the answer
// tells nobody what there is.
func TestWhatIsGone(t *testing.T) {
	t.Parallel()
	m := newMemory("a")
	now := time.Now()
	id := func(ago time.Duration) string { return FirstID(now.Add(-ago)) + "-7000-8000-000000000001" }
	m.orders[id(3*time.Hour)] = Order{ID: id(3 * time.Hour), Customer: "ann"}
	m.reservations[id(3*time.Hour)] = Reservation{ID: id(3 * time.Hour), Customer: "ann"}
	down := errors.New("down")
	for _, row := range []struct {
		ago   time.Duration
		store archivist
		want  error
	}{
		{2 * time.Hour, archivist{last: Part{Before: now.Add(-time.Hour)}}, ErrArchived},
		{3 * time.Hour, archivist{last: Part{Before: now.Add(-time.Hour)}}, ErrArchived}, // there, and another's
		{time.Minute, archivist{last: Part{Before: now.Add(-time.Hour)}}, nil},
		{2 * time.Hour, archivist{}, nil},
		{2 * time.Hour, archivist{err: down}, down},
	} {
		s := New(Config{Store: m, Needs: up{}, Work: time.Second, Gone: GoneFrom(row.store)})
		for name, ask := range map[string]func(id string) error{
			"order": func(id string) error { _, err := s.Order(t.Context(), "bob", id); return err },
			"reservation": func(id string) error {
				_, err := s.Reservation(t.Context(), "bob", id)
				return err
			},
			"cancel": func(id string) error { _, _, err := s.CancelOrder(t.Context(), "", "bob", id); return err },
			"confirm": func(id string) error {
				_, _, err := s.Confirm(t.Context(), "", "bob", id)
				return err
			},
		} {
			err := ask(id(row.ago))
			want := row.want
			if want == nil {
				want = ErrNotFound
			}
			if !errors.Is(err, want) || errors.Is(err, ErrArchived) != (row.want == ErrArchived) {
				t.Errorf("%s of %v ago: %v, want %v", name, row.ago, err, want)
			}
		}
	}
}

// FirstID divides ids by the time at which they were made.
func TestFirstID(t *testing.T) {
	t.Parallel()
	before := FirstID(time.Now().Add(-2 * time.Millisecond))
	id, err := newID()
	if err != nil {
		t.Fatal(err)
	}
	after := FirstID(time.Now().Add(2 * time.Millisecond))
	if before >= id || id >= after || FirstID(time.Time{}) != "00000000-0000" {
		t.Errorf("%s, %s, %s", before, id, after)
	}
}
