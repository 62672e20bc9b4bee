package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A lagging ledger has levels and times of movements, and fails at a method.
type lagging struct {
	*ledger
	levels map[service.SKU]uint64
	at     map[service.SKU]time.Time
	now    time.Time
	fails  string
}

var errAsk = errors.New("no reply")

func (l *lagging) fail(at string) error {
	if l.fails == at {
		return errAsk
	}
	return nil
}

func (l *lagging) Level(_ context.Context, sku service.SKU) (order.Level, error) {
	return order.Level{Number: l.levels[sku]}, l.fail("level")
}

func (l *lagging) Movements(_ context.Context, sku service.SKU, _ uint64, _ int) ([]order.Movement, error) {
	if l.at[sku].IsZero() {
		return nil, l.fail("movements")
	}
	return []order.Movement{{SKU: sku, At: l.at[sku]}}, l.fail("movements")
}

func (l *lagging) Now(context.Context) (time.Time, error) { return l.now, l.fail("now") }

// The lag counts the movements that are not delivered, and is as old as the oldest of them.
func TestWhatIsMeasured(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	one := map[service.SKU][]uint64{"a": {9}, "b": {9}, "c": {9}}
	for _, row := range []struct {
		name string
		l    lagging
		want Lag
	}{
		{"nothing", lagging{ledger: &ledger{}, now: noon}, Lag{Parked: 3}},
		{"three SKUs, the oldest in the middle", lagging{
			ledger: &ledger{movements: one, delivered: map[service.SKU]uint64{"a": 4, "b": 8}},
			levels: map[service.SKU]uint64{"a": 9, "b": 9, "c": 2},
			at:     map[service.SKU]time.Time{"a": noon.Add(-2), "b": noon.Add(-3), "c": noon.Add(-1)}, now: noon,
		}, Lag{Undelivered: 8, Oldest: 3, Parked: 3}},
		{"delivered meanwhile", lagging{
			ledger: &ledger{movements: one, delivered: map[service.SKU]uint64{"a": 4, "b": 9, "c": 9}},
			levels: map[service.SKU]uint64{"a": 3}, now: noon,
		}, Lag{Parked: 3}},
		{"the clock went back", lagging{
			ledger: &ledger{movements: one, delivered: map[service.SKU]uint64{"b": 9, "c": 9}},
			levels: map[service.SKU]uint64{"a": 1}, at: map[service.SKU]time.Time{"a": noon.Add(1)}, now: noon,
		}, Lag{Undelivered: 1, Parked: 3}},
	} {
		var got []Lag
		work, stop := row.l.term(t, func(c *Config) {
			c.Outbox, c.Book, c.Observer.Lag = &row.l, &row.l, func(l Lag) { got = append(got, l) }
		})
		err := work.measure(3)
		stop()
		if err != nil || len(got) != 1 || got[0] != row.want {
			t.Errorf("%s: %+v, want %+v; %v", row.name, got, row.want, err)
		}
	}
}

// After lagSKUs the lag is not measured any further.
func TestTheLagIsOfABoundedNumberOfSKUs(t *testing.T) {
	l := &lagging{ledger: &ledger{movements: map[service.SKU][]uint64{}}, levels: map[service.SKU]uint64{}}
	for i := range 5 * pageSize {
		sku := service.SKU(fmt.Sprintf("%04d", i))
		l.movements[sku], l.levels[sku] = []uint64{1}, 1
	}
	var got Lag
	work, stop := l.term(t, func(c *Config) { c.Outbox, c.Book, c.Observer.Lag = l, l, func(l Lag) { got = l } })
	defer stop()
	if err := work.measure(0); err != nil || got.Undelivered != 4*pageSize {
		t.Errorf("%d, want the first pages with %d SKUs: %v", got.Undelivered, lagSKUs, err)
	}
}

// A measurement that fails says so, whichever question has no answer, and tells no lag.
func TestALagThatIsNotMeasured(t *testing.T) {
	for _, at := range []string{"behind", "level", "movements", "now"} {
		l := &lagging{
			ledger: &ledger{movements: map[service.SKU][]uint64{"a": {1}}}, fails: at,
			at: map[service.SKU]time.Time{"a": time.Unix(1, 0)},
		}
		if at == "behind" {
			l.broken = func(int) error { return errAsk }
		}
		work, stop := l.term(t, func(c *Config) {
			c.Outbox, c.Book, c.Observer.Lag = l, l, func(Lag) { t.Errorf("%s: a lag was told", at) }
		})
		if err := work.measure(0); !errors.Is(err, errAsk) || !strings.Contains(err.Error(), "measure the outbox") {
			t.Errorf("%s: %v", at, err)
		}
		stop()
	}
}

// A doorkeeper is the relay's lock: it fails a number of times, and then grants the fence.
type doorkeeper struct {
	fails int
	fence lock.Fence
	asked []time.Time
}

func (d *doorkeeper) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	d.asked = append(d.asked, time.Now())
	if len(d.asked) <= d.fails {
		return nil, lock.NewDown("redis", "down")
	}
	lease, _ := lock.NewLease(key, d.fence, func(context.Context) error { return nil })
	return lease, nil
}

// A relay that gets no lock says so once, asks again after a pause, and says when it works again.
func TestARelayThatGetsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		active := ""
		l, door := &ledger{}, &doorkeeper{fails: 3, fence: 7}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r := New(Config{
			Outbox: l, Book: l, Dead: l, Sink: l, Lock: door, Key: "relay", Term: time.Second,
			Log: slog.New(slog.NewTextHandler(&said, nil)),
			Observer: Observer{Active: func(is bool) {
				if active += fmt.Sprint(is, " "); strings.Count(active, "false") == 3 {
					stop()
				}
			}},
		})
		r.Run(ctx)
		if active != "true false true false true false " {
			t.Errorf("active: %s", active)
		}
		for i := range 3 {
			if pause := door.asked[i+1].Sub(door.asked[i]); pause < againAfter/2 || pause >= 3*againAfter/2 {
				t.Errorf("pause %d is %v", i+1, pause)
			}
		}
		if pause := door.asked[4].Sub(door.asked[3]); pause != time.Second {
			t.Errorf("after a term it asks again after %v", pause)
		}
		if text := said.String(); strings.Count(text, "delivers no events") != 1 ||
			strings.Count(text, "delivers events again") != 1 {
			t.Errorf("said:\n%s", text)
		}
	})
}

// A lock without a fence cannot protect what is recorded, so nothing is delivered under it.
func TestARelayNeedsAFence(t *testing.T) {
	l := &ledger{movements: map[service.SKU][]uint64{"a": {1}}}
	r := New(Config{Outbox: l, Book: l, Dead: l, Sink: l, Lock: &doorkeeper{}, Key: "relay"})
	if err := r.hold(t.Context()); err == nil || l.looks != 0 {
		t.Errorf("error %v, and the outbox was read %d times", err, l.looks)
	}
}
