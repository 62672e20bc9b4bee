package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A memory is a Store in this process, whose clock is the test's.
type memory struct {
	mu sync.Mutex
	*world
	keys  map[string]kept
	fail  error // of the next step, after it was written
	about []About
}

type kept struct {
	fingerprint string
	reply       []byte
	at          time.Time
}

func newMemory(skus ...service.SKU) *memory {
	return &memory{world: newWorld(skus...), keys: map[string]kept{}}
}

func (m *memory) Step(_ context.Context, about About, decide func(State) (Changes, error)) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.about = append(m.about, about)
	if k, ok := m.keys[about.Key.ID]; ok && about.Key.ID != "" {
		if k.fingerprint != about.Key.Fingerprint {
			return nil, false, ErrKeyReused
		}
		return k.reply, true, nil
	}
	for _, sku := range about.SKUs {
		if _, ok := m.levels[sku]; !ok && !about.Create {
			return nil, false, service.ErrUnknownSKU
		}
	}
	m.now = time.Now().UTC().Truncate(time.Microsecond)
	reply, err := m.step(about, decide)
	if err != nil {
		return nil, false, err
	}
	if about.Key.ID != "" {
		m.keys[about.Key.ID] = kept{about.Key.Fingerprint, reply, m.now}
	}
	if err, m.fail = m.fail, nil; err != nil {
		return nil, false, err
	}
	return reply, false, nil
}

func (m *memory) Order(_ context.Context, id string) (Order, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.orders[id]
	if !ok {
		return Order{}, ErrNotFound
	}
	return o, nil
}

func (m *memory) Orders(context.Context, string, string, int) ([]Order, string, error) {
	return nil, "", nil
}

func (m *memory) Reservation(_ context.Context, id string) (Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.reservations[id]
	if !ok {
		return Reservation{}, ErrNotFound
	}
	return r, nil
}

func (m *memory) Level(_ context.Context, sku service.SKU) (Level, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.levels[sku]
	if !ok {
		return Level{}, service.ErrUnknownSKU
	}
	return l, nil
}

func (m *memory) Movements(context.Context, service.SKU, uint64, int) ([]Movement, error) {
	return nil, nil
}

func (m *memory) SetPolicy(_ context.Context, sku service.SKU, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits[sku] = n
	return nil
}

func (m *memory) Due(_ context.Context, limit int) (ids []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.reservations {
		if r.State == Held && !time.Now().Before(r.ExpiresAt) && len(ids) < limit {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (m *memory) Forget(_ context.Context, before time.Time, limit int) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, k := range m.keys {
		if k.at.Before(before) && n < limit {
			delete(m.keys, id)
			n++
		}
	}
	return n, nil
}

// up is a server that is always up.
type up struct{}

func (up) Err() error { return nil }
func (up) While(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func open(m *memory) *Service {
	return New(Config{Store: m, Needs: up{}, Work: time.Second, KeepKey: 24 * time.Hour})
}

func stocked(t *testing.T) (*memory, *Service) {
	t.Helper()
	m := newMemory()
	s := open(m)
	for _, sku := range []service.SKU{"a", "b"} {
		if _, _, err := s.Set(t.Context(), "", sku, 10, service.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := m.check(); err != nil {
			t.Error(err)
		}
	})
	return m, s
}

func TestSameKeySameReply(t *testing.T) {
	m, s := stocked(t)
	lines := []Line{{"b", 1}, {"a", 2}, {"a", 1}}
	first, replayed, err := s.Place(t.Context(), "k", "ann", lines)
	if err != nil || replayed {
		t.Fatal(first, replayed, err)
	}
	if want := []Line{{"a", 3}, {"b", 1}}; !slices.Equal(first.Lines, want) {
		t.Fatalf("lines %v, want %v", first.Lines, want)
	}
	// The lines mean the same in another order.
	again, replayed, err := s.Place(t.Context(), "k", "ann", []Line{{"a", 3}, {"b", 1}})
	if err != nil || !replayed || again.ID != first.ID {
		t.Fatalf("%+v, %v, %v, want %s again", again, replayed, err, first.ID)
	}
	if _, _, err := s.Place(t.Context(), "k", "ann", []Line{{"a", 2}}); !errors.Is(err, ErrKeyReused) {
		t.Fatalf("another cart with the key: %v", err)
	}
	other, replayed, err := s.Place(t.Context(), "k", "bob", lines)
	if err != nil || replayed || other.ID == first.ID {
		t.Fatalf("another customer with the key: %+v, %v, %v", other, replayed, err)
	}
	r, _, err := s.Reserve(t.Context(), "k", "ann", lines, time.Minute) // another path
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Reserve(t.Context(), "k", "ann", lines, time.Hour); !errors.Is(err, ErrKeyReused) {
		t.Fatalf("another ttl with the key: %v", err)
	}
	if _, _, err := s.Confirm(t.Context(), "k", "bob", r.ID); !errors.Is(err, ErrNotFound) {
		t.Fatalf("another's reservation: %v", err)
	}
	if len(m.orders) != 2 {
		t.Fatalf("%d orders, want 2", len(m.orders))
	}
}

// A refusal is not kept: the key may ask again, and a restock turns no into yes.
func TestARefusalIsNotKept(t *testing.T) {
	_, s := stocked(t)
	lines := []Line{{"a", 11}}
	if _, _, err := s.Place(t.Context(), "k", "ann", lines); !errors.Is(err, ErrShort) {
		t.Fatal(err)
	}
	if _, _, err := s.Adjust(t.Context(), "", "a", 1, "", service.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, replayed, err := s.Place(t.Context(), "k", "ann", lines); err != nil || replayed {
		t.Fatal(replayed, err)
	}
}

func TestUnknownOutcomeSaysWhetherToAskAgain(t *testing.T) {
	m, s := stocked(t)
	m.fail = service.ErrOutcomeUnknown
	_, _, err := s.Place(t.Context(), "k", "ann", []Line{{"a", 1}})
	unknown, ok := errors.AsType[*UnknownError](err)
	if !ok || !unknown.Again || !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Fatalf("%v", err)
	}
	o, replayed, err := s.Place(t.Context(), "k", "ann", []Line{{"a", 1}})
	if err != nil || !replayed || o.ID != unknown.ID || len(m.orders) != 1 {
		t.Fatalf("%+v, %v, %v: want the order %s", o, replayed, err, unknown.ID)
	}
	m.fail = service.ErrOutcomeUnknown
	_, _, err = s.Place(t.Context(), "", "ann", []Line{{"a", 1}})
	if unknown, ok := errors.AsType[*UnknownError](err); !ok || unknown.Again {
		t.Fatalf("without a key: %v", err)
	}
	m.fail = service.ErrOutcomeUnknown
	_, _, err = s.CancelOrder(t.Context(), "", "ann", o.ID)
	if unknown, ok := errors.AsType[*UnknownError](err); !ok || !unknown.Again {
		t.Fatalf("a cancellation: %v", err)
	}
}

func TestStoreIsNotAskedForWhatIsNoID(t *testing.T) {
	m, s := stocked(t)
	before := len(m.about)
	for _, id := range []string{"", "x", strings.Repeat("a", 1000), "0190B5E2-7F3A-7C1D-8E4F-001122334455"} {
		_, _, err1 := s.Confirm(t.Context(), "", "ann", id)
		_, _, err2 := s.CancelOrder(t.Context(), "", "ann", id)
		_, err3 := s.Order(t.Context(), "ann", id)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if len(m.about) != before {
		t.Error("the store was asked")
	}
}

func TestCartsAreBounded(t *testing.T) {
	_, s := stocked(t)
	many := make([]Line, MaxLines+1)
	for i := range many {
		many[i] = Line{"a", 1}
	}
	for name, lines := range map[string][]Line{
		"none": {}, "too many": many, "zero": {{"a", 0}}, "negative": {{"a", -1}}, "large": {{"a", MaxQuantity + 1}},
		"large together": {{"a", MaxQuantity}, {"a", 1}},
	} {
		_, _, err := s.Place(t.Context(), "", "ann", lines)
		if _, ok := errors.AsType[*service.InvalidError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Place(t.Context(), "", "ann", many[1:]); !errors.Is(err, ErrShort) {
		t.Errorf("%d lines: %v, want sold out", MaxLines, err)
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", `"abc"`: "abc", `"a\"b\\c"`: `a"b\c`, `a"b`: `a"b`, strings.Repeat("k", MaxKey): strings.Repeat("k", MaxKey),
	} {
		if got, err := ParseKey(in); err != nil || got != want {
			t.Errorf("ParseKey(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", `""`, `"a`, `"a"b`, `"a\x"`, `"a\`, "a b", "a\x7f", "é", strings.Repeat("k", MaxKey+1), "\n",
	} {
		if got, err := ParseKey(in); err == nil {
			t.Errorf("ParseKey(%q) = %q", in, got)
		}
	}
	for _, in := range []string{"", "1", "999ms", "24h1ms", "-5s", "x", "NaNs"} {
		if d, err := ParseTTL(in); err == nil {
			t.Errorf("ParseTTL(%q) = %v", in, d)
		}
	}
	for in, want := range map[string]time.Duration{"1s": time.Second, "24h": MaxTTL, "1.5s": 1500 * time.Millisecond} {
		if d, err := ParseTTL(in); err != nil || d != want {
			t.Errorf("ParseTTL(%q) = %v, %v", in, d, err)
		}
	}
	for _, in := range []string{"", "a b", "..", strings.Repeat("x", MaxCustomer+1), "ü"} {
		_, err := ParseCustomer(in)
		if invalid, ok := errors.AsType[*service.InvalidError](err); !ok || invalid.Field != "customer" {
			t.Errorf("ParseCustomer(%q): %v", in, err)
		}
	}
	for _, in := range []string{"a\nb", "\xff", strings.Repeat("x", MaxReason+1)} {
		if _, err := ParseReason(in); err == nil {
			t.Errorf("ParseReason(%q) is good", in)
		}
	}
}

// Units whose time is over are for sale within a second, once, however many instances sweep; and the sweepers stop.
func TestSweepersGiveBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := stocked(t)
		ctx, stop := context.WithCancel(t.Context())
		var sweepers sync.WaitGroup
		for range 3 {
			sweepers.Go(func() { open(m).Sweep(ctx) })
		}
		var ids []string
		for i := range 8 {
			r, _, err := s.Reserve(ctx, "", "ann", []Line{{"a", 1}}, time.Duration(1+i%2)*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		time.Sleep(time.Minute + time.Second)
		if l, _ := s.Level(ctx, "a"); l.Available != 6 || l.Reserved != 4 {
			t.Errorf("after a minute: %+v", l)
		}
		if _, _, err := s.Confirm(ctx, "", "ann", ids[1]); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if l, _ := s.Level(ctx, "a"); l.Available != 9 || l.Reserved != 0 || l.Sold != 1 {
			t.Errorf("after two minutes: %+v", l)
		}
		stop()
		sweepers.Wait()
	})
}

// A reservation that cannot be ended does not keep the others.
func TestSweeperGoesOnPastABadReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(m)
		for _, sku := range []service.SKU{"a", "b"} {
			if _, _, err := s.Set(t.Context(), "", sku, 10, service.Condition{}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Reserve(t.Context(), "", "ann", []Line{{sku, 1}}, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		bad := m.levels["a"]
		bad.Reserved, bad.Available = 0, 10
		m.levels["a"] = bad
		time.Sleep(2 * time.Second)
		if _, err := s.sweep(t.Context()); !errors.Is(err, ErrUnbalanced) {
			t.Errorf("error %v, want ErrUnbalanced", err)
		}
		if l, _ := s.Level(t.Context(), "b"); l.Available != 10 {
			t.Errorf("b: %+v", l)
		}
	})
}

func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := stocked(t)
		ctx, stop := context.WithCancel(t.Context())
		var sweeper sync.WaitGroup
		sweeper.Go(func() { s.Sweep(ctx) })
		if _, _, err := s.Place(ctx, "k", "ann", []Line{{"a", 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		if _, replayed, err := s.Place(ctx, "k", "ann", []Line{{"a", 1}}); err != nil || !replayed {
			t.Errorf("after 23 h: %v, %v", replayed, err)
		}
		time.Sleep(time.Hour + 2*forgetEvery)
		m.mu.Lock()
		if len(m.keys) != 0 {
			t.Errorf("after 24 h there are %d keys", len(m.keys))
		}
		m.mu.Unlock()
		stop()
		sweeper.Wait()
	})
}

// ring counts who holds what, for the Service alone; locks of the real servers are tried in lock.
type ring struct {
	lock.Queue
	mu    sync.Mutex
	fence lock.Fence
}

func (r *ring) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := r.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence++
	lease, _ := lock.NewLease(key, r.fence, func(context.Context) error {
		r.Leave(key)
		return nil
	})
	return lease, nil
}

func TestUnderLocksTheFencesGoWithTheStep(t *testing.T) {
	m, s := stocked(t)
	l := &ring{}
	s.Lock, s.Wait = l, time.Second
	r, _, err := s.Reserve(t.Context(), "", "ann", []Line{{"b", 1}, {"a", 1}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Confirm(t.Context(), "", "ann", r.ID); err != nil {
		t.Fatal(err)
	}
	last := m.about[len(m.about)-2:]
	for i, want := range []map[service.SKU]uint64{{"a": 1, "b": 2}, {"a": 3, "b": 4}} {
		if got := fmt.Sprint(last[i].Fences); got != fmt.Sprint(want) {
			t.Errorf("fences %v, want %v", got, want)
		}
	}
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}, {"ghost", 1}}); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("err = %v, want ErrUnknownSKU", err)
	}
	if l.fence != 4 {
		t.Errorf("a SKU that does not exist was locked")
	}
	if err := l.Enter(t.Context(), "a", lock.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Wait = 0
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("err = %v, want ErrHeld", err)
	}
	l.Leave("a")
}

func TestAuditFindsWhatDoesNotBalance(t *testing.T) {
	at := func(n uint64, r, a, v, s int64) Movement {
		return Movement{SKU: "a", Number: n, Received: r, Available: a, Reserved: v, Sold: s}
	}
	good := []Movement{at(1, 10, 10, 0, 0), at(2, 0, -2, 2, 0), at(3, 0, 0, -2, 2)}
	counters := Level{Received: 10, Available: 8, Sold: 2, Number: 3}
	if a := Audit("a", counters, slices.Values(good)); len(a.Problems) != 0 {
		t.Fatal(a.Problems)
	}
	for name, bad := range map[string]struct {
		counters  Level
		movements []Movement
	}{
		"a gap":        {counters, []Movement{good[0], good[2]}},
		"one missing":  {counters, good[:2]},
		"twice":        {counters, []Movement{good[0], good[1], good[1], good[2]}},
		"the law":      {counters, []Movement{good[0], at(2, 0, -2, 0, 0), at(3, 0, 0, 0, 2)}},
		"below zero":   {counters, []Movement{at(1, 10, 10, 0, 0), at(2, 0, 2, -2, 0), at(3, 0, -4, 2, 2)}},
		"the counters": {Level{Received: 10, Available: 9, Sold: 1, Number: 3}, good},
		"the number":   {Level{Received: 10, Available: 8, Sold: 2, Number: 4}, good},
		"another SKU":  {counters, []Movement{good[0], {SKU: "b", Number: 2, Available: -2, Reserved: 2}, good[2]}},
	} {
		if a := Audit("a", bad.counters, slices.Values(bad.movements)); len(a.Problems) == 0 {
			t.Errorf("%s: no problem", name)
		}
	}
}
