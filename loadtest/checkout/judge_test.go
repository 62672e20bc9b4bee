package checkout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plan is a run of a second and a half, in which every way is gone.
func plan() checkout.Plan {
	return checkout.Plan{
		SKUs: 5, Stock: 60, Visits: 250, Concurrency: 30, PerCustomer: 3, Lost: 0.15, Seed: 7, Timeout: 5 * time.Second,
		Patience: 5 * time.Second, SettleLimit: 5 * time.Second,
	}
}

// Without a feed nothing is said of events, and without a limit nothing of limits: neither that they are right nor that
// they are missing.
func TestWithoutAFeedEventsAreNotChecked(t *testing.T) {
	t.Parallel()
	var r *checkout.Result
	p := plan()
	p.PerCustomer = -1
	synctest.Test(t, func(t *testing.T) { r = newShop(t).sell(t, p, nil) })
	for _, name := range []string{checkout.CheckEvents, checkout.CheckLimits} {
		if c := r.Verdict.Check(name); c.Failed > 0 || c.NotChecked.EN == "" || c.NotChecked.ZH == "" {
			t.Errorf("%+v", c)
		}
	}
	if r.Verdict.Finding != loadtest.Holds {
		t.Errorf("%s: %+v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// A shop that is right is found to be so, and the customers have tried everything on it.
func TestAnHonestShop(t *testing.T) {
	t.Parallel()
	var history bytes.Buffer
	p := plan()
	p.History = &history
	_, r := run(t, p)
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
	if !strings.Contains(r.Verdict.Sentence.EN, fmt.Sprintf("All %d orders", f.Orders)) {
		t.Errorf("of %d orders: %s", f.Orders, r.Verdict.Sentence)
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
	// One that was cut off is no pass, whether it ends within a line or after one.
	lines := bytes.LastIndexByte(history.Bytes()[:history.Len()/2], '\n') + 1
	for length, want := range map[int]error{lines: nil, lines + 5: loadtest.ErrCut} {
		cut, err := checkout.ReadHistory(bytes.NewReader(history.Bytes()[:length]))
		if !errors.Is(err, want) || cut.Verdict.Finding == loadtest.Holds {
			t.Errorf("%d bytes of a history: %v, %v; want %v", length, cut.Verdict.Finding, err, want)
		}
	}
}

// A reading of the books that takes longer than a shop may be late is not the last one, if it shows something that may
// come right: the ledger was read at its beginning, and the reservations at its end.
func TestALongReadingIsRepeated(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Visits = 60
	if s, r := run(t, p, "dawdles"); r.Verdict.Finding != loadtest.Holds || s.faults["dawdles"] {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// A reservation of two SKUs that expires after the book of one was read, and before that of the other is, looks as if
// half of it had been given back. That is a matter of the reading, so the books are read again.
func TestBooksThatMoveWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	p := plan()
	// Of fewer visits, one run in six left no reservation of both SKUs behind.
	p.SKUs, p.Stock, p.Visits, p.Quantities = 2, 5000, 900, []int64{1}
	s, r := run(t, p, "reads-late")
	if s.late == 0 {
		t.Fatal("no reservation expired while the books were read")
	}
	if r.Verdict.Finding != loadtest.Holds {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// What was reserved before the run may expire during it: the customer of another run went away.
func TestAReservationOfAnEarlierRunExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAReservationOfAnEarlierRun)
}

func testAReservationOfAnEarlierRun(t *testing.T) {
	s := newShop(t)
	s.now = time.Now()
	s.stock[first] = &checkout.Counts{SKU: first}
	s.move(first, "set", 2, "", "", "")
	s.move(first, "reserve", 2, "old", "ann", "")
	s.reservations["old"] = &checkout.Thing{
		ReservationID: "old", Customer: "ann", State: "held", Lines: []checkout.Line{{SKU: first, Quantity: 2}},
		ExpiresAt: s.now.Add(time.Hour),
	}
	p := plan()
	p.Visits, p.SKUs = 60, 1
	shopping, err := checkout.Open(t.Context(), []*loadtest.Client{s.client(t, p.Concurrency)}, p, s)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.reservations["old"].ExpiresAt = time.Now()
	s.mu.Unlock()
	shopping.Sell(t.Context())
	r, err := shopping.Judge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict.Finding != loadtest.Holds || r.Books[0].Before.Reserved != 2 ||
		s.reservations["old"].State != "expired" {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
	// It gives back no more than was reserved.
	r.Evidence.Books[0].Before.Reserved, r.Evidence.Books[0].Before.Available = 1, r.Books[0].Before.Available+1
	if v := checkout.Judge(&r.Evidence); v.Finding == loadtest.Holds || v.Check(checkout.CheckSettled).Failed == 0 {
		t.Errorf("more than was reserved: %s: %v", v.Sentence, failures(&v))
	}
}

// Of books that never come to rest nothing can be proved, whatever they look like. The history says so, too.
func TestBooksThatNeverRest(t *testing.T) {
	t.Parallel()
	var history bytes.Buffer
	p := plan()
	p.Visits, p.SettleLimit, p.History = 60, time.Second, &history
	_, r := run(t, p, "never-rests", "counts-wrong")
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

// A posting shop posts its events to a receiver, as a service with a webhook does, when they are asked for. The last
// one of each page comes twice: its answer was lost.
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
		text, _ := json.Marshal(e.Data)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.receiver.Name()+"/events", bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Webhook-Id", strings.ReplaceAll(e.ID, ".", "~"))
		resp, err := http.DefaultClient.Do(req)
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

// Events that are behind after a fault are waited for as long as they go on coming: the limit is for a standstill.
func TestEventsThatAreBehindAreWaitedFor(t *testing.T) {
	t.Parallel()
	p := plan()
	p.SKUs, p.Visits, p.SettleLimit = 1, 20, time.Second
	var r *checkout.Result
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		r = s.sell(t, p, &late{shop: s, told: make(map[string]int)})
	})
	if n := len(r.Books[0].Movements); n < 8 {
		t.Fatalf("only %d movements: they are announced within the limit", n)
	}
	if r.Verdict.Finding != loadtest.Holds {
		t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
	}
}

// Events that a webhook delivers are judged, too: one that comes again is no fault. What is no event is refused.
func TestEventsOfAWebhook(t *testing.T) {
	t.Parallel()
	receiver, err := checkout.NewReceiver("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := receiver.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := newShop(t)
	p := plan()
	p.Visits = 60
	r := s.sell(t, p, &posting{shop: s, receiver: receiver, posted: make(map[string]uint64)})
	if r.Verdict.Finding != loadtest.Holds || r.Figures.Events != r.Figures.Movements || r.Figures.Repeats == 0 {
		t.Errorf("%s, %+v: %v", r.Verdict.Sentence, r.Figures, failures(&r.Verdict))
	}
	for _, body := range []string{"", "{}", "["} {
		resp, err := http.Post(receiver.Name(), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %s", body, resp.Status)
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
		"too-many-lies":     checkout.CheckRefusals,
		"sweeps-early":      checkout.CheckExpiry,
		"never-sweeps":      checkout.CheckExpiry,
		"confirms-expired":  checkout.CheckOnce,
		"no-limits":         checkout.CheckLimits,
		"loses-events":      checkout.CheckEvents,
		"alters-events":     checkout.CheckEvents,
		"swaps-events":      checkout.CheckEvents,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := plan()
			switch fault { // the judge waits for what does not come
			case "loses-events":
				p.Visits, p.SettleLimit = 60, time.Second
			case "never-sweeps": // few visits leave a reservation to its end
				p.Visits, p.SettleLimit = 400, time.Second
			case "cancels-confirmed": // few visits cancel what they have confirmed
				p.Visits = 400
			}
			_, r := run(t, p, fault)
			if r.Verdict.Finding != loadtest.Broken || r.Verdict.Check(check).Failed == 0 {
				t.Errorf("%s: %v", r.Verdict.Sentence, failures(&r.Verdict))
			}
			for _, c := range r.Verdict.Checks { // all failures are counted, and the first three kept
				if len(c.Examples) != min(c.Failed, 3) {
					t.Errorf("%s: %d failures with %d examples", c.Name, c.Failed, len(c.Examples))
				}
			}
		})
	}
}

// A shop may limit reservations. The judge believes each of its limits, if the books show that it was reached.
func TestTheLimitsOfReservationsAreJustified(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"open", "units"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			_, r := run(t, plan(), "few-"+of)
			base := &r.Evidence
			if v := checkout.Judge(base); v.Finding != loadtest.Holds {
				t.Fatalf("%s: %v", v.Sentence, failures(&v))
			}
			refusal := slices.IndexFunc(base.Records, func(r checkout.Record) bool {
				var units int64
				for _, l := range r.Lines {
					units += l.Quantity
				}
				// A cart alone may have too many units.
				return r.Problem == "too_many_reservations" && r.Attempt == 1 && (of == "open" || units <= r.Limit)
			})
			if refusal < 0 {
				t.Fatal("nothing was refused")
			}
			for name, change := range map[string]func(e *checkout.Evidence, r *checkout.Record){
				"a limit far away": func(_ *checkout.Evidence, r *checkout.Record) { r.Limit = 1000 },
				"before the first": func(e *checkout.Evidence, r *checkout.Record) {
					r.SentAt = e.Records[0].SentAt.Add(-time.Second)
					r.DoneAt = r.SentAt
				},
				"after the end": func(e *checkout.Evidence, r *checkout.Record) {
					r.SentAt = e.ReadAt.Add(time.Hour)
					r.DoneAt = r.SentAt
				},
				"of an order": func(_ *checkout.Evidence, r *checkout.Record) { r.Op, r.TTL = checkout.OpPlace, 0 },
				"of nothing":  func(_ *checkout.Evidence, r *checkout.Record) { r.Of = "" },
			} {
				e := clone(base)
				change(e, &e.Records[refusal])
				if v := checkout.Judge(e); v.Check(checkout.CheckRefusals).Failed == 0 {
					t.Errorf("%s: %s", name, v.Sentence)
				}
			}
		})
	}
}
