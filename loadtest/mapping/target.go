package mapping

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// listLimit limits the time to read all orders: an API may name a new page for ever.
const listLimit = 30 * time.Second

// A Target is a client of a foreign inventory API that a File describes. Close it to release its connections.
//
// A Target derives what such an API does not report. The version is the number of units that are gone. As long as
// nobody adds stock, sales that exclude each other all read different quantities, so two sales that read the same
// quantity are as good a proof as two that read the same version.
type Target struct {
	*File
	client *loadtest.Client
	most   int // loadtest.MaxOrders, or fewer in tests
	veil   veil
	trial  *trial // nil: this is no trial

	mu   sync.Mutex
	skus map[string]*past // by SKU
}

// A past is the state of one SKU before the run.
type past struct {
	initial int64
	orders  map[string]bool // ids of earlier orders
	saved   values          // by the requests that set the stock
}

// NewTarget returns a client of the service at address that f describes, for that many concurrent requests. token is
// the value of {{token}}. The error is a loadtest.PlanError.
func NewTarget(address, token string, concurrency int, f *File) (*Target, error) {
	client, err := loadtest.NewClient(address, token, concurrency)
	if err != nil {
		return nil, err
	}
	t := &Target{File: f, client: client, most: loadtest.MaxOrders, skus: make(map[string]*past)}
	secrets := maps.Clone(f.secrets)
	if token != "" {
		secrets[token] = "{{token}}"
	}
	headers := slices.Clone(f.read.headers)
	for _, s := range slices.Concat(f.set, f.deduct) {
		headers = append(headers, s.headers...)
	}
	if f.orders != nil {
		headers = append(headers, f.orders.headers...)
	}
	t.veil = newVeil(secrets, headers, values{varToken: token})
	return t, nil
}

// errorf returns a TargetError without secrets.
func (t *Target) errorf(format string, args ...any) error {
	return t.veil.overError(t.client.Errorf(format, args...))
}

// URL returns the address of the service.
func (t *Target) URL() string { return t.client.URL() }

// Close closes the idle connections.
func (t *Target) Close() { t.client.Close() }

// Warm opens n connections by requests for /livez. The replies do not matter.
func (t *Target) Warm(ctx context.Context, n int) { t.client.Warm(ctx, n) }

// Strategies returns the one strategy that a mapping describes. Its promise covers the whole cluster, because no
// inventory API may lose stock.
func (t *Target) Strategies(context.Context) ([]loadtest.Strategy, error) {
	return []loadtest.Strategy{{
		Name: t.name, Endpoint: t.deduct[t.sells].path.String(), Summary: "somebody else's API, by a mapping file",
		Available: true, Promise: loadtest.Promise{Scope: loadtest.Cluster},
	}}, nil
}

// SetStock sets the stock of sku to quantity units, and reads it back. If the mapping has no request for that, the
// stock must have that many units already.
func (t *Target) SetStock(ctx context.Context, _, sku string, quantity int64) (loadtest.Stock, error) {
	saved, err := t.setSteps(ctx, sku, quantity)
	if err != nil {
		return loadtest.Stock{}, err
	}
	before := &past{initial: quantity, orders: make(map[string]bool), saved: saved}
	t.mu.Lock()
	t.skus[sku] = before
	t.mu.Unlock()
	now, err := t.readBack(ctx, sku, quantity)
	switch {
	case err != nil:
		return loadtest.Stock{}, err
	case now.Quantity != quantity && len(t.set) == 0:
		return loadtest.Stock{}, t.errorf("has %d units of %s, not %d: set the stock first, since the mapping "+
			"does not say how (set)", now.Quantity, sku, quantity)
	case now.Quantity != quantity:
		return loadtest.Stock{}, t.errorf("was asked for a stock of %d units of %s, and then said that there "+
			"are %d: does somebody else sell it, do sold units count in it (then set.steps saves them, for "+
			"{{quantity+NAME}}), did set fail with status 2xx (as GraphQL does), or is read.quantity wrong?",
			quantity, sku, now.Quantity)
	}
	orders, _, err := t.list(ctx, sku) // if it is only a part, Orders says so after the run
	if err != nil {
		return loadtest.Stock{}, err
	}
	for i := range orders {
		before.orders[orders[i].OrderID] = true
	}
	return now, nil
}

// ready returns an error if values that set saves are needed, and not known.
func (t *Target) ready(v values) error {
	for _, name := range t.needs {
		if _, there := v[name]; !there {
			return t.errorf("cannot be asked: {{%s}} is saved when the stock is set, and this command does not set it",
				name)
		}
	}
	return nil
}

// setSteps sends the requests that set the stock, and returns what they save.
func (t *Target) setSteps(ctx context.Context, sku string, quantity int64) (saved values, err error) {
	v := values{varSKU: sku, varToken: t.client.Token(), varQuantity: strconv.FormatInt(quantity, 10)}
	maps.Copy(v, t.ids[sku])
	saved = make(values)
	for i := range t.set {
		s := &t.set[i]
		got, err := t.askUntil(ctx, s, v)
		if err != nil {
			return nil, err
		}
		if err := s.save(got.source, v, saved); err != nil {
			return nil, t.strange(got, err)
		}
	}
	return saved, nil
}

// readBack reads the stock that was set. While the stock is different, readBack repeats that for as long as the API may
// be late: the API may read from a cache or a replica.
func (t *Target) readBack(ctx context.Context, sku string, quantity int64) (now loadtest.Stock, err error) {
	loadtest.LookAgain(ctx, t.late, func() bool {
		now, err = t.Stock(ctx, "", sku)
		return err == nil && now.Quantity != quantity && len(t.set) > 0
	})
	return now, err
}

// Stock returns the current stock. Version is the number of units that are gone since SetStock.
func (t *Target) Stock(ctx context.Context, _, sku string) (loadtest.Stock, error) {
	v := t.values(sku)
	if err := t.ready(v); err != nil {
		return loadtest.Stock{}, err
	}
	got, err := t.ask(ctx, &t.read.question, v)
	if err != nil {
		return loadtest.Stock{}, err
	}
	n, err := t.read.units(got.source)
	if err != nil {
		return loadtest.Stock{}, t.strange(got, err)
	}
	s := loadtest.Stock{SKU: sku, Quantity: n, Initial: n, Mapped: true, Unlisted: t.orders == nil}
	if before := t.past(sku); before != nil {
		s.Initial = before.initial
		s.Version = uint64(max(before.initial-n, 0))
	}
	return s, nil
}

// units returns the units left: the quantity, less what is taken off it.
func (r *reading) units(s source) (int64, error) {
	n, err := r.quantity.whole(s)
	if err != nil {
		return 0, fmt.Errorf("%w (read.quantity)", err)
	}
	if r.less.empty() {
		return n, nil
	}
	less, err := r.less.whole(s)
	if err != nil {
		return 0, fmt.Errorf("%w (read.less)", err)
	}
	if left := n - less; (left < n) == (less > 0) {
		return left, nil
	}
	return 0, fmt.Errorf("has %d less %d, which is too much for a number (read.less)", n, less)
}

// Orders returns the orders made since the stock was set. A list that is only a part is an error.
func (t *Target) Orders(ctx context.Context, _, sku string) ([]loadtest.Order, error) {
	all, hint, err := t.list(ctx, sku)
	switch {
	case err != nil:
		return nil, err
	case hint != "":
		why := phrases.Error("list-in-part", "n", len(all), "hint", t.veil.over(hint))
		return nil, &loadtest.TargetError{URL: t.URL(), Err: why}
	}
	before := t.past(sku)
	if before == nil {
		return all, nil
	}
	orders := all[:0]
	for i := range all {
		if !before.orders[all[i].OrderID] {
			orders = append(orders, all[i])
		}
	}
	return orders, nil
}

func (t *Target) past(sku string) *past {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skus[sku]
}

func (t *Target) values(sku string) values {
	v := values{varSKU: sku, varToken: t.client.Token()}
	maps.Copy(v, t.ids[sku])
	if before := t.past(sku); before != nil {
		maps.Copy(v, before.saved)
	}
	return v
}

// entries returns the list in a reply.
func (l *listing) entries(s source) ([]any, error) {
	if l.list.filtered() {
		return l.list.all(s), nil
	}
	at, ok := l.list.of(s)
	page, isList := at.([]any)
	if !ok || !isList && at != nil { // null is Go's empty list
		return nil, fmt.Errorf("has no list at %s (orders.list)", l.list.text)
	}
	return page, nil
}

// order reads an entry of the list. ours is false if it does not count, or is an order of another SKU.
func (t *Target) order(sku string, entry source) (o loadtest.Order, ours bool, err error) {
	o = loadtest.Order{SKU: sku}
	var ok bool
	if o.OrderID, ok = t.orders.orderID.scalar(entry); !ok || o.OrderID == "" {
		return o, false, fmt.Errorf("has nothing at %s (orders.order_id)", t.orders.orderID.text)
	}
	o.OrderID = t.veil.over(o.OrderID)
	if len(o.OrderID) > loadtest.MaxID {
		return o, false, fmt.Errorf(
			"has an order id of %d bytes at %s, of which no more than %d are kept (orders.order_id)",
			len(o.OrderID), t.orders.orderID.text, loadtest.MaxID)
	}
	found := t.orders.quantity.all(entry)
	if len(t.orders.where) > 0 && !t.matches(t.orders.where, 0, entry) ||
		len(found) == 0 && t.orders.quantity.filtered() {
		return o, false, nil
	}
	if o.Quantity, err = t.orders.quantity.sum(found, entry); err == nil && o.Quantity < 1 {
		err = fmt.Errorf("has %d at %s", o.Quantity, t.orders.quantity.text)
	}
	if err != nil {
		return o, false, fmt.Errorf("%w (orders.quantity)", err)
	}
	if !t.orders.requestID.empty() {
		ref, _ := t.orders.requestID.scalar(entry) // orders of other clients may have none
		o.RequestID = loadtest.Clip(t.veil.over(ref))
	}
	saw, err := t.orders.saw(entry, o.Quantity, t.past(sku))
	o.Read, o.Remaining, o.Version, o.Blind = saw.Read, saw.Remaining, saw.Version, saw.Blind
	return o, true, err
}

// Assume returns the initial stock, which such an API does not report: look.Initial or, without it, the current stock
// plus the units of the orders.
func (t *Target) Assume(ctx context.Context, look loadtest.Look) (initial int64, err error) {
	switch {
	case look.Initial != nil:
		initial = *look.Initial
	case t.orders == nil:
		return 0, &loadtest.PlanError{
			Field:  "initial",
			Reason: phrases.Say("initial-needed"),
		}
	default:
		now, err := t.Stock(ctx, "", look.SKU)
		if err != nil {
			return 0, err
		}
		orders, _, err := t.list(ctx, look.SKU)
		if err != nil {
			return 0, err
		}
		initial = now.Quantity
		for i := range orders {
			initial += orders[i].Quantity
		}
	}
	if t.orders == nil && look.Accepted == nil && look.AtLeast == nil {
		return 0, &loadtest.PlanError{
			Field:  "accepted",
			Reason: phrases.Say("accepted-needed"),
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skus[look.SKU] = &past{initial: initial}
	return initial, nil
}
