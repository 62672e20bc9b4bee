package lab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/stock/internal/stack/wire"
)

// OrderService is the Code of a case that is about the service in profile orders: carts, reservations and events.
const OrderService = "orders"

// A Shop is the order service: instances in profile orders that keep their ledger in the store of the case. What its
// customers ask for, what they are told, and every movement of the ledger is drawn in the timeline.
type Shop struct {
	Apps []*App

	b      *Testbed
	client *http.Client
	visits []*Visit
	skus   []string
}

// Shop starts n instances, with env (KEY=value) on top of what all have. No instance of an earlier scenario runs beside
// them.
func (b *Testbed) Shop(n int, env ...string) *Shop {
	b.Must("end the instances of earlier scenarios", b.fleet.alone())
	s := &Shop{b: b, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.Apps = b.Apps(n, append([]string{"STOCK_PROFILE=orders", "STOCK_STORE=" + b.Store()}, env...)...)
	return s
}

// Join starts n more instances of the shop.
func (s *Shop) Join(n int, env ...string) []*App {
	more := s.b.Shop(n, env...).Apps
	s.Apps = append(s.Apps, more...)
	return more
}

// A Line asks for units of a SKU. "" is the SKU of the case.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// An Ask is a request of a customer.
type Ask struct {
	path  string
	lines []Line
	ttl   time.Duration
	key   string
}

// Buy asks to buy lines at once.
func Buy(lines ...Line) Ask { return Ask{path: "/v1/orders", lines: lines} }

// Keep asks to keep lines for the customer for ttl.
func Keep(ttl time.Duration, lines ...Line) Ask {
	return Ask{path: "/v1/reservations", lines: lines, ttl: ttl}
}

// Pay confirms the reservation that somebody was told of.
func Pay(v *Visit) Ask { return Ask{path: "/v1/reservations/" + v.Reply().Reservation + "/confirm"} }

// With returns the request with an idempotency key.
func (a Ask) With(key string) Ask {
	a.key = key
	return a
}

// A Visit is a request to a Shop that is under way.
type Visit struct {
	Who string // whose it is: its name in the timeline
	App *App

	b     *Testbed
	done  chan struct{}
	told  ShopReply // complete when done is closed
	at    time.Time
	noted bool
}

// A ShopReply is what a customer was told.
type ShopReply struct {
	Order       string `json:"order_id"` // that was placed, or whose outcome is not known
	Reservation string `json:"reservation_id"`
	State       string `json:"state"`
	Late        bool   `json:"late"`
	Type        string `json:"type"` // of a problem
	Lines       []struct {
		SKU                  string
		Requested, Available int64
	} `json:"lines"`

	Status   int    `json:"-"` // 0: no whole reply
	Replayed bool   `json:"-"`
	Error    string `json:"-"` // why there is no whole reply
}

// Problem returns the name of the problem, or "".
func (r ShopReply) Problem() string {
	if r.Type == "" {
		return ""
	}
	return r.Type[strings.LastIndexByte(r.Type, '/')+1:]
}

// Said describes the reply.
func (r ShopReply) Said() Text {
	said := say("replies.reservation", "status", r.Status, "id", r.Reservation, "state", r.State)
	switch {
	case r.Status == 0:
		return say("replies.none", "why", say("replies.broke"))
	case r.Type != "":
		return same(fmt.Sprintf("%d %s", r.Status, r.Problem()))
	case r.Order != "":
		said = say("replies.order", "status", r.Status, "id", r.Order)
	}
	if r.Late {
		said = say("replies.late", "reply", said)
	}
	if r.Replayed {
		said = say("replies.replayed", "reply", said)
	}
	return said
}

// Begin sends a request of a customer to an instance, and does not wait for the reply.
func (s *Shop) Begin(app *App, who string, ask Ask) *Visit {
	b := s.b
	v := &Visit{Who: who, App: app, b: b, done: make(chan struct{})}
	s.visits = append(s.visits, v)
	body := map[string]any{"customer": s.customer(who)}
	what := "POST " + short(ask.path)
	if len(ask.lines) > 0 {
		lines := make([]Line, len(ask.lines))
		for i, l := range ask.lines {
			lines[i] = Line{b.SKU + l.SKU, l.Quantity}
			what += fmt.Sprintf(" %d × %s", l.Quantity, "SKU"+l.SKU)
		}
		body["lines"] = lines
	}
	if ask.ttl > 0 {
		body["ttl"] = ask.ttl.String()
		what += " ttl " + ask.ttl.String()
	}
	if ask.key != "" {
		what += " Idempotency-Key: " + ask.key
	}
	text, err := json.Marshal(body)
	b.Must("encode a request", err)
	req, err := http.NewRequestWithContext(b.Ctx, http.MethodPost, app.URL+ask.path, bytes.NewReader(text))
	b.Must("make a request", err)
	req.Header.Set("Content-Type", "application/json")
	if ask.key != "" {
		req.Header.Set("Idempotency-Key", b.SKU+"."+ask.key)
	}
	asks := say("says.asks-for", "who", who, "app", app.Name, "what", what)
	b.record(Event{At: time.Now(), Lane: app.Name, Kind: Sent, Who: who}, asks)
	b.owned.Go(func() {
		defer close(v.done)
		v.told = s.send(req)
		v.at = time.Now()
	})
	return v
}

// Ask sends a request and waits for the reply.
func (s *Shop) Ask(app *App, who string, ask Ask) *Visit {
	v := s.Begin(app, who, ask)
	v.Reply()
	return v
}

// customer is the name of a customer, whom no other case has.
func (s *Shop) customer(who string) string { return s.b.SKU + "." + who }

// short leaves the id out of a path.
func short(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 4 {
		parts[3] = "…"
	}
	return strings.Join(parts, "/")
}

// send sends a request once: a client whose connections serve one request each repeats nothing.
func (s *Shop) send(req *http.Request) (r ShopReply) {
	res, err := s.client.Do(req)
	if err != nil {
		r.Error = "the connection broke" // the text of the error has addresses
		return r
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return ShopReply{Error: "the connection broke"}
	}
	r.Status, r.Replayed = res.StatusCode, res.Header.Get("Idempotent-Replayed") == "true"
	return r
}

// Answered reports whether the reply is there.
func (v *Visit) Answered() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// Reply waits for the reply.
func (v *Visit) Reply() ShopReply {
	select {
	case <-v.done:
	case <-time.After(Patience):
		v.b.Fatalf("%s had no reply within %v", v.Who, Patience)
	case <-v.b.Ctx.Done():
		v.b.Fatalf("wait for the reply to %s: %w", v.Who, context.Cause(v.b.Ctx))
	}
	if !v.noted {
		v.noted = true
		kind, said := Answered, say("says.answered", "who", v.Who, "answer", v.told.Said())
		v.b.record(Event{At: v.at, Lane: v.App.Name, Kind: kind, Who: v.Who}, said)
		if p := v.told.Problem(); p != "" && p != "outcome_unknown" {
			refused := say("says.refused", "who", v.Who, "problem", p)
			v.b.record(Event{At: v.at, Lane: v.App.Name, Kind: Refused, Who: v.Who}, refused)
		}
	}
	return v.told
}

// Bought reports whether the customer was told of an order.
func (v *Visit) Bought() bool { r := v.Reply(); return r.Status/100 == 2 && r.Order != "" }

// Short returns the lines that the reply names as short: "SKU.a: 6 of 5".
func (v *Visit) Short() string {
	var named []string
	for _, l := range v.Reply().Lines {
		sku := "SKU" + strings.TrimPrefix(l.SKU, v.b.SKU)
		named = append(named, fmt.Sprintf("%s: %d of %d", sku, l.Requested, l.Available))
	}
	return strings.Join(named, ", ")
}

// any returns an instance that answers.
func (s *Shop) any() *App {
	for _, app := range s.Apps {
		if !app.frozen && app.Pid() != 0 {
			return app
		}
	}
	s.b.Fatalf("no instance of the shop answers")
	return nil
}

// Stock makes units of a SKU available. suffix is "" for the SKU of the case, or what is put behind it for another.
func (s *Shop) Stock(suffix string, units int64) {
	path := "/v1/stock/" + url.PathEscape(s.b.SKU+suffix)
	in := map[string]any{"quantity": units}
	s.b.Must("set the stock", s.any().client.Call(s.b.Ctx, http.MethodPut, path, in, nil))
	s.skus = append(s.skus, suffix)
	s.b.note(s.b.Store(), say("says.units-of", "units", units, "sku", "SKU"+suffix))
}

// Limit sets how many units of the SKU of the case a customer may have.
func (s *Shop) Limit(units int64) {
	path := "/v1/stock/" + url.PathEscape(s.b.SKU) + "/policy"
	in := map[string]any{"per_customer": units}
	s.b.Must("set the policy", s.any().client.Call(s.b.Ctx, http.MethodPut, path, in, nil))
	s.b.note(s.b.Store(), say("says.limit", "units", units))
}

// State returns the state of a reservation as the store has it now.
func (s *Shop) State(v *Visit) string {
	var reply ShopReply
	path := "/v1/reservations/" + v.Reply().Reservation + "?customer=" + url.QueryEscape(s.customer(v.Who))
	s.b.Must("read a reservation", s.any().client.Call(s.b.Ctx, http.MethodGet, path, nil, &reply))
	return reply.State
}

// AwaitState waits until a reservation has that state.
func (s *Shop) AwaitState(v *Visit, state string) {
	s.b.Eventually("the reservation of "+v.Who+" is "+state, func() bool { return s.State(v) == state })
	s.b.note(s.b.Store(), say("says.reservation-is", "who", v.Who, "state", state))
}

// Orders returns how many orders a customer has, and records that as evidence.
func (s *Shop) Orders(who string) int {
	var reply struct{ Orders []ShopReply }
	path := "/v1/orders?customer=" + url.QueryEscape(s.customer(who))
	s.b.Must("list orders", s.any().client.Call(s.b.Ctx, http.MethodGet, path, nil, &reply))
	s.b.prove(Served, len(reply.Orders), say("says.has-orders", "who", who, "n", len(reply.Orders)))
	return len(reply.Orders)
}

// Sold returns how many units of all SKUs the store has as sold now, and records that as evidence.
func (s *Shop) Sold() (units int64) {
	for _, suffix := range s.skus {
		units += s.read(suffix).Sold
	}
	said := say("says.sold-so-far", "units", units)
	s.b.prove(Balance, units, said)
	s.b.note(s.b.Store(), said)
	return units
}

// Proxy returns the proxy before the store. Start the Shop with Testbed.Via of the same need.
func (s *Shop) Proxy() *wire.Proxy { return s.b.Proxy(Need(s.b.Store())) }

// Moving matches the message by which a step is written for good that moves a SKU of the case, in that way: "sell",
// "expire" and so on.
func (b *Testbed) Moving(kind string) func(message []byte) bool {
	text := `"kind":"` + kind + `"`
	if b.Store() == string(NeedMySQL) {
		text = "'" + kind + "'"
	}
	sku, moves := wire.Contains(b.SKU), wire.Contains(text)
	return func(m []byte) bool { return sku(m) && moves(m) }
}

// Marking matches the message by which a relay records what was delivered of the SKU of the case.
func (b *Testbed) Marking() func(message []byte) bool {
	text := ":delivered"
	if b.Store() == string(NeedMySQL) {
		text = "INSERT INTO deliveries"
	}
	sku, records := wire.Contains(b.SKU), wire.Contains(text)
	return func(m []byte) bool {
		// Redis: the script, and not a look for what is to be delivered.
		return sku(m) && records(m) && (b.Store() == string(NeedMySQL) || wire.Contains("eval")(m))
	}
}

// Books are the ledger of one SKU.
type Books struct {
	Received, Available, Reserved, Sold int64
	Movements                           []Movement
}

// A Movement is a row of the ledger.
type Movement struct {
	Number    uint64    `json:"number"`
	Kind      string    `json:"kind"`
	Received  int64     `json:"received"`
	Available int64     `json:"available"`
	Reserved  int64     `json:"reserved"`
	Sold      int64     `json:"sold"`
	Customer  string    `json:"customer"`
	At        time.Time `json:"at"`
}

// Kinds returns the kinds of the movements, in order.
func (b Books) Kinds() []string {
	kinds := make([]string, len(b.Movements))
	for i, m := range b.Movements {
		kinds[i] = m.Kind
	}
	return kinds
}

// wrong returns what is wrong with the books, or "": numbers have no gap, after every movement received = available +
// reserved + sold with no term below zero, and the sums are what the counters say.
func (b Books) wrong() string {
	var sum Books
	for i, m := range b.Movements {
		sum.Received += m.Received
		sum.Available += m.Available
		sum.Reserved += m.Reserved
		sum.Sold += m.Sold
		switch {
		case m.Number != uint64(i+1):
			return fmt.Sprintf("after movement %d comes %d", i, m.Number)
		case sum.Received != sum.Available+sum.Reserved+sum.Sold || min(sum.Available, sum.Reserved, sum.Sold) < 0:
			return fmt.Sprintf("the law does not hold after movement %d", m.Number)
		}
	}
	if sum.Received != b.Received || sum.Available != b.Available || sum.Reserved != b.Reserved || sum.Sold != b.Sold {
		return "the counters are not the sum of the movements"
	}
	return ""
}

// Judge waits for all replies, reads the ledger of every SKU, writes all of it down, and returns the books by the
// suffixes of the SKUs. sound reports whether the books of all balance.
func (s *Shop) Judge() (books map[string]Books, sound bool) {
	b := s.b
	for _, v := range s.visits {
		answer := v.Reply().Said()
		b.prove(Answer, v.told.Problem(), say("says.answer", "who", v.Who, "app", v.App.Name, "answer", answer))
	}
	books, sound = make(map[string]Books), true
	for _, suffix := range s.skus {
		k := s.read(suffix)
		books[suffix] = k
		value := map[string]int64{
			"received": k.Received, "available": k.Available, "reserved": k.Reserved, "sold": k.Sold,
		}
		b.prove(Balance, value, say("says.books", "sku", "SKU"+suffix, "received", k.Received,
			"available", k.Available, "reserved", k.Reserved, "sold", k.Sold, "kinds", strings.Join(k.Kinds(), ", ")))
		if wrong := k.wrong(); wrong != "" {
			sound = false
			b.prove(Balance, nil, say("says.books-are-wrong", "sku", "SKU"+suffix, "why", wrong))
		}
		s.draw(suffix, k)
	}
	return books, sound
}

// read reads the ledger of a SKU.
func (s *Shop) read(suffix string) (k Books) {
	path := "/v1/stock/" + url.PathEscape(s.b.SKU+suffix)
	app := s.any()
	s.b.Must("read the stock", app.client.Call(s.b.Ctx, http.MethodGet, path, nil, &k))
	s.b.Must("read the movements", app.client.Call(s.b.Ctx, http.MethodGet, path+"/movements?limit=500", nil, &k))
	return k
}

// draw records the movements of a ledger as writes, at the times of the server, with whose they are.
func (s *Shop) draw(suffix string, k Books) {
	for _, m := range k.Movements {
		who := strings.TrimPrefix(m.Customer, s.customer(""))
		units := cmp.Or(m.Sold, m.Reserved, m.Available)
		s.b.record(Event{At: m.At, Lane: s.b.Store(), Kind: Write, Who: who},
			say("says.movement", "number", m.Number, "kind", m.Kind, "units", max(units, -units), "sku", "SKU"+suffix))
	}
}
