package order

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/golden"
	"example.com/stock/service"
)

var update = flag.Bool("update", false, "rewrite testdata/rules.txt")

// ruling writes what a rule makes of a state, in a line.
type ruling struct {
	strings.Builder
	now time.Time
}

func (t *ruling) add(request, of string, s State, r rule) {
	s.Now = t.now
	fmt.Fprintf(t, "%-18s %-62s ", request, of)
	c, err := r(s)
	if err != nil {
		fmt.Fprintf(t, "%v\n", err)
		return
	}
	parts := make([]string, 0, 4)
	for _, m := range c.Movements {
		parts = append(parts, fmt.Sprintf("%d %s %+d/%+d/%+d/%+d %s %s%s", m.Number, m.Kind, m.Received, m.Available,
			m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason))
	}
	if o := c.Order; o != nil {
		parts = append(parts, fmt.Sprintf("order %s of %s: %s late=%t from %s, canceled %s", o.ID, o.Customer, o.State,
			o.Late, o.Reservation, t.at(o.CanceledAt)))
	}
	if r := c.Reservation; r != nil {
		parts = append(parts, fmt.Sprintf("reservation %s of %s: %s until %s, extended %s, ended %s, order %s", r.ID,
			r.Customer, r.State, t.at(&r.ExpiresAt), t.at(r.ExtendedAt), t.at(r.EndedAt), r.Order))
	}
	switch v := c.value.(type) {
	case Order:
		parts = append(parts, "replies order "+v.ID+" "+v.State)
	case Reservation:
		parts = append(parts, "replies reservation "+v.ID+" "+v.State+" until "+t.at(&v.ExpiresAt))
	case Entry:
		parts = append(parts, fmt.Sprintf("replies %+v", v.Counts))
	}
	if len(parts) == 0 {
		parts = append(parts, "changes nothing")
	}
	fmt.Fprintln(t, strings.Join(parts, "; "))
}

// at is a time as seen from now.
func (t *ruling) at(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.Sub(t.now).String()
}

// The rules decide of these states what they decided when the file was kept. It is also their table, to be read: a
// movement has its number, its kind, and what it adds to received, available, reserved and sold.
func TestTableOfRules(t *testing.T) {
	table := &ruling{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	now := table.now
	level := func(available, most, taken int64) Level {
		return Level{
			Received: available + 5, Available: available, Reserved: 2, Sold: 3, Number: 7,
			PerCustomer: most, Taken: taken,
		}
	}
	stock := func(l Level) map[service.SKU]Level { return map[service.SKU]Level{"a": l} }
	two := []Line{{"a", 2}}
	limits := Limits{Open: 2, Units: 6, Share: 50, ExtendEvery: time.Second}

	for _, l := range []Level{
		level(0, 0, 0), level(1, 0, 0), level(2, 0, 0), level(3, 0, 0), level(9, 3, 0), level(9, 3, 1), level(9, 3, 2),
		level(9, 3, 4),
	} {
		of := fmt.Sprintf("available %d, limit %d, taken %d", l.Available, l.PerCustomer, l.Taken)
		table.add("place 2", of, State{Stock: stock(l)}, place("o", "ann", two))
		table.add("reserve 2", of, State{Stock: stock(l)}, reserve("r", "ann", two, time.Minute, Limits{}))
	}
	for _, h := range []Holding{{}, {1, 4}, {1, 5}, {1, 7}, {2, 2}, {3, 2}} {
		of := fmt.Sprintf("available 9, %d open with %d units", h.Open, h.Units)
		table.add("reserve 2", of, State{Stock: stock(level(9, 0, 0)), Holding: h},
			reserve("r", "ann", two, time.Minute, limits))
	}
	for available := int64(5); available <= 7; available++ {
		table.add("reserve 2", fmt.Sprintf("available %d, of a share of 50 percent", available),
			State{Stock: stock(level(available, 0, 0))}, reserve("r", "ann", two, time.Minute, limits))
	}
	table.add("reserve 1", "available 1, reserved 0, of a share of 1 percent",
		State{Stock: stock(Level{Received: 1, Available: 1, Number: 1})},
		reserve("r", "ann", []Line{{"a", 1}}, time.Minute, Limits{Share: 1}))

	for _, r := range []struct {
		of, state string
		left      time.Duration
		customer  string
	}{
		{"another's", Held, time.Second, "bob"},
		{"held, 1 s left", Held, time.Second, "ann"},
		{"held, it ends now", Held, 0, "ann"},
		{"held, it ended 1 s ago", Held, -time.Second, "ann"},
		{"expired", Expired, -time.Minute, "ann"},
		{"confirmed in time", Confirmed, time.Second, "ann"},
		{"confirmed late", Confirmed, -time.Minute, "ann"},
		{"released", Released, time.Second, "ann"},
	} {
		state := func(l Level, extended *time.Time) State {
			s := State{Stock: stock(l), Reservation: &Reservation{
				ID: "r", Customer: r.customer, Lines: two, State: r.state, CreatedAt: now.Add(-time.Minute),
				ExpiresAt: now.Add(r.left), ExtendedAt: extended,
			}}
			if r.state == Confirmed {
				s.Reservation.Order = "o"
			}
			if r.state != Held {
				s.Reservation.EndedAt = new(now.Add(-time.Second))
			}
			return s
		}
		for _, l := range []Level{level(9, 0, 0), level(1, 0, 0), level(0, 0, 0), level(9, 3, 2), level(9, 3, 3)} {
			of := fmt.Sprintf("%s; available %d, limit %d, taken %d", r.of, l.Available, l.PerCustomer, l.Taken)
			table.add("confirm", of, state(l, nil), confirm("o", "ann"))
		}
		table.add("release", r.of, state(level(9, 0, 0), nil), release("ann"))
		table.add("expire", r.of, state(level(9, 0, 0), nil), expire)
		for _, ttl := range []time.Duration{time.Millisecond, time.Second, time.Hour, MaxTTL} {
			table.add("extend "+ttl.String(), r.of, state(level(9, 0, 0), nil), extend("ann", ttl, limits))
		}
		for _, ago := range []time.Duration{999 * time.Millisecond, time.Second} {
			table.add("extend 1h", r.of+", extended "+ago.String()+" ago",
				state(level(9, 0, 0), new(now.Add(-ago))), extend("ann", time.Hour, limits))
		}
	}
	table.add("confirm", "none", State{}, confirm("o", "ann"))
	table.add("expire", "none", State{}, expire)

	table.add("cancel", "none", State{}, cancelOrder("ann"))
	for _, o := range []Order{
		{ID: "o", Customer: "bob", State: Placed},
		{ID: "o", Customer: "ann", State: Placed},
		{ID: "o", Customer: "ann", State: Canceled, CanceledAt: new(now.Add(-time.Second))},
	} {
		o.Lines = two
		s := State{Stock: stock(level(1, 0, 0)), Order: &o}
		table.add("cancel", o.Customer+"'s, "+o.State, s, cancelOrder("ann"))
	}

	never := service.Condition{Match: []string{}}
	for _, delta := range []int64{
		1, 0, -9, -10, service.MaxStock - 9, service.MaxStock - 8, math.MinInt64 / 2,
	} {
		table.add(fmt.Sprintf("adjust %+d", delta), "available 9", State{Stock: stock(level(9, 0, 0))},
			adjust("a", delta, "b", service.Condition{}))
	}
	table.add("adjust +1", "available 9, another tag", State{Stock: stock(level(9, 0, 0))}, adjust("a", 1, "b", never))
	for _, quantity := range []int64{0, 9, 10, service.MaxStock, service.MaxStock + 1} {
		table.add(fmt.Sprintf("set %d", quantity), "available 9", State{Stock: stock(level(9, 0, 0))},
			set("a", quantity, service.Condition{}))
	}
	table.add("set 10", "available 9, another tag", State{Stock: stock(level(9, 0, 0))}, set("a", 10, never))
	table.add("set 10", "new", State{Stock: stock(Level{})}, set("a", 10, service.Condition{}))
	broken := Level{Received: 5, Available: 5, Number: 7} // the books are wrong: nothing is sold
	table.add("cancel", "books that do not balance", State{
		Stock: stock(broken), Order: &Order{ID: "o", Customer: "ann", State: Placed, Lines: two},
	}, cancelOrder("ann"))
	golden.Compare(t, filepath.Join("testdata", "rules.txt"), table.String(), *update)
}
