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

// A pendingWrite has the data that a batch of steps has read, and the changes of its steps so far. Each step sees the
// changes of the steps before it. The store writes all changes together.
type pendingWrite struct {
	now          time.Time                   // by the server's clock
	stock        map[service.SKU]*stockLevel // all SKUs that the batch may read or change
	creates      bool                        // the store can write SKUs that do not exist
	keys         map[string]*known           // idempotency keys by id
	orders       map[string]*order.Order
	reservations map[string]*order.Reservation
	taken        map[customerOf]int64
	holdings     map[string]order.Holding // by customer; right only for the holders of the scope
	stored       map[string]bool          // ids of the orders and reservations that the store has

	// The fields below are the changes to be written.
	moved     map[service.SKU]bool
	movements []order.Movement // including adoptions; the movements of a SKU are in the order of their numbers
	given     map[customerOf]int64
	kept      map[string]order.Key // keys that are new, by id
	ordered   idSet                // orders that are new or changed
	reserved  idSet
}

// A customerOf is a SKU and one of its customers.
type customerOf struct {
	sku      service.SKU
	customer string
}

type idSet []string

func (s *idSet) add(id string) {
	if !slices.Contains(*s, id) {
		*s = append(*s, id)
	}
}

func newPendingWrite() *pendingWrite {
	return &pendingWrite{
		stock: map[service.SKU]*stockLevel{}, keys: map[string]*known{}, orders: map[string]*order.Order{},
		reservations: map[string]*order.Reservation{}, taken: map[customerOf]int64{},
		holdings: map[string]order.Holding{}, stored: map[string]bool{}, moved: map[service.SKU]bool{},
		given: map[customerOf]int64{}, kept: map[string]order.Key{},
	}
}

// errElsewhere reports that a step needs SKUs that its batch has not read.
var errElsewhere = errors.New("the step also needs other SKUs")

// all makes the steps, one after the other.
func (p *pendingWrite) all(steps []order.Request) []order.StepResult {
	outcomes := make([]order.StepResult, len(steps))
	for i, step := range steps {
		outcomes[i] = p.step(step)
	}
	return outcomes
}

// step makes one step. A refused step changes nothing.
func (p *pendingWrite) step(r order.Request) (out order.StepResult) {
	about := r.About
	if k := p.keys[about.Key.ID]; k != nil && about.Key.ID != "" {
		out.Reply, out.Replayed, out.Err = k.replay(about.Key)
		return out
	}
	stock, state, err := p.state(about)
	if err != nil {
		return order.StepResult{Err: err}
	}
	c, err := r.Decide(state)
	if err != nil || empty(c) {
		return order.StepResult{Err: err}
	}
	movements, err := post(stock, p.now, c)
	if err != nil {
		return order.StepResult{Err: err}
	}
	p.keep(about, stock, movements, c)
	return order.StepResult{Reply: c.Reply}
}

// state returns the State for a step, and copies of the stock that the step may change.
func (p *pendingWrite) state(about order.About) (stock map[service.SKU]*stockLevel, s order.State, err error) {
	s = order.State{Now: p.now}
	if about.Holder != "" {
		s.Holding = p.holdings[about.Holder]
	}
	if o := p.orders[about.Order]; o != nil && about.Order != "" {
		one := *o
		s.Order = &one
	}
	if r := p.reservations[about.Reservation]; r != nil && about.Reservation != "" {
		one := *r
		s.Reservation = &one
	}
	skus := skusOf(about, s.Order, s.Reservation)
	for _, sku := range skus {
		switch at := p.stock[sku]; {
		case at == nil:
			return nil, s, errElsewhere
		case !at.there && !(about.Create && p.creates):
			return nil, s, repo.UnknownSKU(sku)
		}
	}
	stock = make(map[service.SKU]*stockLevel, len(skus))
	s.Stock = make(map[service.SKU]order.Level, len(skus))
	for _, sku := range skus {
		at := *p.stock[sku]
		if err := at.refuse(about.Fences[sku]); err != nil {
			return nil, s, err
		}
		stock[sku] = &at
		level := at.Level
		if about.Customer != "" {
			level.Taken = p.taken[customerOf{sku, about.Customer}]
		}
		s.Stock[sku] = level
	}
	return stock, s, nil
}

// post applies the movements of c to the stock, and returns them in their final form. It fails if a movement does not
// follow the one before it or breaks the ledger's law. Such an error is a bug in the rules, not a client's mistake.
func post(stock map[service.SKU]*stockLevel, now time.Time, c order.Changes) (all []order.Movement, err error) {
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

// keep adds the changes of a step to p.
func (p *pendingWrite) keep(
	about order.About, stock map[service.SKU]*stockLevel, movements []order.Movement, c order.Changes,
) {
	for _, m := range movements {
		if m.Customer != "" {
			at, units := customerOf{m.SKU, m.Customer}, m.Reserved+m.Sold
			p.taken[at] += units
			p.given[at] += units
		}
		at := stock[m.SKU]
		if p.stock[m.SKU] != at {
			at.stock.Version++
			at.stock.Guard, at.stock.Fence = order.Guard, max(at.stock.Fence, about.Fences[m.SKU])
			at.there = true
			p.stock[m.SKU] = at
		}
		p.moved[m.SKU] = true
	}
	p.movements = append(p.movements, movements...)
	if o := c.Order; o != nil {
		p.orders[o.ID] = o
		p.ordered.add(o.ID)
	}
	if r := c.Reservation; r != nil {
		was, is := heldBy(p.reservations[r.ID]), heldBy(r)
		has := p.holdings[r.Customer]
		p.holdings[r.Customer] = order.Holding{
			Open: has.Open + is.Open - was.Open, Units: has.Units + is.Units - was.Units,
		}
		p.reservations[r.ID] = r
		p.reserved.add(r.ID)
	}
	if about.Key.ID != "" && c.Reply != nil {
		p.keys[about.Key.ID] = &known{about.Key.Fingerprint, c.Reply}
		p.kept[about.Key.ID] = about.Key
	}
}

// heldBy returns what r, which may be nil, adds to its customer's Holding.
func heldBy(r *order.Reservation) (h order.Holding) {
	if r != nil && r.State == order.Held {
		h = order.Holding{Open: 1, Units: order.Units(r.Lines)}
	}
	return h
}

func (p *pendingWrite) unchanged() bool {
	return len(p.movements)+len(p.ordered)+len(p.reserved)+len(p.kept) == 0
}

// movedSKUs returns the SKUs with movements. All writes are sorted, so that two batches that write the same rows wait
// for each other and do not deadlock.
func (p *pendingWrite) movedSKUs() []service.SKU { return slices.Sorted(maps.Keys(p.moved)) }

// givenUnits returns those changes of customers' units that are not 0.
func (p *pendingWrite) givenUnits() (all []customerUnits) {
	for of, units := range p.given {
		if units != 0 {
			all = append(all, customerUnits{of, units})
		}
	}
	slices.SortFunc(all, func(a, b customerUnits) int { return compareCustomers(a.customerOf, b.customerOf) })
	return all
}

// A customerUnits is a change of a customer's units of a SKU, reserved and sold together.
type customerUnits struct {
	customerOf
	units int64
}

func compareCustomers(a, b customerOf) int {
	return cmp.Or(cmp.Compare(a.sku, b.sku), cmp.Compare(a.customer, b.customer))
}

func (p *pendingWrite) keptKeys() []string { return slices.Sorted(maps.Keys(p.kept)) }

// A scope lists the records that a batch of steps reads. Its lists are sorted and without duplicates.
type scope struct {
	skus                       []service.SKU
	keys, orders, reservations []string
	customers                  []customerOf
	holders                    []string
}

func scopeOf(steps []order.Request) (s scope) {
	for _, step := range steps {
		about := step.About
		s.skus = append(s.skus, about.SKUs...)
		s.keys = append(s.keys, about.Key.ID)
		s.orders = append(s.orders, about.Order)
		s.reservations = append(s.reservations, about.Reservation)
		s.holders = append(s.holders, about.Holder)
		if about.Customer != "" {
			for _, sku := range about.SKUs {
				s.customers = append(s.customers, customerOf{sku, about.Customer})
			}
		}
	}
	slices.Sort(s.skus)
	s.skus = slices.Compact(s.skus)
	for _, list := range []*[]string{&s.keys, &s.orders, &s.reservations, &s.holders} {
		slices.Sort(*list)
		*list = slices.DeleteFunc(slices.Compact(*list), func(id string) bool { return id == "" })
	}
	slices.SortFunc(s.customers, compareCustomers)
	s.customers = slices.Compact(s.customers)
	return s
}
