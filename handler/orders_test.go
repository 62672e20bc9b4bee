package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// A shelf is a Store for package order with one order, one reservation and plenty of everything, or with the error that
// a test wants. The stores are tried in repo, the rules in order: here it is what HTTP makes of them.
type shelf struct {
	mu    sync.Mutex
	err   error // of the next step
	state orders.State
	keys  map[string][2]string
}

func newShelf() *shelf { return &shelf{keys: map[string][2]string{}} }

func (s *shelf) Step(
	_ context.Context, about orders.About, decide func(orders.State) (orders.Changes, error),
) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, false, s.err
	}
	if kept, ok := s.keys[about.Key.ID]; ok && about.Key.ID != "" {
		if kept[0] != about.Key.Fingerprint {
			return nil, false, orders.ErrKeyReused
		}
		return []byte(kept[1]), true, nil
	}
	state := s.state
	state.Now = time.Now().UTC().Truncate(time.Microsecond)
	state.Stock = map[service.SKU]orders.Level{}
	if state.Order != nil && state.Order.ID != about.Order {
		state.Order = nil
	}
	if state.Reservation != nil && state.Reservation.ID != about.Reservation {
		state.Reservation = nil
	}
	for _, sku := range append(about.SKUs, "book", "pen") {
		state.Stock[sku] = orders.Level{
			Received: 99, Available: 9, Reserved: 40, Sold: 50, Number: 7,
			PerCustomer: 60, Taken: 55,
		}
		if sku == "ghost" {
			return nil, false, service.ErrUnknownSKU
		}
		if sku == "new" {
			state.Stock[sku] = orders.Level{}
		}
	}
	c, err := decide(state)
	if err != nil {
		return nil, false, err
	}
	if c.Order != nil {
		s.state.Order = c.Order
	}
	if c.Reservation != nil {
		s.state.Reservation = c.Reservation
	}
	if about.Key.ID != "" {
		s.keys[about.Key.ID] = [2]string{about.Key.Fingerprint, string(c.Reply)}
	}
	return c.Reply, false, nil
}

func (s *shelf) Order(_ context.Context, id string) (orders.Order, error) {
	if s.state.Order == nil || s.state.Order.ID != id {
		return orders.Order{}, orders.ErrNotFound
	}
	return *s.state.Order, nil
}

func (s *shelf) Orders(_ context.Context, customer, cursor string, _ int) ([]orders.Order, string, error) {
	if cursor != "" {
		return nil, "", nil
	}
	return []orders.Order{{
		ID: "0190b2f4-0000-7000-8000-000000000000", Customer: customer, State: orders.Placed,
		Lines: []orders.Line{{SKU: "book", Quantity: 1}}, CreatedAt: time.Now(),
	}}, "more", nil
}

func (s *shelf) Reservation(_ context.Context, id string) (orders.Reservation, error) {
	if s.state.Reservation == nil || s.state.Reservation.ID != id {
		return orders.Reservation{}, orders.ErrNotFound
	}
	return *s.state.Reservation, nil
}

func (s *shelf) Level(_ context.Context, sku service.SKU) (orders.Level, error) {
	if sku == "ghost" {
		return orders.Level{}, service.ErrUnknownSKU
	}
	return orders.Level{Received: 99, Available: 9, Reserved: 40, Sold: 50, Number: 7}, nil
}

func (s *shelf) Movements(_ context.Context, sku service.SKU, after uint64, limit int) ([]orders.Movement, error) {
	all := []orders.Movement{
		{SKU: sku, Number: 98, Kind: orders.Receive, Received: 99, Available: 99, Reason: "counted", At: time.Now()},
		{SKU: sku, Number: 99, Kind: orders.Sell, Available: -50, Sold: 50, Ref: "o", Customer: "ann", At: time.Now()},
	}
	all = slices.DeleteFunc(all, func(m orders.Movement) bool { return m.Number <= after })
	return all[:min(limit, len(all))], nil
}

func (*shelf) SetPolicy(context.Context, service.SKU, int64) error         { return nil }
func (*shelf) Due(context.Context, int, int) ([]orders.Reservation, error) { return nil, nil }
func (*shelf) Batch(context.Context, []orders.Request) []orders.StepResult { return nil }
func (*shelf) Forget(context.Context, time.Duration, int) (int, error)     { return 0, nil }
func (backend) Up() context.Context                                        { return context.Background() }

func shopOf(s *shelf) *orders.Service {
	return orders.New(orders.Config{Store: s, Needs: backend{name: "redis"}, Work: time.Second})
}

// shop serves the orders of s, in the profile of a shop.
func shop(t *testing.T, s *shelf) string {
	t.Helper()
	return serve(t, &fakeService{}, func(c *options) {
		c.Orders, c.Shop, c.Demo.Strategies = shopOf(s), true, nil
	}).URL
}

func send(t *testing.T, method, url, body string, header ...string) reply {
	t.Helper()
	return ask(t, method, url, body, append([]string{"Content-Type", "application/json"}, header...)...)
}

const cart = `{"customer":"ann","lines":[{"sku":"book","quantity":1},{"sku":"pen","quantity":2}]}`

func decodeAs[T any](t *testing.T, r reply, status int) (v T) {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", r.StatusCode, status, r.body)
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOrdersOverHTTP(t *testing.T) {
	url := shop(t, newShelf())
	placed := send(t, http.MethodPost, url+"/v1/orders", cart, "Idempotency-Key", `"k1"`)
	o := decodeAs[orders.Order](t, placed, http.StatusCreated)
	conform(t, "CustomerOrder", placed.body)
	if got := placed.Header.Get("Location"); got != "/v1/orders/"+o.ID {
		t.Errorf("Location %q", got)
	}
	if placed.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the first reply says that it is replayed")
	}
	again := send(t, http.MethodPost, url+"/v1/orders", cart, "Idempotency-Key", "k1") // bare: the same key
	if again.Header.Get("Idempotent-Replayed") != "true" || string(again.body) != string(placed.body) ||
		again.StatusCode != http.StatusCreated || again.Header.Get("Location") != placed.Header.Get("Location") {
		t.Errorf("replay: %d %s %v", again.StatusCode, again.body, again.Header)
	}
	other := strings.Replace(cart, `"quantity":2`, `"quantity":3`, 1)
	wantProblem(t, send(t, http.MethodPost, url+"/v1/orders", other, "Idempotency-Key", "k1"), 422,
		"idempotency_key_reused")

	r := ask(t, http.MethodGet, url+"/v1/orders/"+o.ID+"?customer=ann", "")
	decodeAs[orders.Order](t, r, http.StatusOK)
	conform(t, "CustomerOrder", r.body)
	wantProblem(t, ask(t, http.MethodGet, url+"/v1/orders/"+o.ID+"?customer=bob", ""), 404, "not_found")
	wantProblem(t, send(t, http.MethodPost, url+"/v1/orders/"+o.ID+"/cancel", `{"customer":"bob"}`), 404, "not_found")
	r = send(t, http.MethodPost, url+"/v1/orders/"+o.ID+"/cancel", `{"customer":"ann"}`)
	if o := decodeAs[orders.Order](t, r, http.StatusOK); o.State != orders.Canceled {
		t.Errorf("%+v", o)
	}
	conform(t, "CustomerOrder", r.body)

	r = ask(t, http.MethodGet, url+"/v1/orders?customer=ann&limit=1", "")
	var page struct{ Next string }
	if err := json.Unmarshal(r.body, &page); err != nil || !strings.HasPrefix(page.Next, "more.") {
		t.Errorf("next %q, %v", page.Next, err)
	}
	link := `</v1/orders?cursor=` + page.Next + `&customer=ann&limit=1>; rel="next"`
	if got := r.Header.Get("Link"); got != link {
		t.Errorf("Link %q", got)
	}
	for _, wrong := range []string{"customer=bob&cursor=" + page.Next, "customer=ann&cursor=more"} {
		wantProblem(t, ask(t, http.MethodGet, url+"/v1/orders?"+wrong, ""), 400, "invalid")
	}
	r = ask(t, http.MethodGet, url+"/v1/orders?customer=ann&cursor="+page.Next, "")
	if r.Header.Get("Link") != "" || string(r.body) != `{"next":"","orders":[]}` {
		t.Errorf("last page: %s %v", r.body, r.Header)
	}
}

func TestReservationsOverHTTP(t *testing.T) {
	url := shop(t, newShelf())
	held := send(t, http.MethodPost, url+"/v1/reservations", strings.Replace(cart, "}]}", `}],"ttl":"15m"}`, 1))
	r := decodeAs[orders.Reservation](t, held, http.StatusCreated)
	conform(t, "Reservation", held.body)
	path := "/v1/reservations/" + r.ID
	if got := held.Header.Get("Location"); got != path {
		t.Errorf("Location %q", got)
	}
	shown := ask(t, http.MethodGet, url+path+"?customer=ann", "")
	conform(t, "Reservation", shown.body)
	wantProblem(t, ask(t, http.MethodGet, url+path+"?customer=bob", ""), 404, "not_found")
	extended := send(t, http.MethodPost, url+path+"/extend", `{"customer":"ann","ttl":"30m"}`)
	if e := decodeAs[orders.Reservation](t, extended, 200); !e.ExpiresAt.After(r.ExpiresAt) {
		t.Errorf("%+v after %+v", e, r)
	}
	for _, what := range []string{"confirm", "cancel", "extend"} {
		body := `{"customer":"bob"}`
		if what == "extend" {
			body = `{"customer":"bob","ttl":"1h"}`
		}
		wantProblem(t, send(t, http.MethodPost, url+path+"/"+what, body), 404, "not_found")
	}
	confirmed := send(t, http.MethodPost, url+path+"/confirm", `{"customer":"ann"}`, "Idempotency-Key", "pay")
	o := decodeAs[orders.Order](t, confirmed, 200)
	conform(t, "CustomerOrder", confirmed.body)
	if got := confirmed.Header.Get("Content-Location"); got != "/v1/orders/"+o.ID || o.Reservation != r.ID {
		t.Errorf("%q, %+v", got, o)
	}
	again := send(t, http.MethodPost, url+path+"/confirm?customer=ann", "")
	if string(again.body) != string(confirmed.body) {
		t.Errorf("again: %s, first %s", again.body, confirmed.body)
	}
	wrong := send(t, http.MethodPost, url+path+"/cancel", `{"customer":"ann"}`)
	wantProblem(t, wrong, 409, "wrong_state")
	if !strings.Contains(string(wrong.body), `"state":"confirmed"`) {
		t.Errorf("%s", wrong.body)
	}
	conform(t, "Problem", wrong.body)
}

func TestStockOfTheLedgerOverHTTP(t *testing.T) {
	url := shop(t, newShelf())
	admin := []string{"Authorization", "Bearer " + token}
	r := ask(t, http.MethodGet, url+"/v1/stock/book", "")
	conform(t, "Stock", r.body)
	wantFields(t, r.body, map[string]string{
		"received": "99", "available": "9", "reserved": "40", "sold": "50", "quantity": "9", "initial": "99",
		"guard": `"orders"`,
	})
	if got := r.Header.Get("ETag"); got != `"0-7"` {
		t.Errorf("ETag %s", got)
	}
	if r := ask(t, http.MethodGet, url+"/v1/stock/book", "", "If-None-Match", `"0-7"`); r.StatusCode != 304 {
		t.Errorf("status %d, want 304", r.StatusCode)
	}
	wantProblem(t, ask(t, http.MethodGet, url+"/v1/stock/ghost", ""), 404, "unknown_sku")
	path := url + "/v1/stock/book/adjustments"
	wantProblem(t, send(t, http.MethodPost, path, `{"delta":5}`), 401, "unauthorized")
	r = send(t, http.MethodPost, path, `{"delta":-5,"reason":"broken"}`, append(admin, "Idempotency-Key", "a")...)
	entry := decodeAs[orders.Entry](t, r, 200)
	conform(t, "Entry", r.body)
	if entry.Available != 4 || entry.Movement.Reason != "broken" || r.Header.Get("ETag") != `"0-8"` {
		t.Errorf("%+v, %s", entry, r.Header.Get("ETag"))
	}
	r = send(t, http.MethodPost, path, `{"delta":-5,"reason":"broken"}`, append(admin, "Idempotency-Key", "a")...)
	if r.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s", r.body)
	}
	wantProblem(t, send(t, http.MethodPost, path, `{"delta":-10}`, admin...), 409, "below_zero")
	wantProblem(t, send(t, http.MethodPost, path, `{"delta":1}`, append(admin, "If-Match", `"0-6"`)...), 412,
		"precondition_failed")
	r = send(t, http.MethodPut, url+"/v1/stock/book", `{"quantity":20}`, append(admin, "If-Match", `"0-7"`)...)
	conform(t, "Stock", r.body)
	wantFields(t, r.body, map[string]string{"available": "20", "received": "110"})
	wantProblem(t, send(t, http.MethodPut, url+"/v1/stock/book", `{"quantity":20}`), 401, "unauthorized")
	wantProblem(t, send(t, http.MethodPut, url+"/v1/stock/new", `{"quantity":20}`, append(admin, "If-Match",
		"*")...), 412,
		"precondition_failed")

	r = send(t, http.MethodPut, url+"/v1/stock/book/policy", `{"per_customer":2}`, admin...)
	conform(t, "Policy", r.body)
	wantProblem(t, send(t, http.MethodPut, url+"/v1/stock/book/policy", `{"per_customer":2}`), 401, "unauthorized")

	// Who bought is for the admin alone.
	r = ask(t, http.MethodGet, url+"/v1/stock/book/movements", "")
	if r.StatusCode != 200 || strings.Contains(string(r.body), "ann") || strings.Contains(string(r.body), "counted") {
		t.Errorf("for everybody: %s", r.body)
	}
	r = ask(t, http.MethodGet, url+"/v1/stock/book/movements?limit=1&cursor=98", "", admin...)
	var page struct{ Movements []json.RawMessage }
	if err := json.Unmarshal(r.body, &page); err != nil || len(page.Movements) != 1 {
		t.Fatalf("%v, %s", err, r.body)
	}
	conform(t, "Movement", page.Movements[0])
	if !strings.Contains(string(r.body), `"customer":"ann"`) ||
		r.Header.Get("Link") != `</v1/stock/book/movements?cursor=99&limit=1>; rel="next"` {
		t.Errorf("%s, Link %s", r.body, r.Header.Get("Link"))
	}
	wantProblem(t, ask(t, http.MethodGet, url+"/v1/stock/book/movements", "", "Authorization", "Bearer x"), 401,
		"unauthorized")
}

// Every field has its limits, the problem names it, and nothing is written.
func TestBadInputOfOrders(t *testing.T) {
	s := newShelf()
	url := shop(t, s)
	line := `{"sku":"book","quantity":1}`
	id := "0190b2f4-0000-7000-8000-000000000000"
	for _, row := range []struct{ method, path, body, field string }{
		{"POST", "/v1/orders", ``, "customer"},
		{"POST", "/v1/orders", `[]`, "body"},
		{"POST", "/v1/orders", `{"customer":"ann"}`, "lines"},
		{"POST", "/v1/orders", `{"lines":[` + line + `]}`, "customer"},
		{"POST", "/v1/orders", `{"customer":"a b","lines":[` + line + `]}`, "customer"},
		{"POST", "/v1/orders", `{"customer":7,"lines":[` + line + `]}`, "customer"},
		{"POST", "/v1/orders", `{"customer":"` + strings.Repeat("x", 65) + `","lines":[` + line + `]}`, "customer"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[]}`, "lines"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":{}}`, "lines"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":"book"}`, "lines"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[` + line + `],"lines":[` + line + `]}`, "lines"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[` + line + strings.Repeat(","+line, 100) + `]}`, "lines"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[` + line + `,7]}`, "lines[1].body"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"book"}]}`, "lines[0].quantity"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"quantity":1}]}`, "lines[0].sku"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"a/b","quantity":1}]}`, "lines[0].sku"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"book","quantity":0}]}`, "lines[0].quantity"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"book","quantity":1000001}]}`, "lines[0].quantity"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"book","quantity":1.5}]}`, "lines[0].quantity"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"book","quantity":"1"}]}`, "lines[0].quantity"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"book","quantity":1,"price":1}]}`, "lines[0].price"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[` + line + `],"store":"mysql"}`, "store"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[` + line + `],"strategy":"none"}`, "strategy"},
		{"POST", "/v1/orders", `{"customer":"ann","lines":[` + line + `]`, "body"},
		{"POST", "/v1/orders?customer=bob", `{"customer":"ann","lines":[` + line + `]}`, "customer"},
		{"POST", "/v1/reservations", cart, "ttl"},
		{"POST", "/v1/reservations", strings.Replace(cart, "}]}", `}],"ttl":"999ms"}`, 1), "ttl"},
		{"POST", "/v1/reservations", strings.Replace(cart, "}]}", `}],"ttl":"24h1s"}`, 1), "ttl"},
		{"POST", "/v1/reservations", strings.Replace(cart, "}]}", `}],"ttl":900}`, 1), "ttl"},
		{"POST", "/v1/reservations/" + id + "/extend", `{"customer":"ann"}`, "ttl"},
		{"POST", "/v1/reservations/" + id + "/confirm", ``, "customer"},
		{"POST", "/v1/reservations/" + id + "/cancel", `{"customer":"ann","lines":[]}`, "lines"},
		{"POST", "/v1/orders/" + id + "/cancel", `{"customer":""}`, "customer"},
		{"GET", "/v1/orders", ``, "customer"},
		{"GET", "/v1/orders/" + id, ``, "customer"},
		{"GET", "/v1/orders?customer=ann&limit=0", ``, "limit"},
		{"GET", "/v1/orders?customer=ann&limit=1001", ``, "limit"},
		{"GET", "/v1/reservations/" + id, ``, "customer"},
		{"GET", "/v1/stock/book?store=mysql", ``, "store"},
		{"GET", "/v1/stock/book/movements?cursor=x", ``, "cursor"},
		{"POST", "/v1/stock/book/adjustments", `{}`, "delta"},
		{"POST", "/v1/stock/book/adjustments", `{"delta":0}`, "delta"},
		{"POST", "/v1/stock/book/adjustments", `{"delta":-1000000001}`, "delta"},
		{"POST", "/v1/stock/book/adjustments", `{"delta":1,"reason":"` + strings.Repeat("x", 201) + `"}`, "reason"},
		{"POST", "/v1/stock/book/adjustments", `{"delta":1,"reason":"a\nb"}`, "reason"},
		{"POST", "/v1/stock/book/adjustments", "{\"delta\":1,\"reason\":\"a\xff\"}", "body"},
		{"POST", "/v1/stock/book/adjustments", `{"delta":1,"reason":"\udc00"}`, "body"},
		{"PUT", "/v1/stock/book/policy", `{}`, "per_customer"},
		{"PUT", "/v1/stock/book/policy", `{"per_customer":-1}`, "per_customer"},
	} {
		r := send(t, row.method, url+row.path, row.body, "Authorization", "Bearer "+token)
		wantProblem(t, r, 400, "invalid")
		if r.problem.Field != row.field {
			t.Errorf("%s %s %.80s: field %q, want %q (%s)", row.method, row.path, row.body, r.problem.Field, row.field,
				r.problem.Detail)
		}
	}
	r := send(t, http.MethodPost, url+"/v1/stock/book/adjustments", `{}`, "Authorization", "Bearer "+token)
	if !strings.Contains(r.problem.Detail, "missing") {
		t.Errorf("an adjustment without a delta: %q", r.problem.Detail)
	}
	for _, key := range []string{"", `"`, `""`, "a b", strings.Repeat("k", 256), "\u00e9"} {
		r := send(t, http.MethodPost, url+"/v1/orders", cart, "Idempotency-Key", key)
		wantProblem(t, r, 400, "invalid")
		if r.problem.Field != "Idempotency-Key" {
			t.Errorf("key %q: field %q", key, r.problem.Field)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/orders", strings.NewReader(cart))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header["Idempotency-Key"] = []string{"one", "two"}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("two keys: %s", resp.Status)
	}
	if s.state.Order != nil || s.state.Reservation != nil || len(s.keys) != 0 {
		t.Error("something was written")
	}
}

func TestEveryErrorOfOrdersHasItsProblem(t *testing.T) {
	short := &orders.ShortError{Lines: []orders.Shortage{{SKU: "a", Requested: 3, Available: 1}}}
	limit := &orders.LimitError{SKU: "a", Limit: 2, Remaining: 1}
	held := &lock.HeldError{Key: "book"}
	for _, row := range []struct {
		err    error
		status int
		name   string
		retry  bool
		has    string
	}{
		{short, 409, "sold_out", false, `"lines":[{"sku":"a","requested":3,"available":1}]`},
		{limit, 409, "limit_reached", false, `"remaining":1,"sku":"a","limit":2`},
		{
			&orders.HoldError{Of: orders.OfOpen, Limit: 20}, 409, "too_many_reservations", false,
			"20 open reservations",
		},
		{
			&orders.HoldError{Of: orders.OfUnits, Limit: 200, Remaining: 7}, 409, "too_many_reservations", false,
			"200 units in open reservations: 7 more",
		},
		{
			&orders.HoldError{Of: orders.OfShare, SKU: "a", Limit: 8, Remaining: 1}, 409, "too_many_reservations",
			false, "8 units of a may be reserved now: 1 more",
		},
		{
			&orders.HoldError{Of: orders.OfOpen, Limit: 20}, 409, "too_many_reservations", false,
			`"remaining":0,"limit":20,"of":"open"`,
		},
		{
			&orders.HoldError{Of: orders.OfUnits, Limit: 200, Remaining: 7}, 409, "too_many_reservations", false,
			`"remaining":7,"limit":200,"of":"units"`,
		},
		{
			&orders.HoldError{Of: orders.OfShare, SKU: "a", Limit: 8, Remaining: 1}, 409, "too_many_reservations",
			false, `"remaining":1,"sku":"a","limit":8,"of":"share"`,
		},
		{&orders.EarlyError{Wait: 1100 * time.Millisecond}, 429, "extended_too_soon", true, "again in 2 seconds"},
		{fmt.Errorf("%w: %w", orders.ErrExpired, short), 409, "reservation_expired", false, `"lines":[{"sku":"a"`},
		{fmt.Errorf("%w: %w", orders.ErrExpired, limit), 409, "reservation_expired", false, `"limit":2`},
		{&orders.StateError{State: orders.Confirmed}, 409, "wrong_state", false, `"state":"confirmed"`},
		{orders.ErrNotFound, 404, "not_found", false, "of this customer"},
		{orders.ErrKeyReused, 422, "idempotency_key_reused", false, "Nothing was written"},
		{orders.ErrBelowZero, 409, "below_zero", false, ""},
		{&service.GuardError{Guard: "none"}, 409, "strategy_mismatch", false, "guarded by strategy none"},
		{&service.GuardError{Guard: orders.Guard}, 409, "strategy_mismatch", false, "POST /v1/orders"},
		{fmt.Errorf("x: %w", service.ErrOutcomeUnknown), 503, "outcome_unknown", true, "same Idempotency-Key"},
		{fmt.Errorf("the books: %w", orders.ErrUnbalanced), 500, "internal", false, ""},
		// To be one of too many is no outage.
		{held, 409, "lock_busy", true, ""},
		{errors.Join(held, context.DeadlineExceeded), 409, "lock_timeout", true, ""},
		{lock.ErrOverloaded, 429, "overloaded", true, ""},
		{lock.ErrNoCapacity, 429, "no_capacity", true, ""},
		{service.ErrStaleFence, 409, "stale_fence", true, ""},
		{lock.NewDown("mysql", "unreachable"), 503, "backend_down", true, ""},
	} {
		s := newShelf()
		s.err = row.err
		r := send(t, http.MethodPost, shop(t, s)+"/v1/orders", cart, "Idempotency-Key", "k")
		wantProblem(t, r, row.status, row.name)
		conform(t, "Problem", r.body)
		if got := r.Header.Get("Retry-After") != ""; got != row.retry {
			t.Errorf("%s: Retry-After %q", row.name, r.Header.Get("Retry-After"))
		}
		if !strings.Contains(string(r.body), row.has) {
			t.Errorf("%s: %s has no %s", row.name, r.body, row.has)
		}
	}
	s := newShelf()
	s.err = &orders.EarlyError{Wait: 7001 * time.Millisecond}
	early := send(t, http.MethodPost, shop(t, s)+"/v1/orders", cart)
	if got := early.Header.Get("Retry-After"); got != "8" {
		t.Errorf("Retry-After %q, want 8: not too early again", got)
	}
	s = newShelf()
	s.err = service.ErrOutcomeUnknown
	r := send(t, http.MethodPost, shop(t, s)+"/v1/orders", cart)
	if r.Header.Get("Retry-After") != "" || !strings.Contains(r.problem.Detail, "look before") {
		t.Errorf("without a key: %s", r.body)
	}
}

// In a shop the client chooses nothing, and what is not enabled is not there.
func TestAShopHasNothingToChoose(t *testing.T) {
	none := shop(t, newShelf())
	for _, path := range []string{
		"/deduct_stock_zk?sku=book", "/v1/stock/book/deduct", "/deduct_stock", "/v1/stock/book/orders/x/settle",
	} {
		wantProblem(t, ask(t, http.MethodPost, none+path, ""), 404, "not_found")
	}
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil }}
	enabled := serve(t, d, func(c *options) {
		c.Orders, c.Shop = shopOf(newShelf()), true
	}).URL
	wantProblem(t, ask(t, http.MethodPost, enabled+"/deduct_stock_zk", ""), 400, "invalid")
	wantProblem(t, ask(t, http.MethodPost, enabled+"/deduct_stock_zk?sku=book&store=mysql", ""), 400, "invalid")
	wantProblem(t, ask(t, http.MethodPost, enabled+"/v1/stock/book/deduct?strategy=zk-sequential", ""), 400, "invalid")
	for _, path := range []string{"/deduct_stock_zk?sku=book", "/v1/stock/book/deduct"} {
		if r := ask(t, http.MethodPost, enabled+path, ""); r.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	for _, r := range d.asked {
		if r.Strategy != "zk-sequential" || r.Store != "" || r.SKU != "book" {
			t.Errorf("asked for %+v", r)
		}
	}
	for url, served := range map[string]bool{none: false, enabled: true} {
		document, found := operations(t, url)
		if _, ok := found["POST /v1/stock/{sku}/deduct"]; ok != served {
			t.Errorf("the document has deduct: %v, want %v", ok, served)
		}
		if _, ok := found["POST /v1/orders"]; !ok {
			t.Error("the document has no orders")
		}
		choice := string(document.Components["schemas"]["Deduct"]) +
			string(document.Paths["/v1/stock/{sku}/deduct"]["post"]) +
			string(document.Paths["/v1/stock/{sku}"]["parameters"])
		if strings.Contains(choice, `"strategy"`) || strings.Contains(strings.ToLower(choice), "store\"") {
			t.Errorf("the document offers a choice: %s", choice)
		}
	}
	if r := ask(t, http.MethodPost, serve(t, d, nil).URL+"/v1/orders", cart); r.StatusCode != 404 {
		t.Errorf("without orders: %d", r.StatusCode)
	}
}

// In a demonstration some stock is the ledger's and some is a strategy's. Each is shown and set as what it is.
func TestADemonstrationHasBoth(t *testing.T) {
	guard := orders.Guard
	d := &fakeService{stock: func(sku service.SKU) (service.Stock, error) {
		if sku == "book" {
			return service.Stock{SKU: sku, Quantity: 9, Guard: guard}, nil
		}
		return service.Stock{SKU: sku, Quantity: 5, Guard: "none"}, nil
	}}
	url := serve(t, d, func(c *options) { c.Orders = shopOf(newShelf()) }).URL
	wantFields(t, ask(t, http.MethodGet, url+"/v1/stock/book", "").body, map[string]string{"reserved": "40"})
	if r := ask(t, http.MethodGet, url+"/v1/stock/other", ""); strings.Contains(string(r.body), "reserved") {
		t.Errorf("%s", r.body)
	}
	if r := ask(t, http.MethodGet, url+"/v1/stock/book?store=mysql", ""); strings.Contains(string(r.body), "reserved") {
		t.Errorf("in the other store: %s", r.body)
	}
	d.stock = func(service.SKU) (service.Stock, error) { return service.Stock{}, &service.GuardError{Guard: guard} }
	put := func(path string) reply {
		return send(t, http.MethodPut, url+path, `{"quantity":20}`, "Authorization", "Bearer "+token)
	}
	wantFields(t, put("/v1/stock/book").body, map[string]string{"available": "20", "received": "110"})
	wantProblem(t, put("/v1/stock/book?store=mysql"), 409, "strategy_mismatch")
}
