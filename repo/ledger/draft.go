package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A draft is what a batch of steps has read, and what the steps have made of it so far: each sees what those before it
// have changed. It is written as a whole, by the store that has read it.
type draft struct {
	now          time.Time              // by the server's clock
	stock        map[service.SKU]*shelf // all that the batch may touch
	creates      bool                   // SKUs that do not exist can be written
	keys         map[string]*known      // idempotency keys by id
	orders       map[string]*order.Order
	reservations map[string]*order.Reservation
	taken        map[customerOf]int64
	stored       map[string]bool // ids of the orders and reservations that were there when they were read

	// What is to be written.
	moved     map[service.SKU]bool
	movements []order.Movement // adoptions included, in order for each SKU
	given     map[customerOf]int64
	kept      map[string]order.Key // keys that are new, by id
	ordered   idSet                // orders that are new or changed
	reserved  idSet
}

// A customerOf is a customer of a SKU.
type customerOf struct {
	sku      service.SKU
	customer string
}

// An idSet has ids in the order in which they were added.
type idSet []string

func (s *idSet) add(id string) {
	if !slices.Contains(*s, id) {
		*s = append(*s, id)
	}
}

func newDraft() *draft {
	return &draft{
		stock: map[service.SKU]*shelf{}, keys: map[string]*known{}, orders: map[string]*order.Order{},
		reservations: map[string]*order.Reservation{}, taken: map[customerOf]int64{},
		stored: map[string]bool{}, moved: map[service.SKU]bool{}, given: map[customerOf]int64{},
		kept: map[string]order.Key{},
	}
}

// errElsewhere reports that a step is about SKUs that its batch has not read.
var errElsewhere = errors.New("it is about other SKUs, too")

// all makes the steps, one after the other.
func (d *draft) all(steps []order.Request) []order.StepResult {
	outcomes := make([]order.StepResult, len(steps))
	for i, step := range steps {
		outcomes[i] = d.step(step)
	}
	return outcomes
}

// step makes one step. If it is refused nothing has changed.
func (d *draft) step(r order.Request) (out order.StepResult) {
	about := r.About
	if k := d.keys[about.Key.ID]; k != nil && about.Key.ID != "" {
		out.Reply, out.Replayed, out.Err = k.replay(about.Key)
		return out
	}
	stock, state, err := d.state(about)
	if err != nil {
		return order.StepResult{Err: err}
	}
	c, err := r.Decide(state)
	if err != nil || empty(c) {
		return order.StepResult{Err: err}
	}
	movements, err := post(stock, d.now, c)
	if err != nil {
		return order.StepResult{Err: err}
	}
	d.keep(about, stock, movements, c)
	return order.StepResult{Reply: c.Reply}
}

// state is what a step reads, and copies of the stock that it may change.
func (d *draft) state(about order.About) (stock map[service.SKU]*shelf, s order.State, err error) {
	s = order.State{Now: d.now}
	if o := d.orders[about.Order]; o != nil && about.Order != "" {
		one := *o
		s.Order = &one
	}
	if r := d.reservations[about.Reservation]; r != nil && about.Reservation != "" {
		one := *r
		s.Reservation = &one
	}
	skus := reach(about, s.Order, s.Reservation)
	for _, sku := range skus {
		switch at := d.stock[sku]; {
		case at == nil:
			return nil, s, errElsewhere
		case !at.there && !(about.Create && d.creates):
			return nil, s, repo.UnknownSKU(sku)
		}
	}
	stock = make(map[service.SKU]*shelf, len(skus))
	s.Stock = make(map[service.SKU]order.Level, len(skus))
	for _, sku := range skus {
		at := *d.stock[sku]
		if err := at.refuse(about.Fences[sku]); err != nil {
			return nil, s, err
		}
		stock[sku] = &at
		level := at.Level
		if about.Customer != "" {
			level.Taken = d.taken[customerOf{sku, about.Customer}]
		}
		s.Stock[sku] = level
	}
	return stock, s, nil
}

// post makes the movements of c on the stock, and returns them as they are written. It refuses what would break the
// books: that is a fault of the rules, and nothing a client could mend.
func post(stock map[service.SKU]*shelf, now time.Time, c order.Changes) (all []order.Movement, err error) {
	for _, m := range c.Movements {
		at := stock[m.SKU]
		if at == nil {
			return nil, fmt.Errorf("movement of %q, which the step is not about", m.SKU)
		}
		if at.adopt {
			at.adopt = false
			all = append(all, order.Movement{
				SKU: m.SKU, Number: 1, Kind: order.Receive, Received: at.Available, Available: at.Available, At: now,
			})
		}
		m.At = now
		if err := at.move(m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// keep makes what a step has changed a part of the draft.
func (d *draft) keep(about order.About, stock map[service.SKU]*shelf, movements []order.Movement, c order.Changes) {
	for _, m := range movements {
		if m.Customer != "" {
			at, units := customerOf{m.SKU, m.Customer}, m.Reserved+m.Sold
			d.taken[at] += units
			d.given[at] += units
		}
		at := stock[m.SKU]
		if d.stock[m.SKU] != at {
			at.stock.Version++
			at.stock.Guard, at.stock.Fence = order.Guard, max(at.stock.Fence, about.Fences[m.SKU])
			at.there = true
			d.stock[m.SKU] = at
		}
		d.moved[m.SKU] = true
	}
	d.movements = append(d.movements, movements...)
	if o := c.Order; o != nil {
		d.orders[o.ID] = o
		d.ordered.add(o.ID)
	}
	if r := c.Reservation; r != nil {
		d.reservations[r.ID] = r
		d.reserved.add(r.ID)
	}
	if about.Key.ID != "" && c.Reply != nil {
		d.keys[about.Key.ID] = &known{about.Key.Fingerprint, c.Reply}
		d.kept[about.Key.ID] = about.Key
	}
}

// unchanged reports whether there is nothing to write.
func (d *draft) unchanged() bool {
	return len(d.movements)+len(d.ordered)+len(d.reserved)+len(d.kept) == 0
}

// movedSKUs are sorted, as everything that is written: two batches that write the same rows then wait for each other,
// and do not deadlock.
func (d *draft) movedSKUs() []service.SKU { return slices.Sorted(maps.Keys(d.moved)) }

// givenUnits are the changes of what customers have, none of them 0.
func (d *draft) givenUnits() (all []customerUnits) {
	for of, units := range d.given {
		if units != 0 {
			all = append(all, customerUnits{of, units})
		}
	}
	slices.SortFunc(all, func(a, b customerUnits) int { return compareCustomers(a.customerOf, b.customerOf) })
	return all
}

// A customerUnits is a change of what a customer has of a SKU, reserved and sold.
type customerUnits struct {
	customerOf
	units int64
}

func compareCustomers(a, b customerOf) int {
	return cmp.Or(cmp.Compare(a.sku, b.sku), cmp.Compare(a.customer, b.customer))
}

func (d *draft) keptKeys() []string { return slices.Sorted(maps.Keys(d.kept)) }

// A scope is all that a batch of steps reads, each once and sorted.
type scope struct {
	skus                       []service.SKU
	keys, orders, reservations []string
	customers                  []customerOf
}

func scopeOf(steps []order.Request) (s scope) {
	for _, step := range steps {
		about := step.About
		s.skus = append(s.skus, about.SKUs...)
		s.keys = append(s.keys, about.Key.ID)
		s.orders = append(s.orders, about.Order)
		s.reservations = append(s.reservations, about.Reservation)
		if about.Customer != "" {
			for _, sku := range about.SKUs {
				s.customers = append(s.customers, customerOf{sku, about.Customer})
			}
		}
	}
	slices.Sort(s.skus)
	s.skus = slices.Compact(s.skus)
	for _, list := range []*[]string{&s.keys, &s.orders, &s.reservations} {
		slices.Sort(*list)
		*list = slices.DeleteFunc(slices.Compact(*list), func(id string) bool { return id == "" })
	}
	slices.SortFunc(s.customers, compareCustomers)
	s.customers = slices.Compact(s.customers)
	return s
}
