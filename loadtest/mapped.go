package loadtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
)

// A Mapped is a client of somebody else's inventory API, as a Mapping describes it. Close it to give its connections back.
//
// It makes up what such an API does not tell. Versions are how many units are gone: as long as nobody adds stock, sales that exclude
// each other all read different quantities, so that two which read the same are as good a proof as two that read the same version.
type Mapped struct {
	*Mapping
	wire *Client

	mu   sync.Mutex
	skus map[string]*past // by SKU
}

// A past is what was before the run, of one SKU.
type past struct {
	initial int64
	orders  map[string]bool // ids of orders that were there already
}

// NewMapped makes a client of the service at address that m describes, for so many requests at a time. token is what {{token}} stands for.
// The error is a PlanError.
func NewMapped(address, token string, concurrency int, m *Mapping) (*Mapped, error) {
	wire, err := NewClient(address, token, concurrency)
	if err != nil {
		return nil, err
	}
	return &Mapped{Mapping: m, wire: wire, skus: make(map[string]*past)}, nil
}

// URL is the address of the service.
func (m *Mapped) URL() string { return m.wire.URL() }

// Close closes the idle connections.
func (m *Mapped) Close() { m.wire.Close() }

// warm asks for /livez, whatever this service says to that: it is the connections that count.
func (m *Mapped) warm(ctx context.Context, n int) { m.wire.warm(ctx, n) }

// Strategies is the one way that a mapping describes. It is taken at its word: not to lose stock is what an inventory API is for.
func (m *Mapped) Strategies(context.Context) ([]Strategy, error) {
	return []Strategy{{
		Name: m.name, Endpoint: m.deduct.path.String(), Summary: "somebody else's API, by a mapping file",
		Available: true, Promise: Promise{Scope: Cluster},
	}}, nil
}

// SetStock puts quantity units of sku in stock, and reads them back. Without a way to set it, there must be so many already.
func (m *Mapped) SetStock(ctx context.Context, _, sku string, quantity int64) (Stock, error) {
	v := m.values(sku)
	v[varQuantity] = strconv.FormatInt(quantity, 10)
	if m.set != nil {
		if _, err := m.ask(ctx, m.set, v); err != nil {
			return Stock{}, err
		}
	}
	before := &past{initial: quantity, orders: make(map[string]bool)}
	m.mu.Lock()
	m.skus[sku] = before
	m.mu.Unlock()
	now, err := m.readBack(ctx, sku, quantity)
	switch {
	case err != nil:
		return Stock{}, err
	case now.Quantity != quantity && m.set == nil:
		return Stock{}, m.wire.fail("has %d units of %s, not %d: set the stock first, since the mapping does not say how (set)", now.Quantity, sku, quantity)
	case now.Quantity != quantity:
		return Stock{}, m.wire.fail("was asked for a stock of %d units of %s, and then said that there are %d: does somebody else sell it, or is read.quantity wrong?",
			quantity, sku, now.Quantity)
	}
	orders, err := m.list(ctx, sku)
	if err != nil {
		return Stock{}, err
	}
	for i := range orders {
		before.orders[orders[i].OrderID] = true
	}
	return now, nil
}

// readBack reads the stock that was set, again for lateLimit while it is another: the API may read from a cache or a replica.
func (m *Mapped) readBack(ctx context.Context, sku string, quantity int64) (now Stock, err error) {
	lookAgain(ctx, func() bool {
		now, err = m.Stock(ctx, "", sku)
		return err == nil && now.Quantity != quantity && m.set != nil
	})
	return now, err
}

// Stock is what is there now. Version is how many units are gone since SetStock.
func (m *Mapped) Stock(ctx context.Context, _, sku string) (Stock, error) {
	got, err := m.ask(ctx, &m.read.question, m.values(sku))
	if err != nil {
		return Stock{}, err
	}
	n, err := m.read.quantity.whole(got.doc)
	if err != nil {
		return Stock{}, m.strange(got, fmt.Errorf("%w (read.quantity)", err))
	}
	s := Stock{SKU: sku, Quantity: n, Initial: n, Mapped: true, Unlisted: m.orders == nil}
	if before := m.past(sku); before != nil {
		s.Initial = before.initial
		s.Version = uint64(max(before.initial-n, 0))
	}
	return s, nil
}

// Orders are those that were not there yet when the stock was set.
func (m *Mapped) Orders(ctx context.Context, _, sku string) ([]Order, error) {
	all, err := m.list(ctx, sku)
	before := m.past(sku)
	if err != nil || before == nil {
		return all, err
	}
	orders := all[:0]
	for i := range all {
		if !before.orders[all[i].OrderID] {
			orders = append(orders, all[i])
		}
	}
	return orders, nil
}

func (m *Mapped) past(sku string) *past {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skus[sku]
}

func (m *Mapped) values(sku string) values { return values{varSKU: sku, varToken: m.wire.token} }

// list reads page after page, for lookLimit in all: an API may name a new page for ever.
func (m *Mapped) list(ctx context.Context, sku string) ([]Order, error) {
	if m.orders == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookLimit, fmt.Errorf("the list of orders had no end within %v", lookLimit))
	defer cancel()
	orders := []Order{}
	v := m.values(sku)
	seen := map[string]bool{"": true}
	for {
		got, err := m.ask(ctx, &m.orders.question, v)
		if err != nil {
			return nil, err
		}
		at, ok := m.orders.list.of(got.doc)
		page, isList := at.([]any)
		if !ok || !isList && at != nil { // null is Go's empty list
			return nil, m.strange(got, fmt.Errorf("has no list at %s (orders.list)", m.orders.list.text))
		}
		for _, entry := range page {
			o, err := m.order(sku, entry)
			if err != nil {
				return nil, m.strange(got, fmt.Errorf("has an order that %w", err))
			}
			orders = append(orders, o)
		}
		if m.orders.next.empty() {
			return orders, nil
		}
		next, _ := m.orders.next.scalar(got.doc) // absent or null: that was the last
		switch {
		case next == "":
			return orders, nil
		case seen[next]:
			return nil, m.wire.fail("answers %s %s with a cursor that it gave before: after %d pages the list goes round in a circle (orders.next)",
				m.orders.method, m.orders.path, len(seen))
		}
		seen[next] = true
		v[varCursor] = next
	}
}

func (m *Mapped) order(sku string, entry any) (Order, error) {
	o := Order{SKU: sku}
	var ok bool
	if o.OrderID, ok = m.orders.orderID.scalar(entry); !ok || o.OrderID == "" {
		return o, fmt.Errorf("has nothing at %s (orders.order_id)", m.orders.orderID.text)
	}
	var err error
	if o.Quantity, err = m.orders.quantity.whole(entry); err == nil && o.Quantity < 1 {
		err = fmt.Errorf("has %d at %s", o.Quantity, m.orders.quantity.text)
	}
	if err != nil {
		return o, fmt.Errorf("%w (orders.quantity)", err)
	}
	if !m.orders.requestID.empty() {
		o.RequestID, _ = m.orders.requestID.scalar(entry) // those of others may have none
	}
	saw, err := m.orders.saw(entry, o.Quantity, m.past(sku))
	o.Read, o.Remaining, o.Version, o.Blind = saw.Read, saw.Remaining, saw.Version, saw.Blind
	return o, err
}
