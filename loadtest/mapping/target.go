package mapping

import (
	"context"
	"embed"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
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

	mu   sync.Mutex
	skus map[string]*past // by SKU
}

// A past is the state of one SKU before the run.
type past struct {
	initial int64
	orders  map[string]bool // ids of earlier orders
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
	headers := slices.Concat(f.read.headers, f.deduct.headers)
	if f.set != nil {
		headers = append(headers, f.set.headers...)
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
		Name: t.name, Endpoint: t.deduct.path.String(), Summary: "somebody else's API, by a mapping file",
		Available: true, Promise: loadtest.Promise{Scope: loadtest.Cluster},
	}}, nil
}

// SetStock sets the stock of sku to quantity units, and reads it back. If the mapping has no request for that, the
// stock must have that many units already.
func (t *Target) SetStock(ctx context.Context, _, sku string, quantity int64) (loadtest.Stock, error) {
	v := t.values(sku)
	v[varQuantity] = strconv.FormatInt(quantity, 10)
	if t.set != nil {
		if _, err := t.ask(ctx, t.set, v); err != nil {
			return loadtest.Stock{}, err
		}
	}
	before := &past{initial: quantity, orders: make(map[string]bool)}
	t.mu.Lock()
	t.skus[sku] = before
	t.mu.Unlock()
	now, err := t.readBack(ctx, sku, quantity)
	switch {
	case err != nil:
		return loadtest.Stock{}, err
	case now.Quantity != quantity && t.set == nil:
		return loadtest.Stock{}, t.errorf("has %d units of %s, not %d: set the stock first, since the mapping "+
			"does not say how (set)", now.Quantity, sku, quantity)
	case now.Quantity != quantity:
		return loadtest.Stock{}, t.errorf("was asked for a stock of %d units of %s, and then said that there "+
			"are %d: does somebody else sell it, or is read.quantity wrong?", quantity, sku, now.Quantity)
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

// readBack reads the stock that was set. While the stock is different, readBack repeats that for as long as the API may
// be late: the API may read from a cache or a replica.
func (t *Target) readBack(ctx context.Context, sku string, quantity int64) (now loadtest.Stock, err error) {
	loadtest.LookAgain(ctx, t.late, func() bool {
		now, err = t.Stock(ctx, "", sku)
		return err == nil && now.Quantity != quantity && t.set != nil
	})
	return now, err
}

// Stock returns the current stock. Version is the number of units that are gone since SetStock.
func (t *Target) Stock(ctx context.Context, _, sku string) (loadtest.Stock, error) {
	got, err := t.ask(ctx, &t.read.question, t.values(sku))
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
	if len(t.orders.where) > 0 && !t.orders.where.matches(0, entry) ||
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

// An answer is the reply to a request that had to succeed.
type answer struct {
	what string // the request
	loadtest.Answer
	source
}

// busyLimit limits how long a request that does not sell is repeated while the API is busy.
const busyLimit = 30 * time.Second

// ask sends a request that must succeed. While the API is busy, it sends the request again.
func (t *Target) ask(ctx context.Context, c *question, v values) (answer, error) {
	for began := time.Now(); ; {
		got, pause, busy, err := t.askOnce(ctx, c, v)
		switch {
		case err != nil || !busy:
			return got, err
		case time.Since(began)+pause > busyLimit:
			return answer{}, t.errorf("is too busy for %s, and says so for %v", got.what,
				time.Since(began).Round(time.Second))
		}
		if err := loadtest.Sleep(ctx, pause); err != nil {
			return answer{}, t.errorf("is busy for %s: %w", got.what, err)
		}
	}
}

func (t *Target) askOnce(ctx context.Context, c *question, v values) (
	got answer, pause time.Duration, busy bool, err error,
) {
	req, err := t.request(ctx, c, v)
	if err != nil {
		return got, 0, false, err
	}
	got.what = c.method + " " + req.URL.RequestURI()
	if got.Answer, err = t.client.Ask(req, words.Text{}); err != nil {
		return got, 0, false, t.veil.overError(err)
	}
	got.source = source{document(got.Body), got.Answer.Header, v, t.veil}
	if pause, _, busy = c.busy.pause(got.Status, got.source); busy {
		return got, pause, true, nil
	}
	if to := t.veil.redirect(&got.Answer); !within(c.status, got.Status) && to != "" {
		err = t.errorf("redirects %s to %s, which is not followed: give that address instead", got.what, to)
	} else if !within(c.status, got.Status) {
		err = t.errorf("answers %s with status %d, not %v as the mapping says: %s",
			got.what, got.Status, c.status, t.veil.beginning(&got.Answer))
	}
	return got, 0, false, err
}

func (t *Target) strange(got answer, err error) error {
	return t.errorf("answers in another form than the mapping says: the reply to %s %w: %s", got.what, err,
		t.veil.beginning(&got.Answer))
}

func (t *Target) request(ctx context.Context, c *question, v values) (*http.Request, error) {
	for _, part := range []template{c.path, c.body} {
		if err := part.check(v); err != nil {
			return nil, t.errorf("cannot be asked: %s %s: %w", c.method, c.path, err)
		}
	}
	kind := c.kind()
	req, err := http.NewRequestWithContext(ctx, c.method, t.client.URL()+c.path.path(v),
		strings.NewReader(c.body.content(kind, v)))
	if err != nil {
		return nil, t.errorf("cannot be asked: %s %s: %w", c.method, c.path, err)
	}
	if c.link != nil {
		req.URL = c.link
	}
	if len(c.body) > 0 {
		req.Header.Set("Content-Type", kind)
	}
	for _, h := range c.headers {
		if h.name != "Content-Type" {
			req.Header.Set(h.name, h.sent(v))
		}
	}
	return req, nil
}

// quoted quotes the beginning of a text, for an error message.
func quoted(text string) string {
	const most = 120
	long := len(text) > 2*most // of which blanks are left out
	if long {
		text = text[:2*most]
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text, long = text[:most], true
	}
	if long {
		text = strings.ToValidUTF8(text, "") + "..."
	}
	return strconv.Quote(text)
}

// saw returns what a sale of quantity units read and wrote. If the reply reports one of the two, saw computes the
// other.
func (e effect) saw(s source, quantity int64, before *past) (r loadtest.Receipt, err error) {
	if e.read.empty() && e.remaining.empty() || before == nil {
		return loadtest.Receipt{Blind: true}, nil
	}
	if !e.read.empty() {
		if r.Read, err = e.read.whole(s); err != nil {
			return loadtest.Receipt{Blind: true}, fmt.Errorf("%w (read)", err)
		}
		r.Remaining = r.Read - quantity
	}
	if !e.remaining.empty() {
		if r.Remaining, err = e.remaining.whole(s); err != nil {
			return loadtest.Receipt{Blind: true}, fmt.Errorf("%w (remaining)", err)
		}
		if e.read.empty() {
			r.Read = r.Remaining + quantity
		}
	}
	if r.Read > before.initial {
		return loadtest.Receipt{Blind: true}, fmt.Errorf("tells of %d units when only %d were put in stock: "+
			"somebody adds stock, or the place is wrong", r.Read, before.initial)
	}
	r.Version = uint64(before.initial - r.Read)
	return r, nil
}

// sale returns the values of the variables in a request for a deduction.
func (t *Target) sale(r loadtest.Request) values {
	v := t.values(r.SKU)
	v[varQuantity], v[varRequest] = strconv.FormatInt(r.Quantity, 10), r.RequestID
	return v
}

// Deduct requests one deduction, once.
func (t *Target) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	v := t.sale(r)
	req, err := t.request(ctx, &t.deduct.question, v)
	if err != nil {
		return loadtest.Reply{Outcome: loadtest.Failed, Error: err.Error()}
	}
	req.Header.Set("X-Request-Id", r.RequestID)
	if req.Body == http.NoBody && req.Method == http.MethodGet {
		// net/http repeats a GET without a body by itself when the server closes the connection. That would sell twice.
		req.Body = io.NopCloser(strings.NewReader(""))
	}
	reply := t.client.Attempt(req, func(ans *loadtest.Answer) loadtest.Reply { return t.classify(r, v, ans) })
	reply.Error = t.veil.over(reply.Error) // of the connection
	return reply
}

// classify interprets a reply to r. A reply that the mapping does not know is a failure only if its status says that
// the request was refused (4xx). After any other status, units may have been sold.
func (t *Target) classify(r loadtest.Request, v values, ans *loadtest.Answer) loadtest.Reply {
	got := source{document(ans.Body), ans.Header, v, t.veil}
	reply := loadtest.Reply{Status: ans.Status, Instance: t.veil.over(ans.Header.Get("X-Instance"))}
	if name, ok := t.deduct.instance.scalar(got); ok && !t.deduct.instance.empty() {
		reply.Instance = t.veil.over(name)
	}
	var meant []loadtest.Outcome
	for _, o := range []struct {
		loadtest.Outcome
		rules
	}{{loadtest.Accepted, t.deduct.accepted}, {loadtest.SoldOut, t.deduct.soldOut}, {loadtest.Busy, t.deduct.busy}} {
		if o.matches(ans.Status, got) {
			meant = append(meant, o.Outcome)
		}
	}
	switch {
	case len(meant) > 1:
		reply.Outcome = loadtest.Unknown
		reply.Error = fmt.Sprintf("status %d means %v by the mapping, which cannot both be", ans.Status, meant)
	case len(meant) == 0:
		reply.Outcome = loadtest.Unknown
		reply.Error = fmt.Sprintf("status %d with %s, which the mapping does not know: %s", ans.Status, ans.Kind(),
			t.veil.beginning(ans))
		if ans.Status >= 400 && ans.Status < 500 && ans.Status != http.StatusRequestTimeout {
			reply.Outcome = loadtest.Failed
		}
		if reply.Location = t.veil.redirect(ans); reply.Location != "" {
			reply.Error = fmt.Sprintf("status %d redirects to %s, which is not followed", ans.Status, reply.Location)
		}
		if ans.Status == http.StatusTemporaryRedirect || ans.Status == http.StatusPermanentRedirect {
			reply.Outcome = loadtest.Failed // the request must be sent elsewhere, so it had no effect here
		}
	case meant[0] == loadtest.Accepted:
		if err := t.accept(&reply, r, got); err != nil {
			return loadtest.Reply{
				Outcome: loadtest.Unknown, Status: ans.Status, Instance: reply.Instance,
				Error: fmt.Sprintf("accepted, but the reply %v: %s", err, t.veil.beginning(ans)),
			}
		}
	default:
		reply.Outcome = meant[0]
		if pause, told, busy := t.deduct.busy.pause(ans.Status, got); busy && told {
			reply.Wait = pause
		}
	}
	return reply
}

// accept fills in what the reply reports about the sale.
func (t *Target) accept(reply *loadtest.Reply, r loadtest.Request, s source) error {
	reply.OrderID = r.RequestID // stands in for the order id if the API has none
	if !t.deduct.orderID.empty() {
		id, ok := t.deduct.orderID.scalar(s)
		if !ok || id == "" {
			return fmt.Errorf("has nothing at %s (deduct.order_id)", t.deduct.orderID.text)
		}
		reply.OrderID = t.veil.over(id)
	}
	saw, err := t.deduct.saw(s, r.Quantity, t.past(r.SKU))
	if err != nil {
		return err
	}
	reply.Outcome, reply.Receipt = loadtest.Accepted, &saw
	return nil
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
