package checkout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// A shop is an order service in memory: right, but for its faults.
type shop struct {
	now    time.Time // of the step that is under way
	faults map[string]bool
	asked  atomic.Int64
	conns  chan net.Conn // to be served
	closed chan struct{}

	mu           sync.Mutex
	stock        map[string]*checkout.Counts
	limit        int64
	taken        map[[2]string]int64
	books        map[string][]checkout.Movement
	events       map[string][]checkout.Event
	orders       map[string]*checkout.Thing
	reservations map[string]*checkout.Thing
	keys         map[string]kept
	ids          int

	// Of the fault reads-late.
	opened bool          // a customer has come: who reads counters now, reads the books
	read   chan struct{} // closed when the movements of the first SKU were read
	waits  sync.Once
	late   int // reservations of both SKUs that expired between the readings of their books
}

type kept struct {
	asked  string
	status int
	reply  any
}

// newShop returns a shop with those faults, which serves connections in memory until the test ends.
func newShop(t testing.TB, faults ...string) *shop {
	t.Helper()
	s := &shop{
		faults: make(map[string]bool), stock: make(map[string]*checkout.Counts), taken: make(map[[2]string]int64),
		books: make(map[string][]checkout.Movement), events: make(map[string][]checkout.Event),
		orders: make(map[string]*checkout.Thing), reservations: make(map[string]*checkout.Thing),
		keys: make(map[string]kept), read: make(chan struct{}),
		conns: make(chan net.Conn), closed: make(chan struct{}),
	}
	for _, f := range faults {
		s.faults[f] = true
	}
	server := &http.Server{Handler: s}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(s) })
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return s
}

// Accept, Close and Addr make the shop a listener.
func (s *shop) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *shop) Close() error { close(s.closed); return nil }

func (s *shop) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (s *shop) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return ours, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// client returns a client of the shop.
func (s *shop) client(t testing.TB, concurrency int) *loadtest.Client {
	t.Helper()
	c, err := loadtest.NewClient("http://shop", "", concurrency)
	if err != nil {
		t.Fatal(err)
	}
	c.Dial(s.dial)
	c.Carry(loadtest.NewSigner("secret"))
	t.Cleanup(c.Close)
	return c
}

// sell makes a run, whose events are those of feed; nil: they are not read.
func (s *shop) sell(t testing.TB, p checkout.Plan, feed checkout.Feed) *checkout.Result {
	t.Helper()
	r, err := checkout.Run(t.Context(), []*loadtest.Client{s.client(t, p.Concurrency)}, p, feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run makes a run in a shop with those faults, in a bubble: waiting takes no time there, and a busy computer is not
// late.
func run(t *testing.T, p checkout.Plan, faults ...string) (s *shop, r *checkout.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s = newShop(t, faults...)
		r = s.sell(t, p, s)
	})
	return s, r
}

// has reports whether the shop has a fault, which then shows every third time.
func (s *shop) has(fault string) bool {
	s.ids++
	return s.faults[fault] && s.ids%3 == 0
}

type body struct {
	Customer string          `json:"-"` // the subject of the token
	Lines    []checkout.Line `json:"lines"`
	TTL      int64           `json:"ttl_seconds"`
	Quantity int64           `json:"quantity"`
	Delta    int64           `json:"delta"`
	Reason   string          `json:"reason"`
	Limit    int64           `json:"per_customer"`
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Up to 12 ms, as long as a customer waits who breaks his connection: so some steps are before that, some after it.
	time.Sleep(time.Duration(s.asked.Add(1)*7919%12_000) * time.Microsecond)
	var in body
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&in)
	}
	claims := jwt.MapClaims{}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token != "" {
		_, _, _ = jwt.NewParser().ParseUnverified(token, claims)
	}
	in.Customer, _ = claims.GetSubject()
	id, ok := strings.CutPrefix(r.URL.Path, "/v1/reservations/")
	if ok && r.Method == http.MethodGet && s.dawdle(w, id) {
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")[1:]
	if s.readsLate() && r.Method == http.MethodGet && parts[len(parts)-1] == second {
		s.waits.Do(s.expireMeanwhile)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = s.opened || r.Method == http.MethodPost && parts[0] != "stock"
	s.sweep(r.Method + parts[min(1, len(parts)-1)])
	if s.opened && parts[len(parts)-1] == "movements" && parts[1] == first && !s.isRead() {
		defer close(s.read)
	}
	if s.opened && r.Method == http.MethodGet && parts[0] == "stock" && s.faults["never-rests"] {
		s.move(first, "adjust", 1, "", "", "")
	}
	key := r.Header.Get("Idempotency-Key")
	asked, _ := json.Marshal(in)
	scope := in.Customer + r.Method + r.URL.Path + key
	if was, known := s.keys[scope]; key != "" && known && !s.has("forgets-keys") {
		if was.asked != string(asked) {
			reply(w, 422, problem("idempotency_key_reused", 422))
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		reply(w, was.status, was.reply)
		return
	}
	status, out := s.do(r, parts, in)
	if key != "" && status < 300 {
		s.keys[scope] = kept{string(asked), status, out}
	}
	reply(w, status, out)
}

// dawdle makes the first reading of the books longer than what is late may take, with a reservation in it that has
// ended since the ledger was read. It reports whether it has answered.
func (s *shop) dawdle(w http.ResponseWriter, id string) bool {
	s.mu.Lock()
	first := s.faults["dawdles"]
	delete(s.faults, "dawdles")
	s.mu.Unlock()
	if first {
		time.Sleep(loadtest.LateLimit + 100*time.Millisecond)
		reply(w, 200, checkout.Thing{ReservationID: id, State: "unheard of"})
	}
	return first
}

// The SKUs of the fault reads-late.
const first, second = "load-checkout-1", "load-checkout-2"

func (s *shop) readsLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened && s.faults["reads-late"]
}

func (s *shop) isRead() bool {
	select {
	case <-s.read:
		return true
	default:
		return false
	}
}

// expireMeanwhile lets reservations of both SKUs expire after the book of the first was read, and before that of the
// second is.
func (s *shop) expireMeanwhile() {
	<-s.read
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now()
	for _, v := range s.reservations {
		if s.withheld(v) && v.ExpiresAt.After(until) && time.Until(v.ExpiresAt) < time.Minute {
			until = v.ExpiresAt
		}
	}
	s.mu.Unlock()
	time.Sleep(time.Until(until))
	s.mu.Lock()
	delete(s.faults, "reads-late")
	before := len(s.books[first])
	s.sweep("")
	s.late = len(s.books[first]) - before
}

// withheld reports whether a shop with the fault reads-late does not sweep v yet.
func (s *shop) withheld(v *checkout.Thing) bool {
	lines := merge(v.Lines)
	return s.faults["reads-late"] && v.State == "held" && lines[first] > 0 && lines[second] > 0
}

func reply(w http.ResponseWriter, status int, out any) {
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

func problem(name string, status int) any {
	return map[string]any{"type": "/problems/" + name, "status": status}
}

func (s *shop) do(r *http.Request, parts []string, in body) (int, any) {
	switch route := r.Method + " " + parts[0]; {
	case strings.HasSuffix(route, "stock"):
		return s.doStock(r, parts, in)
	case route == "POST orders" && len(parts) == 1:
		return s.place(in, "")
	case route == "POST orders":
		return s.cancelOrder(parts[1], in)
	case route == "GET orders":
		var list []checkout.Thing
		for _, id := range slices.Sorted(maps.Keys(s.orders)) {
			if o := s.orders[id]; o.Customer == in.Customer && !s.has("hides-orders") {
				list = append(list, *o)
			}
		}
		return 200, map[string]any{"orders": list, "next": ""}
	case route == "GET reservations":
		if v := s.reservations[parts[1]]; v != nil {
			return 200, v
		}
		return 404, problem("not_found", 404)
	case len(parts) == 1:
		return s.reserve(in)
	}
	return s.about(parts[2], s.reservations[parts[1]], in)
}

func (s *shop) doStock(r *http.Request, parts []string, in body) (int, any) {
	sku := parts[1]
	now := s.stock[sku]
	if now == nil {
		now = &checkout.Counts{SKU: sku}
		s.stock[sku] = now
	}
	switch {
	case r.Method == "PUT" && len(parts) == 2:
		s.move(sku, "set", in.Quantity-now.Available, "", "", "")
	case r.Method == "PUT":
		s.limit = in.Limit
	case r.Method == "POST":
		s.move(sku, "adjust", in.Delta, "", "", in.Reason)
		return 200, map[string]any{"number": now.Number}
	case len(parts) == 3:
		var after, limit uint64
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &after)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		all := s.books[sku]
		all = all[min(after, uint64(len(all))):]
		return 200, map[string]any{"movements": all[:min(limit, uint64(len(all)))]}
	}
	return 200, map[string]any{
		"sku": sku, "received": now.Received, "available": now.Available, "reserved": now.Reserved, "sold": now.Sold,
		"number": now.Number,
	}
}

// move writes a movement, and its event.
func (s *shop) move(sku, kind string, units int64, ref, customer, reason string) {
	now := s.stock[sku]
	m := checkout.Movement{SKU: sku, Kind: kind, Ref: ref, Customer: customer, Reason: reason, At: s.now.UTC()}
	switch kind {
	case "set", "adjust":
		m.Received, m.Available = units, units
	case "sell":
		m.Available, m.Sold = -units, units
	case "reserve":
		m.Available, m.Reserved = -units, units
	case "confirm":
		m.Reserved, m.Sold = -units, units
	case "cancel", "expire":
		m.Available, m.Reserved = units, -units
	case "return":
		m.Available, m.Sold = units, -units
	}
	now.Received += m.Received
	now.Available += m.Available
	now.Reserved += m.Reserved
	now.Sold += m.Sold
	s.taken[[2]string{sku, customer}] += m.Reserved + m.Sold
	now.Number++
	m.Number = now.Number
	if kind == "return" && s.has("counts-wrong") {
		now.Available++
	}
	s.books[sku] = append(s.books[sku], m)
	e := checkout.Event{ID: fmt.Sprintf("%s.%d", sku, m.Number), Data: m}
	list := s.events[sku]
	switch {
	case kind != "set" && s.has("loses-events"):
	case kind != "set" && s.has("alters-events"):
		other := checkout.Event{ID: e.ID, Data: m, Repeat: true}
		other.Data.Reason = "another"
		s.events[sku] = append(list, e, other)
	case kind != "set" && len(list) > 3 && s.has("swaps-events"):
		s.events[sku] = slices.Insert(list, len(list)-1, e)
	default:
		s.events[sku] = append(list, e)
	}
}

// Name and Events make the shop a feed.
func (s *shop) Name() string { return "memory" }

func (s *shop) Events(_ context.Context, sku string, after uint64) (list []checkout.Event, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events[sku] {
		if e.Data.Number > after {
			list = append(list, e)
		}
	}
	return list, nil
}

func merge(lines []checkout.Line) map[string]int64 {
	m := make(map[string]int64)
	for _, l := range lines {
		m[l.SKU] += l.Quantity
	}
	return m
}

// sorted returns the units of a cart, one line for each SKU.
func sorted(lines []checkout.Line) (list []checkout.Line) {
	units := merge(lines)
	for _, sku := range slices.Sorted(maps.Keys(units)) {
		list = append(list, checkout.Line{SKU: sku, Quantity: units[sku]})
	}
	return list
}

// take returns the lines that can be had, or a refusal.
func (s *shop) take(in body) (list []checkout.Line, status int, refusal any) {
	lines := merge(in.Lines)
	for _, sku := range slices.Sorted(maps.Keys(lines)) {
		n := lines[sku]
		if s.limit > 0 && s.taken[[2]string{sku, in.Customer}]+n > s.limit && !s.has("no-limits") {
			return nil, 409, problem("limit_reached", 409)
		}
		if s.stock[sku].Available < n {
			if s.faults["half-carts"] && len(lines) > 1 {
				continue
			}
			return nil, 409, problem("sold_out", 409)
		}
		list = append(list, checkout.Line{SKU: sku, Quantity: n})
	}
	if s.has("refuses") {
		return nil, 409, problem("unknown_sku", 409)
	}
	return list, 0, nil
}

func (s *shop) id() string {
	s.ids++
	return fmt.Sprintf("id-%d", s.ids)
}

// place sells a cart; of is the reservation that it was, which has expired.
func (s *shop) place(in body, of string) (int, any) {
	lines, status, refusal := s.take(in)
	if refusal != nil {
		return status, refusal
	}
	o := s.order(in.Customer, in.Lines, of)
	o.Late = of != ""
	for _, l := range lines {
		s.move(l.SKU, "sell", l.Quantity, o.OrderID, in.Customer, "")
	}
	return 201, *o
}

func (s *shop) order(customer string, lines []checkout.Line, of string) *checkout.Thing {
	o := &checkout.Thing{
		OrderID: s.id(), ReservationID: of, Customer: customer, State: "placed", CreatedAt: s.now, Lines: lines,
	}
	s.orders[o.OrderID] = o
	return o
}

func (s *shop) cancelOrder(id string, in body) (int, any) {
	o := s.orders[id]
	if o.State != "canceled" || s.faults["returns-twice"] {
		o.State = "canceled"
		for sku, n := range merge(o.Lines) {
			s.move(sku, "return", n, id, in.Customer, "")
		}
	}
	return 200, *o
}

func (s *shop) reserve(in body) (int, any) {
	lines, status, refusal := s.take(in)
	if refusal == nil {
		status, refusal = s.tooMany(in)
	}
	if refusal != nil {
		return status, refusal
	}
	v := &checkout.Thing{
		ReservationID: s.id(), Customer: in.Customer, State: "held", Lines: in.Lines, CreatedAt: s.now,
		ExpiresAt: s.now.Add(time.Duration(in.TTL) * time.Second).UTC(),
	}
	s.reservations[v.ReservationID] = v
	for _, l := range lines {
		s.move(l.SKU, "reserve", l.Quantity, v.ReservationID, in.Customer, "")
	}
	return 201, *v
}

// tooMany refuses a reservation in a shop that has few: one for each customer, or few units for each customer.
func (s *shop) tooMany(in body) (int, any) {
	refuse := func(of string, limit int64) (int, any) {
		return 409, map[string]any{"type": "/problems/too_many_reservations", "status": 409, "of": of, "limit": limit}
	}
	if s.faults["too-many-lies"] && s.has("too-many-lies") {
		return refuse([]string{"open", "units"}[s.ids/3%2], 1000)
	}
	open, units := 0, int64(0)
	for _, v := range s.reservations {
		if v.Customer == in.Customer && v.State == "held" {
			open++
			for _, n := range merge(v.Lines) {
				units += n
			}
		}
	}
	for _, n := range merge(in.Lines) {
		units += n
	}
	const few = 5
	switch {
	case s.faults["few-open"] && open > 0:
		return refuse("open", 1)
	case s.faults["few-units"] && units > few:
		return refuse("units", few)
	}
	return 0, nil
}

// sweep ends what is over. It is the begin of a step, all of which is of one time. about is the method of the request,
// and the id in its path.
func (s *shop) sweep(about string) {
	s.now = time.Now()
	for id, v := range s.reservations {
		until := v.ExpiresAt
		switch {
		case s.faults["sweeps-early"]:
			until = until.Add(-500 * time.Millisecond)
		case s.faults["never-sweeps"]:
			continue
		}
		if v.State != "held" || s.now.Before(until) || s.withheld(v) && about != http.MethodPost+id {
			continue
		}
		v.State = "expired"
		for i, l := range sorted(v.Lines) {
			if i == 0 || !s.faults["half-expired"] {
				s.move(l.SKU, "expire", l.Quantity, id, v.Customer, "")
			}
		}
	}
}

// about confirms, cancels or extends a reservation.
func (s *shop) about(what string, v *checkout.Thing, in body) (int, any) {
	end := func(state, kind string) {
		v.State = state
		for sku, n := range merge(v.Lines) {
			s.move(sku, kind, n, v.ReservationID, v.Customer, "")
		}
	}
	switch {
	case what == "confirm" && v.State == "confirmed":
		return 200, *s.orders[v.OrderID]
	case what == "confirm" && (v.State == "held" || v.State == "expired" && s.faults["confirms-expired"]):
		end("confirmed", "confirm")
		o := s.order(v.Customer, v.Lines, v.ReservationID)
		v.OrderID = o.OrderID
		return 200, *o
	case what == "confirm" && v.State == "expired":
		status, out := s.place(body{Customer: v.Customer, Lines: v.Lines}, v.ReservationID)
		if status != 201 {
			return 409, problem("reservation_expired", 409)
		}
		o := out.(checkout.Thing)
		v.State, v.OrderID = "confirmed", o.OrderID
		return 200, o
	case what == "cancel" && v.State == "canceled":
		return 200, *v
	case what == "cancel" && (v.State == "held" || v.State == "confirmed" && s.faults["cancels-confirmed"]):
		end("canceled", "cancel")
		return 200, *v
	case what == "extend" && v.State == "held":
		v.ExpiresAt = s.now.Add(time.Duration(in.TTL) * time.Second).UTC()
		return 200, *v
	}
	return 409, problem("wrong_state", 409)
}
