package repair_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/repair"
)

func file(t testing.TB, p repair.Plan) *bytes.Reader {
	t.Helper()
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

// open fills a SKU: 100 received, of which 3 are reserved in two reservations, and 7 sold in three orders.
func (s *shop) open(t *testing.T, sku service.SKU) (reservations, orders []string) {
	t.Helper()
	ctx := t.Context()
	must[order.Entry](t)(s.Set(ctx, "", sku, 100, service.Condition{}))
	for n := range int64(2) {
		r := must[order.Reservation](t)(s.Reserve(ctx, "", "ann", line(sku, n+1), time.Hour))
		reservations = append(reservations, r.ID)
	}
	for n := range int64(2) {
		orders = append(orders, must[order.Order](t)(s.Place(ctx, "", "bob", line(sku, n+1))).ID)
	}
	third := must[order.Reservation](t)(s.Reserve(ctx, "", "ann", line(sku, 4), time.Hour)).ID
	orders = append(orders, must[order.Order](t)(s.Confirm(ctx, "", "ann", third)).ID)
	gone := must[order.Order](t)(s.Place(ctx, "", "bob", line(sku, 5))).ID
	must[order.Order](t)(s.CancelOrder(ctx, "", "bob", gone))
	return reservations, orders
}

// load sells all of skus in every way until stop is called.
func (s *shop) load(t *testing.T, skus ...service.SKU) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() {
			name := fmt.Sprint("c", i)
			for ctx.Err() == nil {
				for _, sku := range skus {
					r, _, err := s.Reserve(ctx, "", name, line(sku, 1), time.Hour)
					if err == nil && i%2 == 0 {
						o, _, err := s.Confirm(ctx, "", name, r.ID)
						if err == nil && i == 2 {
							_, _, _ = s.CancelOrder(ctx, "", name, o.ID)
						}
					} else if err == nil {
						_, _, _ = s.CancelReservation(ctx, "", name, r.ID)
					}
					if o, _, err := s.Place(ctx, "", name, line(sku, 1)); err == nil {
						_, _, _ = s.CancelOrder(ctx, "", name, o.ID)
					}
				}
			}
		})
	}
	return func() { cancel(); clients.Wait() }
}

// clean fails the test unless the books of all SKUs balance.
func (s *shop) clean(t *testing.T, skus ...service.SKU) {
	t.Helper()
	for _, sku := range skus {
		l, err := s.store.Level(t.Context(), sku)
		if err != nil {
			t.Fatal(err)
		}
		movements, err := s.store.Movements(t.Context(), sku, 0, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		if a := order.Audit(sku, l, slices.Values(movements)); len(a.Problems) > 0 || l.Check() != nil {
			t.Errorf("%s: %v, %v", sku, a.Problems, l)
		}
	}
	if p := s.plan(t, skus...); len(p.SKUs) > 0 {
		t.Errorf("still: %+v", p.SKUs)
	}
}

// Each way in which a hand can damage the books, while other customers buy, and what mends it.
var damages = []struct {
	name   string
	do     func(t *testing.T, s *shop, sku service.SKU, reservations, orders []string)
	choice string   // that the plan makes
	offers []string // if a person must choose
	take   string   // what the person chooses
	want   repair.Amounts
}{
	{
		name: "negative reserved", choice: repair.Movements,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do:   func(t *testing.T, s *shop, sku service.SKU, _, _ []string) { s.add(t, sku, "reserved", -9) },
	},
	{
		name: "negative available", choice: repair.Movements,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do:   func(t *testing.T, s *shop, sku service.SKU, _, _ []string) { s.add(t, sku, "quantity", -200) },
	},
	{
		name: "received and available", offers: []string{repair.Counters, repair.Movements}, take: repair.Counters,
		want: repair.Amounts{Received: 105, Available: 95, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			s.add(t, sku, "adjusted", 5)
			s.add(t, sku, "quantity", 5)
		},
	},
	{
		name: "received and available, the movements", offers: []string{repair.Counters, repair.Movements},
		take: repair.Movements, want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			s.add(t, sku, "adjusted", 5)
			s.add(t, sku, "quantity", 5)
		},
	},
	{
		name: "sold as reserved", choice: repair.Movements,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			s.add(t, sku, "sold", -2)
			s.add(t, sku, "reserved", 2)
		},
	},
	{
		name: "reserved without a reservation", choice: repair.Both,
		want: repair.Amounts{Received: 100, Available: 92, Reserved: 1, Sold: 7},
		do: func(t *testing.T, s *shop, _ service.SKU, reservations, _ []string) {
			s.forget(t, "reservations", reservations[1])
		},
	},
	{
		name: "a reservation whose units are missing", choice: repair.Movements,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			s.add(t, sku, "reserved", -2)
			s.add(t, sku, "quantity", 2)
		},
	},
	{
		name: "a movement in the middle is missing", choice: repair.Counters,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do:   func(t *testing.T, s *shop, sku service.SKU, _, _ []string) { s.lose(t, sku, 4) },
	},
	{
		name: "the last movement is missing", choice: repair.Counters,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			l, err := s.store.Level(t.Context(), sku)
			if err != nil {
				t.Fatal(err)
			}
			s.lose(t, sku, l.Number)
		},
	},
	{
		name: "a delivery is missing in the movements", choice: repair.Counters,
		want: repair.Amounts{Received: 105, Available: 94, Reserved: 3, Sold: 8},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			e := must[order.Entry](t)(s.Adjust(t.Context(), "", sku, 5, "delivery", service.Condition{}))
			must[order.Order](t)(s.Place(t.Context(), "", "bob", line(sku, 1)))
			s.lose(t, sku, e.Number)
		},
	},
	{
		name: "a delivery is missing at the end of the movements", choice: repair.Counters,
		want: repair.Amounts{Received: 105, Available: 95, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			e := must[order.Entry](t)(s.Adjust(t.Context(), "", sku, 5, "delivery", service.Condition{}))
			s.lose(t, sku, e.Number)
		},
	},
	{
		name: "a delivery is missing in the counters", choice: repair.Movements,
		want: repair.Amounts{Received: 105, Available: 95, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) {
			must[order.Entry](t)(s.Adjust(t.Context(), "", sku, 5, "delivery", service.Condition{}))
			s.add(t, sku, "number", -1)
			s.add(t, sku, "adjusted", -5)
			s.add(t, sku, "quantity", -5)
		},
	},
	{
		name: "the counters were set back", choice: repair.Movements,
		want: repair.Amounts{Received: 100, Available: 90, Reserved: 3, Sold: 7},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) { // before the last order and its return
			s.add(t, sku, "number", -2)
			s.add(t, sku, "reserved", 4)
			s.add(t, sku, "sold", -4)
		},
	},
	{
		name:   "sold that no order explains, in the shop",
		offers: []string{repair.Both + repair.Back, repair.Both + repair.Gone},
		take:   repair.Both + repair.Back, want: repair.Amounts{Received: 100, Available: 92, Reserved: 3, Sold: 5},
		do: func(t *testing.T, s *shop, _ service.SKU, _, orders []string) {
			s.forget(t, "customer_orders", orders[1])
		},
	},
	{
		name:   "sold that no order explains, gone",
		offers: []string{repair.Both + repair.Back, repair.Both + repair.Gone},
		take:   repair.Both + repair.Gone, want: repair.Amounts{Received: 96, Available: 90, Reserved: 3, Sold: 3},
		do: func(t *testing.T, s *shop, _ service.SKU, _, orders []string) {
			s.forget(t, "customer_orders", orders[2])
		},
	},
	{
		name: "customers have more than was received", offers: []string{repair.Both + repair.Found},
		take: repair.Both + repair.Found, want: repair.Amounts{Received: 210, Reserved: 3, Sold: 207},
		do: func(t *testing.T, s *shop, sku service.SKU, _, _ []string) { s.conjure(t, sku, 200) },
	},
	{
		name: "an order that the books do not know", choice: repair.Both,
		want: repair.Amounts{Received: 100, Available: 85, Reserved: 3, Sold: 12},
		do:   func(t *testing.T, s *shop, sku service.SKU, _, _ []string) { s.conjure(t, sku, 5) },
	},
}

func TestEachDamageIsMended(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		const other = service.SKU("other")
		s.open(t, other)
		stop := s.load(t, other)
		defer func() { stop(); s.clean(t, other) }()
		for i, damage := range damages {
			t.Run(damage.name, func(t *testing.T) {
				sku := service.SKU(fmt.Sprint("book-", i))
				reservations, orders := s.open(t, sku)
				s.clean(t, sku)
				damage.do(t, s, sku, reservations, orders)
				p := s.plan(t, sku)
				if len(p.SKUs) != 1 {
					t.Fatalf("the damage is not in the plan: %+v", p)
				}
				m := p.SKUs[0]
				var offers []string
				for _, o := range m.Options {
					offers = append(offers, o.Believe)
				}
				if m.Choice != damage.choice || damage.offers != nil && !slices.Equal(offers, damage.offers) {
					t.Fatalf("choice %q of %q, want %q of %q: %+v", m.Choice, offers, damage.choice, damage.offers, m)
				}
				var chosen map[service.SKU]string
				if damage.take != "" {
					if got := s.apply(t, p, nil); got[sku] != repair.Open {
						t.Errorf("without a choice: %v", got)
					}
					chosen = map[service.SKU]string{sku: damage.take}
				}
				if got := s.apply(t, p, chosen); got[sku] != repair.Applied {
					t.Fatalf("apply: %v", got)
				}
				number := s.is(t, sku, damage.want)
				s.clean(t, sku)
				if got := s.apply(t, p, chosen); got[sku] != repair.Already {
					t.Errorf("the second time: %v", got)
				}
				if again := s.is(t, sku, damage.want); again != number {
					t.Errorf("the second time has written: movement %d after %d", again, number)
				}
				last, err := s.store.Movements(t.Context(), sku, number-1, 10)
				if err != nil || len(last) != 1 || last[0].Ref != p.ID || last[0].Kind != order.Adjust ||
					last[0].At.IsZero() {
					t.Errorf("the adjustment: %+v, %v", last, err)
				}
				if damage.want.Available > 0 {
					must[order.Order](t)(s.Place(t.Context(), "", "eve", line(sku, 1)))
				}
				for _, id := range reservations { // those that are there can be ended
					_, _, err := s.CancelReservation(t.Context(), "", "ann", id)
					if err != nil && !errors.Is(err, order.ErrNotFound) {
						t.Errorf("cancel: %v", err)
					}
				}
				s.clean(t, sku)
			})
		}
	})
}

// is checks the counters, and returns the number of the last movement.
func (s *shop) is(t *testing.T, sku service.SKU, want repair.Amounts) uint64 {
	t.Helper()
	l, err := s.store.Level(t.Context(), sku)
	got := repair.Amounts{Received: l.Received, Available: l.Available, Reserved: l.Reserved, Sold: l.Sold}
	if err != nil || got != want {
		t.Errorf("counters %+v, %v, want %+v", got, err, want)
	}
	return l.Number
}

// Books are read as of one movement: what customers do meanwhile is no damage, and a damage is exactly what it is.
func TestAPlanUnderLoad(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		const whole, lost = service.SKU("whole"), service.SKU("lost")
		s.open(t, whole)
		reservations, _ := s.open(t, lost)
		stop := s.load(t, whole, lost)
		defer stop()
		for range 10 {
			if p := s.plan(t); len(p.SKUs) != 0 {
				t.Fatalf("nothing is wrong: %+v", p.SKUs)
			}
		}
		s.forget(t, "reservations", reservations[1]) // of two units
		for range 10 {
			p := s.plan(t)
			if len(p.SKUs) != 1 || p.SKUs[0].Counters.Reserved-p.SKUs[0].Held != 2 ||
				p.SKUs[0].Counters.Sold != *p.SKUs[0].Ordered || p.SKUs[0].Counters != p.SKUs[0].Movements {
				t.Fatalf("two units are reserved for nobody: %+v", p.SKUs)
			}
		}
		stop()
		if got := s.apply(t, s.plan(t), nil); got[lost] != repair.Applied {
			t.Errorf("%v", got)
		}
		s.clean(t, whole, lost)
	})
}

// What happens between the plan and its application makes the plan refused, not the books wrong.
func TestBooksThatMoved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		for name, between := range map[string]func(t *testing.T, sku service.SKU){
			"an-order": func(t *testing.T, sku service.SKU) {
				must[order.Order](t)(s.Place(t.Context(), "", "eve", line(sku, 1)))
			},
			"by-hand": func(t *testing.T, sku service.SKU) { s.add(t, sku, "quantity", 1) },
			"the-last-movement": func(t *testing.T, sku service.SKU) {
				l, err := s.store.Level(t.Context(), sku)
				if err != nil {
					t.Fatal(err)
				}
				s.lose(t, sku, l.Number)
			},
		} {
			sku := service.SKU(name)
			reservations, _ := s.open(t, sku)
			s.forget(t, "reservations", reservations[0])
			p := s.plan(t, sku)
			between(t, sku)
			before, err := s.store.Level(t.Context(), sku)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.apply(t, p, nil); got[sku] != repair.Moved {
				t.Errorf("%s: %v", name, got)
			}
			if after, err := s.store.Level(t.Context(), sku); err != nil || after != before {
				t.Errorf("%s: %+v, %v, was %+v", name, after, err, before)
			}
		}
	})
}

// Of many who apply a plan at once, one writes.
func TestApplyAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		const sku = service.SKU("book")
		reservations, _ := s.open(t, sku)
		s.forget(t, "reservations", reservations[0])
		p := s.plan(t, sku)
		var all sync.WaitGroup
		var mu sync.Mutex
		states := map[string]int{}
		for range 8 {
			all.Go(func() {
				err := repair.Apply(t.Context(), s.store, here, p, nil, func(r repair.Result) {
					mu.Lock()
					defer mu.Unlock()
					states[r.State]++
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if states[repair.Applied] != 1 || states[repair.Already] != 7 {
			t.Errorf("%v", states)
		}
		s.clean(t, sku)
	})
}

// Two damages at once, and one that no movement can mend.
func TestHopelessBooks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		const sku = service.SKU("book")
		s.open(t, sku)
		if s.redis != nil {
			key := "stock:{book}:movements"
			last := s.redis.XRevRangeN(t.Context(), key, "+", "-", 1).Val()[0]
			s.redis.XDel(t.Context(), key, last.ID)
			s.redis.XAdd(t.Context(), &redis.XAddArgs{Stream: key, ID: "1000-0", Values: []string{
				"m", `{"sku":"book","number":1000,"kind":"sell","received":0,"available":-1,"reserved":0,"sold":2}`,
			}})
		} else {
			s.byHand(t, "UPDATE movements SET sold = sold + 1 WHERE sku = 'book' AND number = 4")
		}
		p := s.plan(t)
		if len(p.SKUs) != 1 || len(p.SKUs[0].Options) != 0 || !slices.Contains(p.SKUs[0].Damage, order.Law) {
			t.Fatalf("%+v", p)
		}
		if got := s.apply(t, p, nil); got[sku] != repair.Hopeless {
			t.Errorf("%v", got)
		}
	})
}

func TestApplyRefusesWhatDoesNotFit(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		const sku = service.SKU("book")
		reservations, _ := s.open(t, sku)
		s.forget(t, "reservations", reservations[0])
		p := s.plan(t)
		never := func(r repair.Result) { t.Errorf("%+v", r) }
		for name, place := range map[string]repair.Place{
			"another store": {Name: "there", Origin: "1"}, "other data": {Name: "here", Origin: "2"},
		} {
			var is *repair.PlanError
			err := repair.Apply(t.Context(), s.store, place, p, nil, never)
			if !errors.As(err, &is) || is.Code != repair.OtherStore {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, chosen := range []map[service.SKU]string{{sku: "shelf"}, {"ghost": repair.Counters}} {
			var is *repair.ChoiceError
			if err := repair.Apply(t.Context(), s.store, here, p, chosen, never); !errors.As(err, &is) {
				t.Errorf("%v: %v", chosen, err)
			}
		}
		_, err := repair.Make(t.Context(), s.store, here, []service.SKU{"ghost"})
		if !errors.Is(err, service.ErrUnknownSKU) {
			t.Errorf("an unknown SKU: %v", err)
		}
	})
}

// After an archiver, orders do not tell any more what was sold, and the books still balance.
func TestArchivedOrdersAreNotCompared(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		const sku = service.SKU("book")
		s.open(t, sku)
		if err := s.store.TakeAway(t.Context(), order.Taking{Part: order.Part{Number: 1, Digest: "1"}}); err != nil {
			t.Fatal(err)
		}
		s.clean(t, sku)
		s.add(t, sku, "reserved", -5)
		p := s.plan(t)
		if len(p.SKUs) != 1 || p.SKUs[0].Ordered != nil || p.SKUs[0].Choice != repair.Movements {
			t.Errorf("%+v", p)
		}
		s.apply(t, p, nil)
		s.clean(t, sku)
	})
}
