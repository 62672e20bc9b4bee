package order

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

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
	looks int // of sweepers

	batches int
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

func (m *memory) Due(_ context.Context, skip, limit int) (due []Reservation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	for _, r := range m.reservations {
		if r.State == Held && !time.Now().Before(r.ExpiresAt) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b Reservation) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	due = due[min(skip, len(due)):]
	return due[:min(limit, len(due))], nil
}

func (m *memory) Batch(ctx context.Context, steps []Request) []StepResult {
	m.mu.Lock()
	m.batches++
	m.mu.Unlock()
	outcomes := make([]StepResult, len(steps))
	for i, step := range steps {
		outcomes[i].Reply, outcomes[i].Replayed, outcomes[i].Err = m.Step(ctx, step.About, step.Decide)
	}
	return outcomes
}

func (m *memory) Forget(_ context.Context, age time.Duration, limit int) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, k := range m.keys {
		if time.Since(k.at) > age && n < limit {
			delete(m.keys, id)
			n++
		}
	}
	return n, nil
}

// up is a server that is always up.
type up struct{}

func (up) Err() error          { return nil }
func (up) Up() context.Context { return context.Background() }

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

// data are those of a store. They are lost until a person has set stock.
type data struct {
	up
	lost    error
	renewed int
}

func (d *data) Err() error                 { return d.lost }
func (d *data) Look(context.Context) error { return d.lost }

func (d *data) Renew(context.Context) error {
	d.lost = nil
	d.renewed++
	return nil
}

// A store that has lost its data is opened by a person who sets stock, and not by a job that repeats itself.
func TestAReplayOpensNothing(t *testing.T) {
	m := newMemory()
	d := &data{}
	s := New(Config{Store: m, Needs: up{}, Data: d, Work: time.Second})
	set := func(key string, replays bool, want error) {
		t.Helper()
		entry, replayed, err := s.Set(t.Context(), key, "a", 10, service.Condition{})
		if !errors.Is(err, want) || err == nil && (replayed != replays || entry.Counts.Available != 10) {
			t.Errorf("%+v, replayed %v, %v; want %v, %v", entry, replayed, err, replays, want)
		}
	}
	set("nightly", false, nil)
	set("nightly", true, nil)
	if d.renewed != 1 {
		t.Errorf("%d renewals, want one for each stock that was set", d.renewed)
	}
	d.lost = &service.DataLostError{Store: "memory"}
	set("nightly", true, service.ErrDataLost)
	if _, _, err := s.Place(t.Context(), "", "bob", []Line{{"a", 10}}); !errors.Is(err, service.ErrDataLost) {
		t.Errorf("after a replay: %v, want nothing sold", err)
	}
	set("a person's", false, nil)
	set("nightly", true, nil)
	if _, _, err := s.Place(t.Context(), "", "bob", []Line{{"a", 10}}); err != nil {
		t.Errorf("after a person has set the stock: %v", err)
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
		_, _, err4 := s.CancelReservation(t.Context(), "", "ann", id)
		_, _, err5 := s.Extend(t.Context(), "", "ann", id, time.Minute)
		_, err6 := s.Reservation(t.Context(), "ann", id)
		for _, err := range []error{err1, err2, err3, err4, err5, err6} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if len(m.about) != before {
		t.Error("the store was asked")
	}
}
