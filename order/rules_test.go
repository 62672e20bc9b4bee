package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.com/stock/service"
)

// A world is a ledger as a value: what the rules are tried on. It applies changes as a store must, and checks them.
type world struct {
	now          time.Time
	levels       map[service.SKU]Level
	limits       map[service.SKU]int64
	taken        map[string]int64 // by SKU and customer
	orders       map[string]Order
	reservations map[string]Reservation
	movements    []Movement
}

func newWorld(skus ...service.SKU) *world {
	w := &world{
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), levels: map[service.SKU]Level{},
		limits: map[service.SKU]int64{}, taken: map[string]int64{}, orders: map[string]Order{},
		reservations: map[string]Reservation{},
	}
	for _, sku := range skus {
		w.levels[sku] = Level{}
	}
	return w
}

func takenKey(sku service.SKU, customer string) string { return string(sku) + "/" + customer }

// step does what Ledger.Step promises, for one caller at a time.
func (w *world) step(about About, r rule) ([]byte, error) {
	s := State{Now: w.now, Stock: map[service.SKU]Level{}}
	skus := about.SKUs
	if o, ok := w.orders[about.Order]; ok {
		s.Order = &o
		skus = append(slices.Clone(skus), skusOf(o.Lines)...)
	}
	if r, ok := w.reservations[about.Reservation]; ok {
		s.Reservation = &r
		skus = append(slices.Clone(skus), skusOf(r.Lines)...)
	}
	for _, sku := range skus {
		level := w.levels[sku]
		level.PerCustomer, level.Taken = w.limits[sku], w.taken[takenKey(sku, about.Customer)]
		s.Stock[sku] = level
	}
	c, err := r(s)
	if err != nil {
		return nil, err
	}
	return c.Reply, w.apply(c)
}

func (w *world) apply(c Changes) error {
	for _, m := range c.Movements {
		level := w.levels[m.SKU]
		if m.Number != level.Number+1 {
			return fmt.Errorf("movement %d of %s follows %d", m.Number, m.SKU, level.Number)
		}
		level.Number = m.Number
		level.Received += m.Received
		level.Available += m.Available
		level.Reserved += m.Reserved
		level.Sold += m.Sold
		if err := level.Check(); err != nil {
			return fmt.Errorf("after %+v: %w", m, err)
		}
		w.levels[m.SKU] = level
		if m.Customer != "" {
			key := takenKey(m.SKU, m.Customer)
			before := w.taken[key]
			w.taken[key] += m.Reserved + m.Sold
			if most := w.limits[m.SKU]; most > 0 && w.taken[key] > max(most, before) {
				return fmt.Errorf("%s has %d of at most %d", key, w.taken[key], most)
			}
			if w.taken[key] < 0 {
				return fmt.Errorf("%s has %d", key, w.taken[key])
			}
		}
		w.movements = append(w.movements, m)
	}
	if c.Order != nil {
		w.orders[c.Order.ID] = *c.Order
	}
	if c.Reservation != nil {
		w.reservations[c.Reservation.ID] = *c.Reservation
	}
	return nil
}

// check says what is wrong with the books as a whole: a reservation keeps what it says while it is held and nothing
// after, an order has what it says until it is canceled, and the customers have what their rows say.
func (w *world) check() error {
	type key struct {
		ref string
		sku service.SKU
	}
	reserved, sold := map[key]int64{}, map[key]int64{}
	for _, m := range w.movements {
		if m.Kind == Confirm { // the units of a reservation become those of its order
			reserved[key{m.Ref, m.SKU}] += m.Reserved
			sold[key{w.reservations[m.Ref].Order, m.SKU}] += m.Sold
			continue
		}
		reserved[key{m.Ref, m.SKU}] += m.Reserved
		sold[key{m.Ref, m.SKU}] += m.Sold
	}
	has := map[string]int64{}
	for _, r := range w.reservations {
		for _, l := range r.Lines {
			want := int64(0)
			if r.State == Held {
				want = l.Quantity
				has[takenKey(l.SKU, r.Customer)] += want
			}
			if got := reserved[key{r.ID, l.SKU}]; got != want {
				return fmt.Errorf("reservation %s (%s) keeps %d of %s, want %d", r.ID, r.State, got, l.SKU, want)
			}
		}
		if (r.State == Confirmed) != (r.Order != "") || (r.State == Held) != (r.EndedAt == nil) {
			return fmt.Errorf("reservation %+v contradicts itself", r)
		}
	}
	for _, o := range w.orders {
		for _, l := range o.Lines {
			want := int64(0)
			if o.State == Placed {
				want = l.Quantity
				has[takenKey(l.SKU, o.Customer)] += want
			}
			if got := sold[key{o.ID, l.SKU}]; got != want {
				return fmt.Errorf("order %s (%s) has %d of %s, want %d", o.ID, o.State, got, l.SKU, want)
			}
		}
	}
	maps.DeleteFunc(w.taken, func(_ string, n int64) bool { return n == 0 })
	maps.DeleteFunc(has, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(w.taken, has) {
		return fmt.Errorf("customers have %v, want %v", w.taken, has)
	}
	for sku, level := range w.levels {
		if err := Audit(sku, level, slices.Values(slices.DeleteFunc(slices.Clone(w.movements),
			func(m Movement) bool { return m.SKU != sku }))); len(err.Problems) > 0 {
			return fmt.Errorf("audit of %s: %v", sku, err.Problems)
		}
	}
	return nil
}

// random does a random thing to the world, driven by r, and returns what goes against the rules.
func (w *world) random(r *rand.Rand, id string) error {
	skus := slices.Sorted(maps.Keys(w.levels))
	customer := []string{"ann", "bob", "eve"}[r.IntN(3)]
	lines := []Line{}
	for range 1 + r.IntN(3) {
		lines = append(lines, Line{skus[r.IntN(len(skus))], 1 + r.Int64N(4)})
	}
	lines, _ = merge(lines)
	pick := func(ids []string) string {
		if len(ids) == 0 {
			return "none"
		}
		slices.Sort(ids)
		return ids[r.IntN(len(ids))]
	}
	order, reservation := pick(slices.Collect(maps.Keys(w.orders))), pick(slices.Collect(maps.Keys(w.reservations)))
	sku := skus[r.IntN(len(skus))]
	about := About{SKUs: skusOf(lines), Customer: customer}
	var do rule
	switch r.IntN(10) {
	case 0:
		do = place(id, customer, lines)
	case 1, 2:
		do = reserve(id, customer, lines, time.Duration(1+r.IntN(20))*time.Second)
	case 3, 4:
		about = About{Customer: customer, Reservation: reservation}
		do = confirm(id, customer)
	case 5:
		about = About{Customer: customer, Reservation: reservation}
		do = release(customer)
	case 6:
		about = About{Customer: customer, Order: order}
		do = cancelOrder(customer)
	case 7:
		about = About{Customer: customer, Reservation: reservation}
		do = extend(customer, time.Duration(r.IntN(30*3600))*time.Second)
	case 8:
		w.now = w.now.Add(time.Duration(r.IntN(10)) * time.Second)
		if r.IntN(50) == 0 {
			w.now = w.now.Add(MaxTTL)
		}
		about = About{Customer: w.reservations[reservation].Customer, Reservation: reservation}
		do = expire
	case 9:
		about = About{SKUs: []service.SKU{sku}}
		switch r.IntN(3) {
		case 0:
			do = adjust(sku, r.Int64N(30)-10, "", service.Condition{})
		case 1:
			do = set(sku, r.Int64N(20), service.Condition{})
		case 2:
			w.limits[sku] = r.Int64N(8)
			return nil
		}
	}
	first, err := w.step(about, do)
	refused := errors.Is(err, ErrShort) || errors.Is(err, ErrLimit) || errors.Is(err, ErrState) ||
		errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) || errors.Is(err, ErrBelowZero)
	if err != nil && !refused {
		return err
	}
	if about.Order+about.Reservation == "" || err != nil {
		return w.check()
	}
	// The same end again: the same reply, and nothing moves.
	moved := len(w.movements)
	again, err := w.step(about, do)
	if err != nil || string(again) != string(first) || len(w.movements) != moved {
		return fmt.Errorf("again: %s, %v and %d movements; first %s", again, err, len(w.movements)-moved, first)
	}
	return w.check()
}

func TestTheLawHoldsForAnySequence(t *testing.T) {
	steps := 400
	for seed := range uint64(30) {
		w := newWorld("a", "b", "c")
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range steps {
			if err := w.random(r, fmt.Sprint("id", i)); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
		if seed == 0 {
			kinds := map[Kind]int{}
			for _, m := range w.movements {
				kinds[m.Kind]++
			}
			t.Log(kinds)
		}
	}
}

func FuzzLaw(f *testing.F) {
	f.Add([]byte("reserve, confirm, cancel, expire"))
	f.Fuzz(func(t *testing.T, program []byte) {
		w := newWorld("a", "b")
		r := rand.New(&script{bytes: program})
		for i := range min(len(program), 200) {
			if err := w.random(r, fmt.Sprint("id", i)); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	})
}

// A script is a source of randomness that a fuzzer can steer.
type script struct {
	bytes []byte
	at    uint64
}

func (s *script) Uint64() uint64 {
	s.at++
	if len(s.bytes) == 0 {
		return s.at
	}
	b := uint64(s.bytes[s.at%uint64(len(s.bytes))])
	return (b + s.at) * 0x9e3779b97f4a7c15
}

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
	r := parse[Reservation](t, s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute)))
	if want := s.now.Add(time.Minute); !r.ExpiresAt.Equal(want) || r.State != Held {
		t.Fatalf("%+v, want held until %v", r, want)
	}
	s.level("a", 10, 8, 2, 0)
	for _, wrong := range []rule{confirm("o", "bob"), release("bob"), extend("bob", time.Hour)} {
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
	if canceled.State != Canceled || canceled.CanceledAt == nil {
		t.Fatalf("%+v", canceled)
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
		s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Second))
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
		if _, err := s.step(held("ann"), confirm("o", "ann")); !errors.Is(err, ErrExpired) || !errors.Is(err, ErrLimit) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("canceled before", func(t *testing.T) {
		s := newStory(t)
		s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Second))
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
	s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute))
	created := s.now
	s.now = s.now.Add(30 * time.Second)
	r := parse[Reservation](t, s.must(held("ann"), extend("ann", time.Minute)))
	if want := s.now.Add(time.Minute); !r.ExpiresAt.Equal(want) {
		t.Fatalf("until %v, want %v", r.ExpiresAt, want)
	}
	r = parse[Reservation](t, s.must(held("ann"), extend("ann", time.Second)))
	if want := s.now.Add(time.Minute); !r.ExpiresAt.Equal(want) {
		t.Fatalf("until %v, want %v: an extension makes nothing shorter", r.ExpiresAt, want)
	}
	r = parse[Reservation](t, s.must(held("ann"), extend("ann", MaxTTL)))
	if want := created.Add(MaxTTL); !r.ExpiresAt.Equal(want) {
		t.Fatalf("until %v, want %v", r.ExpiresAt, want)
	}
	s.now = r.ExpiresAt
	if _, err := s.step(held("ann"), extend("ann", time.Minute)); !errors.Is(err, ErrState) {
		t.Fatalf("error %v, want ErrState: it has expired", err)
	}
	if _, err := s.step(held("ann"), release("ann")); !errors.Is(err, ErrState) {
		t.Fatalf("error %v, want ErrState: it has expired", err)
	}
}

func TestExpireIsForWhatIsOver(t *testing.T) {
	s := newStory(t)
	lines := []Line{{"a", 3}}
	s.must(cart("ann", lines...), reserve("r", "ann", lines, time.Minute))
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
	s.must(cart("ann", two...), reserve("r", "ann", two, time.Minute))
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
	if _, err := s.step(About{SKUs: []service.SKU{"b"}}, set("b", 0, service.Condition{NoneMatch: []string{"*"}})); err == nil {
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
