package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/stock/service"
)

// A story runs rules one after the other on a world with 10 of a and 10 of b.
type story struct {
	*world
	t *testing.T
}

func newStory(t *testing.T) *story {
	s := &story{newWorld("a", "b"), t}
	s.must(About{SKUs: []service.SKU{"a"}}, set("a", 10, service.Condition{}))
	s.must(About{SKUs: []service.SKU{"b"}}, set("b", 10, service.Condition{}))
	t.Cleanup(func() {
		if err := s.check(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *story) must(about About, r rule) []byte {
	s.t.Helper()
	reply, err := s.step(about, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

func (s *story) level(sku service.SKU, received, available, reserved, sold int64) {
	s.t.Helper()
	got, want := s.levels[sku].Counts(sku), Counts{sku, received, available, reserved, sold, s.levels[sku].Number}
	if got != want {
		s.t.Fatalf("level %+v, want %+v", got, want)
	}
}

func parse[T any](t *testing.T, reply []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(reply, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func cart(customer string, lines ...Line) About {
	return About{SKUs: skusOf(lines), Customer: customer}
}

var held = func(customer string) About { return About{Customer: customer, Reservation: "r"} }

func TestRefusalNamesEveryShortLine(t *testing.T) {
	s := newStory(t)
	lines := []Line{{"a", 11}, {"b", 12}}
	_, err := s.step(cart("ann", lines...), place("o", "ann", lines))
	short, ok := errors.AsType[*ShortError](err)
	if want := []Shortage{{"a", 11, 10}, {"b", 12, 10}}; !ok || !slices.Equal(short.Lines, want) {
		t.Fatalf("error %v, want lines %v", err, want)
	}
	if !errors.Is(err, service.ErrSoldOut) {
		t.Error("is no service.ErrSoldOut")
	}
	lines[1].Quantity = 1
	_, err = s.step(cart("ann", lines...), place("o", "ann", lines))
	if short, ok := errors.AsType[*ShortError](err); !ok || len(short.Lines) != 1 {
		t.Fatalf("error %v, want one line: the cart is all or nothing", err)
	}
	s.level("b", 10, 10, 0, 0)
}

func TestReservationBecomesAnOrder(t *testing.T) {
	s := newStory(t)
	lines := []Line{{"a", 2}, {"b", 1}}
	r := parse[Reservation](t, s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute, Limits{})))
	if want := s.now.Add(time.Minute); !r.ExpiresAt.Equal(want) || r.State != Held {
		t.Fatalf("%+v, want held until %v", r, want)
	}
	s.level("a", 10, 8, 2, 0)
	for _, wrong := range []rule{confirm("o", "bob"), release("bob"), extend("bob", time.Hour, Limits{})} {
		if _, err := s.step(held("bob"), wrong); !errors.Is(err, ErrNotFound) {
			t.Fatalf("of somebody else: %v, want ErrNotFound", err)
		}
	}
	s.now = s.now.Add(time.Minute - time.Microsecond)
	o := parse[Order](t, s.must(held("ann"), confirm("o", "ann")))
	if o.Late || o.Reservation != "r" || o.ID != "o" {
		t.Fatalf("%+v", o)
	}
	s.level("a", 10, 8, 0, 2)
	if _, err := s.step(held("ann"), release("ann")); err == nil || err.Error() != (&StateError{Confirmed}).Error() {
		t.Fatalf("cancel after confirm: %v", err)
	}
	canceled := parse[Order](t, s.must(About{Customer: "ann", Order: "o"}, cancelOrder("ann")))
	if canceled.State != Canceled || canceled.CanceledAt == nil || !canceled.CanceledAt.Equal(s.now) {
		t.Fatalf("%+v, want canceled at %v", canceled, s.now)
	}
	s.level("a", 10, 10, 0, 0)
	// To confirm again tells what was done then, under the id that it has; it does not sell again.
	if again := parse[Order](t, s.must(held("ann"), confirm("o2", "ann"))); again.ID != "o" || again.State != Placed {
		t.Fatalf("%+v", again)
	}
	s.level("a", 10, 10, 0, 0)
}

func TestConfirmLate(t *testing.T) {
	lines := []Line{{"a", 7}}
	begin := func(t *testing.T, sweep bool) *story {
		s := newStory(t)
		s.limits["a"] = 8
		s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Second, Limits{}))
		s.now = s.now.Add(time.Second) // the first moment that is too late
		if sweep {
			s.must(held("ann"), expire)
			s.level("a", 10, 10, 0, 0)
		}
		return s
	}
	for _, sweep := range []bool{false, true} {
		t.Run(fmt.Sprint("swept ", sweep), func(t *testing.T) {
			s := begin(t, sweep)
			if o := parse[Order](t, s.must(held("ann"), confirm("o", "ann"))); !o.Late {
				t.Fatalf("%+v, want late", o)
			}
			s.level("a", 10, 3, 0, 7)
			if again := parse[Order](t, s.must(held("ann"), confirm("x", "ann"))); !again.Late || again.ID != "o" {
				t.Fatalf("%+v, want the same order again", again)
			}
			for _, m := range s.movements {
				if m.Kind == Confirm {
					t.Errorf("%+v: units that have expired cannot be confirmed", m)
				}
			}
		})
	}
	t.Run("sold meanwhile", func(t *testing.T) {
		s := begin(t, true)
		other := []Line{{"a", 4}}
		s.must(cart("bob", other...), place("x", "bob", other))
		_, err := s.step(held("ann"), confirm("o", "ann"))
		if short, ok := errors.AsType[*ShortError](err); !errors.Is(err, ErrExpired) || !ok ||
			short.Lines[0] != (Shortage{"a", 7, 6}) {
			t.Fatalf("error %v", err)
		}
		s.level("a", 10, 6, 0, 4)
	})
	t.Run("limit used up meanwhile", func(t *testing.T) {
		s := begin(t, true)
		other := []Line{{"a", 2}}
		s.must(cart("ann", other...), place("x", "ann", other))
		_, err := s.step(held("ann"), confirm("o", "ann"))
		if !errors.Is(err, ErrExpired) || !errors.Is(err, ErrLimit) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("canceled before", func(t *testing.T) {
		s := newStory(t)
		s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Second, Limits{}))
		s.must(held("ann"), release("ann"))
		s.now = s.now.Add(time.Minute)
		if _, err := s.step(held("ann"), confirm("o", "ann")); !errors.Is(err, ErrState) {
			t.Fatalf("error %v", err)
		}
	})
}

func TestExtendIsCapped(t *testing.T) {
	s := newStory(t)
	lines := []Line{{"a", 1}}
	s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute, Limits{}))
	created := s.now
	s.now = s.now.Add(30 * time.Second)
	r := parse[Reservation](t, s.must(held("ann"), extend("ann", time.Minute, Limits{})))
	if want := s.now.Add(time.Minute); !r.ExpiresAt.Equal(want) {
		t.Fatalf("until %v, want %v", r.ExpiresAt, want)
	}
	r = parse[Reservation](t, s.must(held("ann"), extend("ann", time.Second, Limits{})))
	if want := s.now.Add(time.Minute); !r.ExpiresAt.Equal(want) {
		t.Fatalf("until %v, want %v: an extension makes nothing shorter", r.ExpiresAt, want)
	}
	r = parse[Reservation](t, s.must(held("ann"), extend("ann", MaxTTL, Limits{})))
	if want := created.Add(MaxTTL); !r.ExpiresAt.Equal(want) {
		t.Fatalf("until %v, want %v", r.ExpiresAt, want)
	}
	s.now = r.ExpiresAt
	if _, err := s.step(held("ann"), extend("ann", time.Minute, Limits{})); !errors.Is(err, ErrState) {
		t.Fatalf("error %v, want ErrState: it has expired", err)
	}
	if _, err := s.step(held("ann"), release("ann")); !errors.Is(err, ErrState) {
		t.Fatalf("error %v, want ErrState: it has expired", err)
	}
}

func TestExpireIsForWhatIsOver(t *testing.T) {
	s := newStory(t)
	lines := []Line{{"a", 3}}
	s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute, Limits{}))
	s.must(held("ann"), expire)
	s.level("a", 10, 7, 3, 0)
	s.now = s.now.Add(time.Minute)
	s.must(held("ann"), expire)
	s.must(held("ann"), expire)
	s.level("a", 10, 10, 0, 0)
	s.must(About{Reservation: "none"}, expire)
}

func TestLimitCountsReservedAndSold(t *testing.T) {
	s := newStory(t)
	s.limits["a"] = 3
	one, two := []Line{{"a", 1}}, []Line{{"a", 2}}
	s.must(cart("ann", two...), reserve("r", "ann", two, time.Minute, Limits{}))
	_, err := s.step(cart("ann", two...), place("o", "ann", two))
	if limit, ok := errors.AsType[*LimitError](err); !ok || *limit != (LimitError{"a", 3, 1}) {
		t.Fatalf("error %v", err)
	}
	s.must(cart("bob", two...), place("x", "bob", two)) // another customer has a limit of his own
	s.must(cart("ann", one...), place("o", "ann", one))
	s.must(held("ann"), release("ann"))
	s.must(cart("ann", two...), place("o2", "ann", two))
	s.must(About{Customer: "ann", Order: "o"}, cancelOrder("ann"))
	s.must(cart("ann", one...), place("o3", "ann", one))
	s.limits["a"] = 2 // takes nothing away, and leaves nothing
	_, err = s.step(cart("ann", one...), place("o4", "ann", one))
	if limit, ok := errors.AsType[*LimitError](err); !ok || *limit != (LimitError{"a", 2, 0}) {
		t.Fatalf("error %v", err)
	}
}

func TestAdjustAndSet(t *testing.T) {
	s := newStory(t)
	about := About{SKUs: []service.SKU{"a"}}
	lines := []Line{{"a", 4}}
	s.must(cart("ann", lines...), place("o", "ann", lines))
	e := parse[Entry](t, s.must(about, adjust("a", -6, "broken", service.Condition{})))
	if e.Available != 0 || e.Received != 4 || e.Movement.Reason != "broken" || e.Movement.Kind != Adjust {
		t.Fatalf("%+v", e)
	}
	if _, err := s.step(about, adjust("a", -1, "", service.Condition{})); !errors.Is(err, ErrBelowZero) {
		t.Fatalf("error %v", err)
	}
	e = parse[Entry](t, s.must(about, set("a", 9, service.Condition{Match: []string{s.levels["a"].Tag()}})))
	if e.Available != 9 || e.Movement.Received != 9 || e.Sold != 4 {
		t.Fatalf("%+v", e)
	}
	e = parse[Entry](t, s.must(about, set("a", 3, service.Condition{})))
	if e.Available != 3 || e.Movement.Received != -6 || e.Received != 7 {
		t.Fatalf("%+v", e)
	}
	stale := service.Condition{Match: []string{"0-1"}}
	for _, r := range []rule{set("a", 1, stale), adjust("a", 1, "", stale)} {
		if _, err := s.step(about, r); !errors.Is(err, service.ErrPrecondition) {
			t.Fatalf("error %v, want ErrPrecondition", err)
		}
	}
	if _, err := s.step(about, adjust("a", service.MaxStock, "", service.Condition{})); err == nil {
		t.Fatal("more than MaxStock")
	}
	absent := service.Condition{NoneMatch: []string{service.AnyTag}}
	if _, err := s.step(About{SKUs: []service.SKU{"b"}}, set("b", 0, absent)); err == nil {
		t.Fatal("b is there")
	}
}

// Books that were wrong before are not written on.
func TestUnbalancedBooksAreRefused(t *testing.T) {
	r := Reservation{ID: "r", Customer: "ann", Lines: []Line{{"a", 4}}, State: Held}
	r.ExpiresAt = time.Now().Add(time.Hour)
	bad := State{
		Now: time.Now(), Stock: map[service.SKU]Level{"a": {Received: 10, Available: 10, Number: 2}}, Reservation: &r,
	}
	if _, err := confirm("o", "ann")(bad); !errors.Is(err, ErrUnbalanced) {
		t.Fatalf("error %v", err)
	}
}
