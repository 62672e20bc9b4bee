package ledger_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// An archived is a ledger of a test's own: parts are numbered for a whole store.
type archived struct {
	desk
	orders.Archivable
}

func eachArchive(t *testing.T, test func(t *testing.T, d archived)) {
	t.Parallel()
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		d := deskOn(t, repo.NewMySQL(openMySQL(t, database(t))))
		test(t, archived{d, d.ledger.(orders.Archivable)})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		d := deskOn(t, repo.NewRedis(dialRedis(t, stacktest.Redis(t).Addr)))
		test(t, archived{d, d.ledger.(orders.Archivable)})
	})
}

// balances fails the test unless the movements that are left add up to the stock.
func (d archived) balances(t *testing.T, sku service.SKU) {
	t.Helper()
	l, err := d.Level(short(t), sku)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range orders.Audit(sku, l, slices.Values(journal(t, d.desk, sku))).Problems {
		t.Errorf("%s: %v", sku, p)
	}
}

// carry makes the Carry of the movements of a SKU up to a number.
func carry(t *testing.T, d archived, sku service.SKU, to uint64) orders.Carry {
	t.Helper()
	c := orders.Carry{First: 1}
	for _, m := range journal(t, d.desk, sku) {
		if m.Kind == orders.Carried {
			c.First = m.Number + 1
		}
		if m.Number <= to {
			c.Movement = c.Movement.Carry(m)
		}
	}
	return c
}

func part(number uint64, previous string) orders.Part {
	return orders.Part{
		Number: number, Digest: "digest " + string(rune('0'+number)), Previous: previous,
		Before: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func (d archived) takes(t *testing.T, want error, taking orders.Taking) {
	t.Helper()
	if err := d.TakeAway(short(t), taking); !errors.Is(err, want) {
		t.Errorf("part %d: %v, want %v", taking.Part.Number, err, want)
	}
}

// What is taken away is as it was read, is gone in one step with the record of its part, and nothing else is.
func TestTakeAway(t *testing.T) {
	eachArchive(t, func(t *testing.T, d archived) {
		a, b := stocked(t, d.desk, "a", 10), stocked(t, d.desk, "b", 10)
		one, two := ordered(t, d.desk, "ann", line(a, 1)), ordered(t, d.desk, "ann", line(a, 2), line(b, 1))
		gone := held(t, d.desk, "ann", time.Minute, line(a, 1))
		step(t, d.desk, orders.About{Reservation: gone}, end(orders.Released, ""))
		open := held(t, d.desk, "ann", time.Minute, line(a, 1))
		if last, now, err := d.Archived(short(t)); last != (orders.Part{}) || err != nil ||
			time.Since(now).Abs() > time.Minute {
			t.Errorf("%+v, %v, %v", last, now, err)
		}
		positions, next, err := d.Positions(short(t), "", 100)
		slices.SortFunc(positions, func(x, y orders.Position) int { return int(x.SKU[0]) - int(y.SKU[0]) })
		if err != nil || next != "" || len(positions) != 2 || positions[0].SKU != a || positions[1].SKU != b {
			t.Errorf("%v, %q, %+v", err, next, positions)
		}
		old := func(before time.Time) (all orders.Old) {
			t.Helper()
			for cursor := ""; ; {
				page, next, err := d.Old(short(t), before, cursor, 1)
				if err != nil {
					t.Fatal(err)
				}
				all.Orders = append(all.Orders, page.Orders...)
				all.Reservations = append(all.Reservations, page.Reservations...)
				if cursor = next; cursor == "" {
					return all
				}
			}
		}
		if all := old(time.Now().Add(-time.Hour)); all.Orders != nil || all.Reservations != nil {
			t.Errorf("old: %+v", all)
		}
		all := old(time.Now().Add(time.Minute))
		if len(all.Orders) != 2 || len(all.Reservations) != 1 || all.Reservations[0].ID != gone {
			t.Fatalf("old: %+v", all)
		}
		slices.SortFunc(all.Orders, func(x, y orders.Order) int { return x.CreatedAt.Compare(y.CreatedAt) })

		first := orders.Taking{Part: part(1, ""), Carries: []orders.Carry{carry(t, d, a, 2), carry(t, d, b, 1)}}
		for name, wrong := range map[string]orders.Part{"2": part(2, ""), "chain": part(1, "x")} {
			other := first
			other.Part = wrong
			if d.takes(t, orders.ErrTaken, other); t.Failed() {
				t.Fatal(name)
			}
		}
		other := first
		other.Carries = []orders.Carry{carry(t, d, a, 2)}
		other.Carries[0].First = 2
		d.takes(t, orders.ErrMoved, other)
		d.takes(t, nil, first)
		d.takes(t, nil, first) // it was
		last, _, err := d.Archived(short(t))
		if last != first.Part || err != nil {
			t.Errorf("%+v, %v", last, err)
		}
		got := journal(t, d.desk, a)
		if got[0].Kind != orders.Carried || got[0].Number != 2 || got[0].Available != 9 || got[0].Sold != 1 ||
			got[0].Received != 10 || len(got) != 6-1 {
			t.Errorf("%+v", got)
		}
		d.balances(t, b)

		changed := orders.Taking{Part: part(2, first.Part.Digest), Old: all}
		changed.Orders = slices.Clone(all.Orders)
		changed.Orders[1].Customer = "bob"
		d.takes(t, orders.ErrMoved, changed)
		changed.Old = orders.Old{Reservations: slices.Clone(all.Reservations)}
		changed.Reservations[0].State = orders.Expired
		d.takes(t, orders.ErrMoved, changed)
		second := orders.Taking{Part: part(2, first.Part.Digest), Old: all, Carries: []orders.Carry{carry(t, d, a, 6)}}
		d.takes(t, nil, second)
		for _, id := range []string{one, two} {
			if _, err := d.Order(short(t), id); !errors.Is(err, orders.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if page, _, err := d.Orders(short(t), "ann", "", 10); err != nil || len(page) != 0 {
			t.Errorf("%v, %+v", err, page)
		}
		if there, err := d.Present(short(t), []string{one, gone, open, newID()}); err != nil ||
			!slices.Equal(there, []string{open}) {
			t.Errorf("present: %v, %v", there, err)
		}

		// The whole of "a" is carried, and goes on.
		if got = journal(t, d.desk, a); len(got) != 1 || got[0].Number != 6 || got[0].Reserved != 1 {
			t.Errorf("%+v", got)
		}
		step(t, d.desk, orders.About{Reservation: open}, end(orders.Confirmed, newID()))
		ordered(t, d.desk, "ann", line(a, 1), line(b, 1))
		if got = journal(t, d.desk, a); len(got) != 3 || got[2].Number != 8 {
			t.Errorf("%+v", got)
		}
		for _, sku := range []service.SKU{a, b} {
			d.balances(t, sku)
		}
		third := orders.Taking{Part: part(3, second.Part.Digest), Carries: []orders.Carry{carry(t, d, a, 8)}}
		third.Carries[0].First = 8
		d.takes(t, orders.ErrMoved, third)
		third.Carries[0].First = 7
		d.takes(t, nil, third)
		if after, err := d.Movements(short(t), a, 8, 10); err != nil || len(after) != 0 {
			t.Errorf("%v, %+v", err, after)
		}
		d.balances(t, a)
	})
}

// A part that another client takes away while TakeAway is under way is away: it is not said to have changed, because
// the caller would remove the only copy of it.
func TestTakenAwayMeanwhile(t *testing.T) {
	t.Parallel()
	addr := repotest.MiniAddr(t)
	client := dialRedis(t, addr)
	other := deskOn(t, repo.NewRedis(dialRedis(t, addr)))
	d := deskOn(t, repo.NewRedis(client))
	a := stocked(t, d, "a", 10)
	ordered(t, d, "ann", line(a, 1))
	one, two := archived{d, d.ledger.(orders.Archivable)}, archived{other, other.ledger.(orders.Archivable)}
	first := orders.Taking{Part: part(1, ""), Carries: []orders.Carry{carry(t, one, a, 1)}}
	second := orders.Taking{Part: part(2, "digest 1"), Carries: []orders.Carry{carry(t, one, a, 2)}}
	meanwhile := func(do func()) {
		client.AddHook(beforeScript{once: new(sync.Once), do: do})
	}
	meanwhile(func() { two.takes(t, nil, first) })
	one.takes(t, nil, first)
	second.Carries[0].First = 2
	meanwhile(func() {
		other := second
		other.Part.Digest = "of another archiver"
		two.takes(t, nil, other)
	})
	one.takes(t, orders.ErrTaken, second)
}

// A beforeScript calls do before the first script that writes.
type beforeScript struct {
	once *sync.Once
	do   func()
}

func (b beforeScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b beforeScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b beforeScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "evalsha" || name == "eval" {
			b.once.Do(b.do)
		}
		return next(ctx, cmd)
	}
}
