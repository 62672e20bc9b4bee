package lab

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/wire"
)

// OrderService is the Code of a case that is about the order service: carts, reservations and events.
const OrderService = "orders"

// A Shop is the order service, with its ledger in MySQL. The timeline shows the requests of its customers, the replies,
// and every movement of the ledger.
type Shop struct {
	Apps []*App

	b      *Testbed
	visits []*Visit
	skus   []string
}

// Shop starts n instances with env (KEY=value). It first ends the instances of earlier scenarios.
func (b *Testbed) Shop(n int, env ...string) *Shop {
	b.Must("end the instances of earlier scenarios", b.fleet.alone())
	list, err := b.fleet.shops(b.Ctx, n, env...)
	b.Must("start instances of the order service", err)
	b.apps = append(b.apps, list...)
	return &Shop{Apps: list, b: b}
}

// ThroughProxy returns the environment variable by which an instance reaches MySQL through the proxy.
func (b *Testbed) ThroughProxy() string {
	return "ORDERS_MYSQL_DSN=" + stack.OrdersDSN("root@tcp("+b.Proxy(NeedMySQL).Addr()+")/")
}

// Join starts n more instances of the shop.
func (s *Shop) Join(n int, env ...string) []*App {
	more := s.b.Shop(n, env...).Apps
	s.Apps = append(s.Apps, more...)
	return more
}

// An Ask is a request of a customer. The SKUs of its lines are suffixes to the SKU of the case; "" is that SKU.
type Ask struct{ checkout.Ask }

// Buy returns a request to buy lines at once.
func Buy(lines ...checkout.Line) Ask { return Ask{checkout.Ask{Op: checkout.OpPlace, Lines: lines}} }

// Keep returns a request to reserve lines for ttl.
func Keep(ttl time.Duration, lines ...checkout.Line) Ask {
	return Ask{checkout.Ask{Op: checkout.OpReserve, Lines: lines, TTL: int64(ttl / time.Second)}}
}

// Pay returns a request to confirm the reservation in the reply to v.
func Pay(v *Visit) Ask { return Ask{checkout.Ask{Op: checkout.OpConfirm, Ref: v.Got().ReservationID}} }

// With returns the request with an idempotency key. Without it, a cart has one of its own.
func (a Ask) With(key string) Ask {
	a.Key = key
	return a
}

// A Visit is a request to a Shop in progress.
type Visit struct {
	pending
	record checkout.Record // complete when done is closed
}

// answered describes a reply.
func answered(r *checkout.Record) (said Text) {
	switch {
	case r.Problem != "":
		return same(fmt.Sprintf("%d %s", r.Status, r.Problem))
	case r.Got == nil:
		return say("replies.none", "why", say("replies.broke")) // the error contains addresses
	case r.Got.OrderID != "":
		said = say("replies.order", "status", r.Status, "id", r.Got.OrderID)
	default:
		said = say("replies.reservation", "status", r.Status, "id", r.Got.ReservationID, "state", r.Got.State)
	}
	if r.Got.Late {
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
	v := &Visit{pending: b.pending(app, who)}
	s.visits = append(s.visits, v)
	a := ask.Ask
	a.Customer = s.customer(who)
	what := "POST " + short(a.Path())
	a.Lines = slices.Clone(a.Lines)
	for i := range a.Lines {
		l := &a.Lines[i]
		what += fmt.Sprintf(" %d × %s", l.Quantity, "SKU"+l.SKU)
		l.SKU = b.SKU + l.SKU
	}
	if a.TTL > 0 {
		what += fmt.Sprintf(" ttl_seconds %d", a.TTL)
	}
	switch {
	case a.Key != "":
		what += " Idempotency-Key: " + a.Key
		a.Key = b.SKU + "." + a.Key
	case a.Lines != nil:
		a.Key = fmt.Sprintf("%s.of-visit-%d", b.SKU, len(s.visits))
	}
	asks := say("says.asks-for", "who", who, "app", app.Name, "what", what)
	b.timeline.Record(CaseEvent{Lane: app.Name, Kind: Sent, Who: who}, asks)
	id := fmt.Sprintf("%s.%s.%d", b.SKU, who, len(s.visits))
	b.owned.Go(func() {
		defer close(v.done)
		v.record = checkout.Send(b.Ctx, app.client, a, nil, id)
		v.record.DoneAt = time.Now()
	})
	return v
}

// Ask sends a request and waits for the reply.
func (s *Shop) Ask(app *App, who string, ask Ask) *Visit {
	v := s.Begin(app, who, ask)
	v.Reply()
	return v
}

// customer returns the name of a customer, unique among cases.
func (s *Shop) customer(who string) string { return s.b.SKU + "." + who }

// short returns a path without its id.
func short(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 4 {
		parts[3] = "…"
	}
	return strings.Join(parts, "/")
}

// Reply waits for the reply.
func (v *Visit) Reply() checkout.Record {
	v.await()
	if !v.noted {
		v.noted = true
		e := CaseEvent{At: v.record.DoneAt, Lane: v.App.Name, Kind: Answered, Who: v.Who}
		v.b.timeline.Record(e, say("says.answered", "who", v.Who, "answer", answered(&v.record)))
		if p := v.record.Problem; p != "" && p != "outcome_unknown" {
			e.Kind = Refused
			v.b.timeline.Record(e, say("says.refused", "who", v.Who, "problem", p))
		}
	}
	return v.record
}

// Got returns the order or the reservation in the reply. It is empty if there is none.
func (v *Visit) Got() (t checkout.Thing) {
	if r := v.Reply(); r.Got != nil {
		t = *r.Got
	}
	return t
}

// Bought reports whether the reply shows an order.
func (v *Visit) Bought() bool { return v.Got().OrderID != "" }

// any returns an instance that answers.
func (s *Shop) any() *App {
	app, ok := answering(s.Apps)
	s.b.Require(ok, "an instance of the shop answers")
	return app
}

// Stock makes units of a SKU available: that of the case with the suffix.
func (s *Shop) Stock(suffix string, units int64) {
	path := "/v1/stock/" + url.PathEscape(s.b.SKU+suffix)
	in := map[string]any{"quantity": units}
	s.b.Must("set the stock", s.any().client.Call(s.b.Ctx, http.MethodPut, path, in, nil))
	if !slices.Contains(s.skus, suffix) {
		s.skus = append(s.skus, suffix)
	}
	s.b.note(s.b.Store(), say("says.units-of", "units", units, "sku", "SKU"+suffix))
}

// Limit sets how many units of the SKU of the case a customer may have.
func (s *Shop) Limit(units int64) {
	path := "/v1/stock/" + url.PathEscape(s.b.SKU) + "/policy"
	in := map[string]any{"per_customer": units}
	s.b.Must("set the policy", s.any().client.Call(s.b.Ctx, http.MethodPut, path, in, nil))
	s.b.note(s.b.Store(), say("says.limit", "units", units))
}

// State reads the state of a reservation from the store.
func (s *Shop) State(v *Visit) string {
	got, err := checkout.ReadReservation(s.b.Ctx, s.any().client, s.customer(v.Who), v.Got().ReservationID)
	s.b.Must("read a reservation", err)
	return got.State
}

// AwaitState waits until a reservation has that state.
func (s *Shop) AwaitState(v *Visit, state string) {
	s.b.Eventually("the reservation of "+v.Who+" is "+state, func() bool { return s.State(v) == state })
	s.b.note(s.b.Store(), say("says.reservation-is", "who", v.Who, "state", state))
}

// Orders returns how many orders a customer has, and records that as evidence.
func (s *Shop) Orders(who string) int {
	orders, err := checkout.ReadOrders(s.b.Ctx, s.any().client, s.customer(who))
	s.b.Must("list orders", err)
	s.b.prove(Served, len(orders), say("says.has-orders", "who", who, "n", len(orders)))
	return len(orders)
}

// Sold reads from the store how many units of all SKUs are sold, and records that as evidence.
func (s *Shop) Sold() (units int64) {
	for _, suffix := range s.skus {
		units += s.read(suffix).Sold
	}
	said := say("says.sold-so-far", "units", units)
	s.b.prove(Balance, units, said)
	s.b.note(s.b.Store(), said)
	return units
}

// Proxy returns the proxy before MySQL; see ThroughProxy.
func (s *Shop) Proxy() *wire.Proxy { return s.b.Proxy(NeedMySQL) }

// Moving matches the statement that writes a movement of the case's SKU. kind is "sell", "expire" and so on.
func (b *Testbed) Moving(kind string) func(message []byte) bool {
	sku, moves, inserts := wire.Contains(b.SKU), wire.Contains("'"+kind+"'"), wire.Contains("INSERT INTO `movements`")
	return func(m []byte) bool { return inserts(m) && sku(m) && moves(m) }
}

// Committing matches the COMMIT that follows such a statement. Nothing else may be committed through the proxy
// meanwhile.
func (b *Testbed) Committing(kind string) func(message []byte) bool {
	moving, moved := b.Moving(kind), false // a proxy calls a match of one message at a time
	return func(m []byte) bool {
		moved = moved || moving(m)
		return moved && len(m) < 16 && wire.Contains("COMMIT")(m)
	}
}

// Marking matches the statement by which a relay records that events were sent.
func (b *Testbed) Marking() func(message []byte) bool {
	return wire.Contains("DELETE o FROM JSON_TABLE")
}

// Books are the ledger of one SKU.
type Books struct {
	checkout.Counts
	Movements []checkout.Movement
}

// Kinds returns the kinds of the movements, in order.
func (b Books) Kinds() []string {
	kinds := make([]string, len(b.Movements))
	for i, m := range b.Movements {
		kinds[i] = m.Kind
	}
	return kinds
}

// wrong returns what is wrong with the books, or "". Movements must be numbered without a gap; after each, received =
// available + reserved + sold, with no term below zero; and their sums must equal the counters.
func (b Books) wrong() string {
	sum := checkout.Counts{SKU: b.SKU}
	for i, m := range b.Movements {
		sum.Add(&m)
		switch {
		case m.Number != uint64(i+1):
			return fmt.Sprintf("after movement %d comes %d", i, m.Number)
		case !sum.Lawful():
			return fmt.Sprintf("the law does not hold after movement %d", m.Number)
		}
	}
	if sum != b.Counts {
		return "the counters are not the sum of the movements"
	}
	return ""
}

// Judge waits for all replies, reads the ledger of every SKU, and records it as evidence. It returns the books by the
// suffixes of the SKUs. sound is true if all books balance.
func (s *Shop) Judge() (books map[string]Books, sound bool) {
	b := s.b
	for _, v := range s.visits {
		r := v.Reply()
		b.prove(Answer, r.Problem, say("says.answer", "who", v.Who, "app", v.App.Name, "answer", answered(&r)))
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
	app, sku := s.any(), s.b.SKU+suffix
	var err error
	k.Counts, err = checkout.ReadCounts(s.b.Ctx, app.client, sku)
	s.b.Must("read the stock", err)
	k.Movements, err = checkout.ReadMovements(s.b.Ctx, app.client, sku, 0, k.Number)
	s.b.Must("read the movements", err)
	return k
}

// draw records the movements of a ledger as writes, at the server's times, with their customers.
func (s *Shop) draw(suffix string, k Books) {
	for _, m := range k.Movements {
		who := strings.TrimPrefix(m.Customer, s.customer(""))
		units := cmp.Or(m.Sold, m.Reserved, m.Available)
		s.b.timeline.Record(CaseEvent{At: m.At, Lane: s.b.Store(), Kind: Write, Who: who},
			say("says.movement", "number", m.Number, "kind", m.Kind, "units", max(units, -units), "sku", "SKU"+suffix))
	}
}
