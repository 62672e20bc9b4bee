package order

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/service"
)

func TestLimitsOfReservations(t *testing.T) {
	const day = 24 * time.Hour
	stock := func(available, reserved int64) map[service.SKU]Level {
		of := func() Level { return Level{Received: available + reserved, Available: available, Reserved: reserved} }
		return map[service.SKU]Level{"a": of(), "b": of()}
	}
	two := []Line{{"a", 1}, {"b", 2}}
	for _, row := range []struct {
		name    string
		limits  Limits
		holding Holding
		stock   map[service.SKU]Level
		lines   []Line
		want    error // nil: reserved
	}{
		{"no limits", Limits{}, Holding{1e6, 1e9}, stock(2, 1e6), two, nil},
		{"the last reservation", Limits{Open: 3}, Holding{2, 1e9}, stock(9, 0), two, nil},
		{"one too many", Limits{Open: 3}, Holding{3, 0}, stock(9, 0), two, &HoldError{OfOpen, "", 3, 0}},
		{"more than that before", Limits{Open: 3}, Holding{9, 9}, stock(9, 0), two, &HoldError{OfOpen, "", 3, 0}},
		{"the last units", Limits{Units: 10}, Holding{7, 7}, stock(9, 0), two, nil},
		{"a unit too many", Limits{Units: 10}, Holding{1, 8}, stock(9, 0), two, &HoldError{OfUnits, "", 10, 2}},
		{"more units before", Limits{Units: 10}, Holding{1, 11}, stock(9, 0), two, &HoldError{OfUnits, "", 10, 0}},
		{"one unit at most", Limits{Units: 1}, Holding{}, stock(9, 0), two, &HoldError{OfUnits, "", 1, 1}},
		{"first the customer", Limits{Open: 1}, Holding{1, 1}, stock(0, 9), two, &HoldError{OfOpen, "", 1, 0}},
		{"then the stock", Limits{Share: 50}, Holding{}, stock(0, 9), two, &ShortError{}},
		{"the last of the share", Limits{Share: 50}, Holding{}, stock(6, 2), []Line{{"a", 2}}, nil},
		{"above it", Limits{Share: 50}, Holding{}, stock(6, 2), []Line{{"a", 3}}, &HoldError{OfShare, "a", 4, 2}},
		{"of the second line", Limits{Share: 50}, Holding{}, stock(5, 2), two, &HoldError{OfShare, "b", 3, 1}},
		{"over the share before", Limits{Share: 10}, Holding{}, stock(50, 50), two, &HoldError{OfShare, "a", 10, 0}},
		{"one unit at least", Limits{Share: 1}, Holding{}, stock(2, 0), []Line{{"a", 1}}, nil},
		{"but no second", Limits{Share: 1}, Holding{}, stock(2, 1), []Line{{"a", 1}}, &HoldError{OfShare, "a", 1, 0}},
		{"all of it", Limits{Share: 100}, Holding{}, stock(2, 8), two, nil},
	} {
		c, err := reserve("r", "ann", row.lines, day, row.limits)(State{Stock: row.stock, Holding: row.holding})
		var want, got *HoldError
		switch {
		case row.want == nil:
			if err != nil || c.Reservation == nil {
				t.Errorf("%s: %v", row.name, err)
			}
		case errors.As(row.want, &want):
			if !errors.As(err, &got) || *got != *want || !errors.Is(err, ErrHold) {
				t.Errorf("%s: %v, want %v", row.name, err, want)
			}
		case !errors.Is(err, ErrShort):
			t.Errorf("%s: %v, want %v", row.name, err, ErrShort)
		}
	}
}

// The limits are of reservations: orders, and confirmations that come late, have none of them.
func TestAnOrderNeedsNoShare(t *testing.T) {
	s := newStory(t)
	lines, limits := []Line{{"a", 5}}, Limits{Open: 1, Units: 5, Share: 50}
	about := cart("ann", lines...)
	about.Holder = limits.holder("ann")
	s.must(about, reserve("r", "ann", lines, time.Second, limits))
	if _, err := s.step(about, reserve("x", "ann", lines, time.Second, limits)); !errors.Is(err, ErrHold) {
		t.Errorf("a second reservation: %v", err)
	}
	s.now = s.now.Add(time.Second)
	s.must(cart("bob", lines...), place("o", "bob", lines))
	if late := parse[Order](t, s.must(held("ann"), confirm("p", "ann"))); !late.Late {
		t.Errorf("%+v, want late", late)
	}
	s.level("a", 10, 0, 0, 10)
}

func TestExtensionsKeepTheirDistance(t *testing.T) {
	s := newStory(t)
	limits := Limits{ExtendEvery: 10 * time.Second}
	lines := []Line{{"a", 1}}
	s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute, limits))
	s.now = s.now.Add(time.Second) // the first extension may come at any time
	first := parse[Reservation](t, s.must(held("ann"), extend("ann", time.Minute, limits)))
	if first.ExtendedAt == nil || !first.ExtendedAt.Equal(s.now) {
		t.Fatalf("%+v, want extended at %v", first, s.now)
	}
	s.now = s.now.Add(7 * time.Second)
	_, err := s.step(held("ann"), extend("ann", time.Minute, limits))
	if early, ok := errors.AsType[*EarlyError](err); !ok || early.Wait != 3*time.Second || !errors.Is(err, ErrEarly) {
		t.Fatalf("error %v, want to wait for 3 s", err)
	}
	if r := s.reservations["r"]; !r.ExpiresAt.Equal(first.ExpiresAt) || !r.ExtendedAt.Equal(*first.ExtendedAt) {
		t.Fatalf("the refusal changed %+v to %+v", first, r)
	}
	s.must(held("ann"), extend("ann", time.Second, limits)) // changes nothing, so it is not too early
	s.now = s.now.Add(3 * time.Second)
	r := parse[Reservation](t, s.must(held("ann"), extend("ann", time.Minute, limits)))
	if !r.ExtendedAt.Equal(s.now) {
		t.Fatalf("%+v, want extended at %v", r, s.now)
	}
	s.must(held("ann"), extend("ann", time.Hour, Limits{})) // no limit
	s.must(held("ann"), release("ann"))
	if _, err := s.step(held("ann"), extend("ann", time.Hour, limits)); !errors.Is(err, ErrState) {
		t.Fatalf("error %v, want ErrState: it has ended", err)
	}
}

// Only a step that needs the totals asks for them, because they cost a lock of the customer's row.
func TestOnlyReservationsWithLimitsHaveAHolder(t *testing.T) {
	for _, row := range []struct {
		limits Limits
		want   string
	}{
		{Limits{}, ""},
		{Limits{Share: 50, ExtendEvery: time.Second}, ""},
		{Limits{Open: 5}, "ann"},
		{Limits{Units: 5}, "ann"},
	} {
		m := newMemory("a")
		s := New(Config{Store: m, Needs: up{}, Work: time.Minute, Limits: row.limits})
		lines := []Line{{"a", 1}}
		if _, _, err := s.Set(t.Context(), "", "a", 10, service.Condition{}); err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Reserve(t.Context(), "", "ann", lines, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_, _, extended := s.Extend(t.Context(), "", "ann", r.ID, time.Hour)
		_, _, confirmed := s.Confirm(t.Context(), "", "ann", r.ID)
		_, _, placed := s.Place(t.Context(), "", "ann", lines)
		if err := errors.Join(extended, confirmed, placed); err != nil {
			t.Fatal(err)
		}
		for i, about := range m.about {
			want := ""
			if i == 1 { // the reservation
				want = row.want
			}
			if about.Holder != want {
				t.Errorf("%+v: step %d has the holder %q, want %q", row.limits, i, about.Holder, want)
			}
		}
	}
}
