package checkout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plan is a run of a second and a half, in which every way is gone.
func plan() checkout.Plan {
	return checkout.Plan{
		SKUs: 5, Stock: 60, Visits: 250, Concurrency: 30, PerCustomer: 3, Lost: 0.15, Seed: 7, Timeout: 5 * time.Second,
		Patience: 5 * time.Second, SettleLimit: 5 * time.Second,
	}
}

func run(t testing.TB, s *shop, url string, p checkout.Plan) *checkout.Result {
	t.Helper()
	client, err := loadtest.NewClient(url, "", p.Concurrency)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := checkout.Run(t.Context(), []*loadtest.Client{client}, p, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A shop that is right is found to be so, and the customers have tried everything on it.
func TestAnHonestShop(t *testing.T) {
	t.Parallel()
	s, url := serve(t)
	var history bytes.Buffer
	p := plan()
	p.History = &history
	r := run(t, s, url, p)
	if r.Verdict.Finding != loadtest.Holds {
		t.Fatalf("%s: %+v", r.Verdict.Sentence, failures(&r.Verdict))
	}
	for _, name := range checkout.Checks() {
		if c := r.Verdict.Check(name); c.Looked == 0 {
			t.Errorf("%s looked at nothing", name)
		}
	}
	for _, w := range r.Figures.Ways {
		if w.Visits == 0 {
			t.Errorf("nobody went the way %s", w.Way)
		}
	}
	f := &r.Figures
	if f.Cut == 0 || f.Replayed == 0 || f.Late == 0 || f.SweptMS.Count == 0 || f.Events != f.Movements {
		t.Errorf("too little happened: %+v", f)
	}
	// The history tells the same, and so does the one that is written again.
	again, err := checkout.ReadHistory(bytes.NewReader(history.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if again.Verdict.Sentence != r.Verdict.Sentence || again.Figures.Orders != f.Orders || again.Run != r.Run {
		t.Errorf("from the history: %+v", again.Verdict)
	}
	var second bytes.Buffer
	if err := checkout.WriteHistory(&second, again); err != nil || second.String() != history.String() {
		t.Errorf("the history changes when it is written again: %v", err)
	}
	if !checkout.IsHistory(history.Bytes()) || checkout.IsHistory([]byte(`{"format":"stock-history"}`)) {
		t.Error("a history is not recognised, or another one is")
	}
	// One that was cut off is no pass.
	cut, err := checkout.ReadHistory(io.LimitReader(bytes.NewReader(history.Bytes()), int64(history.Len()/2)))
	if !errors.Is(err, loadtest.ErrCut) || cut.Verdict.Finding == loadtest.Holds {
		t.Errorf("half a history: %v", err)
	}
}

// A reading of the books that takes longer than a shop may be late is not the last one, if it shows something that may
// come right: the ledger was read at its beginning, and the reservations at its end.
func TestALongReadingIsRepeated(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "dawdles")
	p := plan()
	p.Visits = 60
	if r := run(t, s, url, p); r.Verdict.Finding != loadtest.Holds || s.faults["dawdles"] {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// A reservation of two SKUs that expires after the book of one was read, and before that of the other is, looks as if
// half of it had been given back. That is a matter of the reading, so the books are read again.
func TestBooksThatMoveWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "reads-late")
	p := plan()
	p.SKUs, p.Stock, p.Visits, p.Quantities = 2, 1000, 150, []int64{1}
	r := run(t, s, url, p)
	if s.late == 0 {
		t.Fatal("no reservation expired while the books were read")
	}
	if r.Verdict.Finding != loadtest.Holds {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// Of books that never come to rest nothing can be proved, whatever they look like. The history says so, too.
func TestBooksThatNeverRest(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "never-rests", "counts-wrong")
	var history bytes.Buffer
	p := plan()
	p.Visits, p.SettleLimit, p.History = 60, time.Second, &history
	r := run(t, s, url, p)
	again, err := checkout.ReadHistory(&history)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []*checkout.Verdict{&r.Verdict, &again.Verdict} {
		list := failures(v)
		if v.Finding != loadtest.Undecided || !slices.ContainsFunc(list, func(s string) bool {
			return strings.HasPrefix(s, "settled: ") && strings.Contains(s, first)
		}) {
			t.Errorf("%s: %v", v.Sentence, list)
		}
	}
}

func failures(v *checkout.Verdict) (list []string) {
	for _, c := range v.Checks {
		for _, e := range c.Examples {
			list = append(list, c.Name+": "+e.EN)
		}
	}
	return list
}

// A posting shop posts its events to a receiver, as a relay with a webhook does, when they are asked for. The last one
// of each page comes twice: its answer was lost.
type posting struct {
	*shop
	receiver *checkout.Receiver

	mu     sync.Mutex
	posted map[string]uint64 // by SKU, the largest number
}

func (p *posting) Events(ctx context.Context, sku string, after uint64) ([]checkout.Event, error) {
	p.mu.Lock()
	posted := p.posted[sku]
	p.mu.Unlock()
	list, err := p.shop.Events(ctx, sku, max(after, posted))
	if err != nil {
		return nil, err
	}
	if n := len(list); n > 0 {
		p.mu.Lock()
		p.posted[sku] = list[n-1].Data.Number
		p.mu.Unlock()
		list = append(list, list[n-1])
	}
	for _, e := range list {
		e.Entry = ""
		text, _ := json.Marshal(e)
		resp, err := http.Post(p.receiver.Name()+"/events", "application/json", bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return nil, errors.New(resp.Status)
		}
	}
	return p.receiver.Events(ctx, sku, after)
}

// A late shop has announced one movement more of each SKU whenever it is asked.
type late struct {
	*shop
	mu   sync.Mutex
	told map[string]int // by SKU
}

func (l *late) Events(ctx context.Context, sku string, after uint64) ([]checkout.Event, error) {
	list, err := l.shop.Events(ctx, sku, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[sku]++
	return list[:min(len(list), l.told[sku])], err
}

// A relay that is behind after a fault is waited for as long as it goes on: its limit is for one that stands still.
func TestARelayThatIsBehindIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, url := serve(t)
	client, err := loadtest.NewClient(url, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := plan()
	p.SKUs, p.Visits, p.SettleLimit = 1, 20, time.Second
	r, err := checkout.Run(t.Context(), []*loadtest.Client{client}, p, &late{shop: s, told: make(map[string]int)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Books[0].Movements); n < 8 {
		t.Fatalf("only %d movements: they are announced within the limit", n)
	}
	if r.Verdict.Finding != loadtest.Holds {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// Events that a webhook delivers are judged, too: one that comes again is no fault, one that is left out is.
func TestEventsOfAWebhook(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]loadtest.Finding{
		"": loadtest.Holds, "loses-events": loadtest.Broken, "swaps-events": loadtest.Broken,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			receiver, err := checkout.NewReceiver("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				http.DefaultClient.CloseIdleConnections()
				if err := receiver.Close(); err != nil {
					t.Error(err)
				}
			}()
			s, url := serve(t, fault)
			client, err := loadtest.NewClient(url, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			p := plan()
			p.Visits, p.SettleLimit = 60, time.Second
			feed := &posting{shop: s, receiver: receiver, posted: make(map[string]uint64)}
			r, err := checkout.Run(t.Context(), []*loadtest.Client{client}, p, feed, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := r.Verdict.Check(checkout.CheckEvents)
			if r.Verdict.Finding != want || c.Looked == 0 || (c.Failed == 0) != (want == loadtest.Holds) {
				t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
			}
			if want == loadtest.Holds && r.Figures.Repeats == 0 {
				t.Error("no event came again")
			}
			for body, status := range map[string]int{"": 400, "{}": 400, "[": 400} {
				resp, err := http.Post(receiver.Name(), "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if _ = resp.Body.Close(); resp.StatusCode != status {
					t.Errorf("%q: %s", body, resp.Status)
				}
			}
		})
	}
}

// The JSON of a run, right or wrong, fits the schema that stock report --schema prints. What is not of its form does
// not fit.
func TestJSONFitsTheSchema(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(report.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []string{"", "no-limits"} {
		s, url := serve(t, fault)
		var written bytes.Buffer
		if err := checkout.WriteJSON(&written, run(t, s, url, plan())); err != nil {
			t.Fatal(err)
		}
		fits := func(text string) error {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			return schema.Validate(value)
		}
		if err := fits(written.String()); err != nil {
			t.Errorf("%q: %#v", fault, err)
		}
		for from, to := range map[string]string{
			`"finding": "`: `"finding": "x`, `"books":`: `"boots":`, `"ttl": "`: `"tt": "`,
			`"version": 1`: `"version": 2`, `"attempts": `: `"attempts": 0.5, "x": `,
		} {
			spoilt := strings.Replace(written.String(), from, to, 1)
			if spoilt == written.String() || fits(spoilt) == nil {
				t.Errorf("%s is taken for %s", to, from)
			}
		}
	}
}

// Each fault of a shop is found, by the check that is there for it.
func TestCheatingShops(t *testing.T) {
	t.Parallel()
	for fault, check := range map[string]string{
		"forgets-keys":      checkout.CheckKeys,
		"counts-wrong":      checkout.CheckLaw,
		"returns-twice":     checkout.CheckOnce,
		"cancels-confirmed": checkout.CheckOnce,
		"half-carts":        checkout.CheckCarts,
		"half-expired":      checkout.CheckCarts,
		"hides-orders":      checkout.CheckTold,
		"refuses":           checkout.CheckRefusals,
		"sweeps-early":      checkout.CheckExpiry,
		"never-sweeps":      checkout.CheckExpiry,
		"confirms-expired":  checkout.CheckOnce,
		"no-limits":         checkout.CheckLimits,
		"loses-events":      checkout.CheckEvents,
		"repeats-events":    checkout.CheckEvents,
		"swaps-events":      checkout.CheckEvents,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t, fault)
			p := plan()
			switch fault { // the judge waits for what does not come
			case "loses-events":
				p.Visits, p.SettleLimit = 60, time.Second
			case "never-sweeps": // few visits leave a reservation to its end
				p.Visits, p.SettleLimit = 400, time.Second
			}
			r := run(t, s, url, p)
			if r.Verdict.Finding != loadtest.Broken || r.Verdict.Check(check).Failed == 0 {
				t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
			}
		})
	}
}

// A doctor changes one thing in honest evidence, at a place that the number chooses. It returns false if there is none.
type doctor func(e *checkout.Evidence, n int) bool

// pick returns the n-th movement that ok accepts.
func pick(e *checkout.Evidence, n int, ok func(*checkout.Movement) bool) (*checkout.Book, int) {
	type place struct {
		b *checkout.Book
		i int
	}
	var places []place
	for k := range e.Books {
		b := &e.Books[k]
		for i := range b.Movements {
			if ok(&b.Movements[i]) {
				places = append(places, place{b, i})
			}
		}
	}
	if len(places) == 0 {
		return nil, 0
	}
	p := places[n%len(places)]
	return p.b, p.i
}

func kind(kinds ...string) func(*checkout.Movement) bool {
	return func(m *checkout.Movement) bool { return slices.Contains(kinds, m.Kind) && m.Ref != "" }
}

// record returns the n-th record that ok accepts.
func record(e *checkout.Evidence, n int, ok func(*checkout.Record) bool) *checkout.Record {
	var list []*checkout.Record
	for i := range e.Records {
		if ok(&e.Records[i]) {
			list = append(list, &e.Records[i])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[n%len(list)]
}

func doneBy(op checkout.Op) func(*checkout.Record) bool {
	return func(r *checkout.Record) bool {
		return r.Outcome == checkout.Done && r.Op == op && !r.Again && !r.Replayed
	}
}

// doctors lists what may be wrong in evidence, with the check that finds it.
func doctors() map[string]struct {
	check string
	do    doctor
} {
	type row = struct {
		check string
		do    doctor
	}
	any := func(*checkout.Movement) bool { return true }
	gone := func(list []checkout.Movement, i int) []checkout.Movement { return slices.Delete(list, i, i+1) }
	return map[string]row{
		"a movement is missing": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Movements = gone(b.Movements, i)
			return true
		}},
		"a movement is there twice": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Movements = slices.Insert(b.Movements, i, b.Movements[i])
			return true
		}},
		"a unit too many is given back": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return", "expire", "cancel"))
			b.Movements[i].Available++
			return true
		}},
		"the counters are off": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, _ := pick(e, n, any)
			b.After.Available++
			b.After.Received++
			return true
		}},
		"a kind is unknown": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Movements[i].Kind = "gift"
			return true
		}},
		"units were given back for another order": {checkout.CheckOnce, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return"))
			o, k := pick(e, n, func(m *checkout.Movement) bool {
				return m.Kind == "return" && m.Ref != b.Movements[i].Ref && m.SKU == b.Movements[i].SKU
			})
			if o == nil {
				return false
			}
			b.Movements[i].Ref = o.Movements[k].Ref
			return true
		}},
		"an order sold more than was asked for": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("sell", "reserve"))
			m := &b.Movements[i]
			m.Available--
			if m.Kind == "sell" {
				m.Sold++
			} else {
				m.Reserved++
			}
			return true
		}},
		"an order is of nobody": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("sell"))
			b.Movements[i].Ref = "nobody's"
			return true
		}},
		"two keys got one order": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			one, other := record(e, n, doneBy(checkout.OpPlace)), record(e, n+1, doneBy(checkout.OpPlace))
			other.Got = one.Got
			return one != other
		}},
		"one key got two orders": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, func(r *checkout.Record) bool { return r.Replayed && r.Again && r.Got != nil })
			got := *r.Got
			got.OrderID += "x"
			r.Got = &got
			return true
		}},
		"a key that was used for another cart sold": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, func(r *checkout.Record) bool { return r.Misuse })
			r.Outcome, r.Got = checkout.Done, &checkout.Thing{OrderID: "new", Customer: r.Customer, Lines: r.Lines}
			return true
		}},
		"a canceled order was not given back": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return"))
			ref := b.Movements[i].Ref
			for k := range e.Books {
				e.Books[k].Movements = slices.DeleteFunc(e.Books[k].Movements, func(m checkout.Movement) bool {
					return m.Ref == ref && m.Kind == "return"
				})
			}
			return true
		}},
		"an order is listed as another": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			o := &e.Orders[n%len(e.Orders)]
			o.State = map[string]string{"placed": "canceled", "canceled": "placed"}[o.State]
			return true
		}},
		"an order is not listed": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			i := n % len(e.Orders)
			e.Orders = slices.Delete(e.Orders, i, i+1)
			return true
		}},
		"a reservation is shown as another": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			r := &e.Reservations[n%len(e.Reservations)]
			r.State = map[string]string{"confirmed": "held"}[r.State]
			return true
		}},
		"a delivery is not in the ledger": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, func(m *checkout.Movement) bool { return m.Kind == "adjust" && m.Reason != "" })
			b.Movements[i].Reason = "another"
			return true
		}},
		"a reply said late and was not": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, doneBy(checkout.OpConfirm))
			got := *r.Got
			got.Late = !got.Late
			r.Got = &got
			return true
		}},
		"somebody was refused although there was enough": {
			checkout.CheckRefusals,
			func(e *checkout.Evidence, n int) bool {
				r := record(e, n, func(r *checkout.Record) bool { return r.Outcome == checkout.Refused })
				r.Problem = "unknown_sku"
				return true
			},
		},
		"a reservation expired too early": {checkout.CheckExpiry, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("expire"))
			b.Movements[i].At = b.Movements[i].At.Add(-5 * time.Second)
			return true
		}},
		"a reservation was confirmed after its end": {checkout.CheckExpiry, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("confirm"))
			b.Movements[i].At = b.Movements[i].At.Add(time.Hour)
			return true
		}},
		"a customer has more than the limit": {checkout.CheckLimits, func(e *checkout.Evidence, _ int) bool {
			e.Limit = 1
			return true
		}},
		"an event is missing": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Events = slices.Delete(b.Events, i, i+1)
			return true
		}},
		"an event came twice": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Events = slices.Insert(b.Events, i, b.Events[i])
			return true
		}},
		"two events are in the wrong order": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			k := (i + 1) % len(b.Events)
			b.Events[i], b.Events[k] = b.Events[k], b.Events[i]
			return k != i
		}},
		"an event tells of other units": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Events[i].Data.Available++
			return true
		}},
		"a request was never answered": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, doneBy(checkout.OpPlace))
			for i := range e.Records {
				if e.Records[i].Request == r.Request {
					e.Records[i].Outcome, e.Records[i].Got = checkout.Unknown, nil
				}
			}
			return true
		}},
		"the books were not read": {checkout.CheckSettled, func(e *checkout.Evidence, _ int) bool {
			e.Unread.EN = "no"
			return true
		}},
	}
}

// clone copies the evidence, so deep as doctors change it.
func clone(e *checkout.Evidence) *checkout.Evidence {
	c := *e
	c.Records, c.Orders = slices.Clone(e.Records), slices.Clone(e.Orders)
	c.Reservations, c.Books = slices.Clone(e.Reservations), slices.Clone(e.Books)
	for i := range c.Books {
		c.Books[i].Movements = slices.Clone(c.Books[i].Movements)
		c.Books[i].Events = slices.Clone(c.Books[i].Events)
	}
	return &c
}

// places is at how many places each change is tried.
const places = 25

// Whatever is changed in honest evidence, and wherever, is found.
func TestDoctoredEvidenceIsFound(t *testing.T) {
	t.Parallel()
	s, url := serve(t)
	base := &run(t, s, url, plan()).Evidence
	if v := checkout.Judge(base); v.Finding != loadtest.Holds {
		t.Fatalf("before: %v", failures(&v))
	}
	for name, row := range doctors() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dice, tried := rand.New(rand.NewPCG(1, 2)), 0
			for range places {
				e, n := clone(base), dice.IntN(1<<20)
				if !row.do(e, n) {
					continue
				}
				tried++
				v := checkout.Judge(e)
				if v.Finding == loadtest.Holds || v.Check(row.check).Failed == 0 {
					t.Fatalf("at place %d: %s: %v", n, v.Sentence, failures(&v))
				}
			}
			if tried == 0 {
				t.Error("there was nothing to change")
			}
		})
	}
}
