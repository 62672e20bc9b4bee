package checkout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"example.com/stock/loadtest"
)

// NewClient returns a client of an order service that is told a secret to check tokens with. It signs those of the
// customers, and one of the staff. See loadtest.NewClient.
func NewClient(address, secret string, concurrency int) (*loadtest.Client, error) {
	staff, err := loadtest.SignToken(secret, "staff", "stock:read stock:write")
	if err != nil {
		return nil, err
	}
	c, err := loadtest.NewClient(address, staff, concurrency)
	if err != nil {
		return nil, err
	}
	c.Carry(loadtest.NewSigner(secret))
	return c, nil
}

// A Line asks for units of one SKU.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// A Thing is an order or a reservation, as the service shows it.
type Thing struct {
	OrderID       string    `json:"order_id,omitempty"`
	ReservationID string    `json:"reservation_id,omitempty"`
	Customer      string    `json:"customer,omitempty"`
	Lines         []Line    `json:"lines,omitempty"`
	State         string    `json:"state,omitempty"`
	Late          bool      `json:"late,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	ExpiresAt     time.Time `json:"expires_at,omitzero"` // of a reservation
}

// maxKept is the largest number of lines of a Thing.
const maxKept = 1000

// bound cuts off the long texts of t, so that a shop cannot fill the memory of the judge. What cannot be cut off is an
// error.
func (t *Thing) bound() error {
	long := max(len(t.OrderID), len(t.ReservationID))
	for i := range t.Lines {
		long = max(long, len(t.Lines[i].SKU))
	}
	switch {
	case long > loadtest.MaxID:
		return fmt.Errorf("an id has %d bytes, of which no more than %d are kept", long, loadtest.MaxID)
	case len(t.Lines) > maxKept:
		return fmt.Errorf("there are %d lines, of which no more than %d are kept", len(t.Lines), maxKept)
	}
	t.Customer, t.State = loadtest.Clip(t.Customer), loadtest.Clip(t.State)
	return nil
}

// Counts are the terms of the law after the movement Number.
type Counts struct {
	SKU       string `json:"sku"`
	Received  int64  `json:"received"`
	Available int64  `json:"available"`
	Reserved  int64  `json:"reserved"`
	Sold      int64  `json:"sold"`
	Number    uint64 `json:"number"`
}

// Add adds a movement.
func (c *Counts) Add(m *Movement) {
	c.Received += m.Received
	c.Available += m.Available
	c.Reserved += m.Reserved
	c.Sold += m.Sold
	c.Number = m.Number
}

// Lawful reports whether received = available + reserved + sold, and no term is below zero.
func (c *Counts) Lawful() bool {
	return c.Received == c.Available+c.Reserved+c.Sold && min(c.Received, c.Available, c.Reserved, c.Sold) >= 0
}

// A Movement is a row of the ledger.
type Movement struct {
	SKU       string    `json:"sku"`
	Number    uint64    `json:"number"`
	Kind      string    `json:"kind"`
	Received  int64     `json:"received"`
	Available int64     `json:"available"`
	Reserved  int64     `json:"reserved"`
	Sold      int64     `json:"sold"`
	Ref       string    `json:"ref,omitempty"`
	Customer  string    `json:"customer,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	At        time.Time `json:"at"`
}

// bounded returns m with its long texts cut off.
func (m Movement) bounded() Movement {
	for _, text := range []*string{&m.SKU, &m.Kind, &m.Ref, &m.Customer, &m.Reason} {
		*text = loadtest.Clip(*text)
	}
	return m
}

// An Op is a request that changes something.
type Op string

// The operations.
const (
	OpPlace   Op = "place"
	OpReserve Op = "reserve"
	OpConfirm Op = "confirm"
	OpRelease Op = "cancel-reservation"
	OpExtend  Op = "extend"
	OpCancel  Op = "cancel-order"
	OpDeliver Op = "deliver"
)

// Ops returns all operations, in the order in which reports list them.
func Ops() []Op { return []Op{OpPlace, OpReserve, OpConfirm, OpExtend, OpRelease, OpCancel, OpDeliver} }

// An Outcome is how an attempt ended, as far as its customer can tell.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // final: not available, or no longer
	Busy    Outcome = "busy"    // no effect; the same request can be sent again
	Unknown Outcome = "unknown" // no usable reply: it may have had an effect
)

// Outcomes returns all outcomes, in the order in which reports list them.
func Outcomes() []Outcome { return []Outcome{Done, Refused, Busy, Unknown} }

// An Ask is the content of an attempt. It is the same for all attempts of a request.
type Ask struct {
	Op       Op     `json:"op"`
	Customer string `json:"customer,omitempty"`
	Key      string `json:"key,omitempty"`         // Idempotency-Key; "": none
	Ref      string `json:"ref,omitempty"`         // the order or reservation concerned; for a delivery, the SKU
	Lines    []Line `json:"lines,omitempty"`       // of a cart
	TTL      int64  `json:"ttl_seconds,omitempty"` // of a reservation
	Misuse   bool   `json:"misuse,omitempty"`      // another cart with a used key: it must be refused
}

// A Record is one attempt with its reply: one line of a history. Times are the start of the run by the wall clock plus
// elapsed monotonic time.
type Record struct {
	Seq     int `json:"seq"`     // from 1, in the order in which attempts ended
	Request int `json:"request"` // attempts of the same request share it
	Attempt int `json:"attempt"` // from 1
	Worker  int `json:"worker"`
	Visit   int `json:"visit"`
	Way     Way `json:"way"`
	Ask
	Cut      bool      `json:"cut,omitempty"`   // the customer broke the connection before the reply
	Again    bool      `json:"again,omitempty"` // the customer repeated the request after a reply
	Settling bool      `json:"settling,omitempty"`
	SentAt   time.Time `json:"sent_at"`
	DoneAt   time.Time `json:"done_at"`
	Outcome  Outcome   `json:"outcome"`
	Status   int       `json:"status,omitempty"`
	Problem  string    `json:"problem,omitempty"`
	Of       string    `json:"of,omitempty"`    // with too_many_reservations: what is limited
	Limit    int64     `json:"limit,omitempty"` // of it
	Error    string    `json:"error,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Replayed bool      `json:"replayed,omitempty"`
	Got      *Thing    `json:"got,omitempty"`    // the order or reservation in the reply
	Number   uint64    `json:"number,omitempty"` // of the movement of a delivery
}

// check returns an error if r is impossible.
func (r *Record) check() error {
	switch {
	case r.Seq < 1 || r.Request < 1 || r.Attempt < 1:
		return errors.New("seq, request and attempt must be 1 or more")
	case r.Outcome != Done && r.Outcome != Refused && r.Outcome != Busy && r.Outcome != Unknown:
		return fmt.Errorf("outcome %q is not one of %v", r.Outcome, Outcomes())
	case r.SentAt.IsZero() || r.DoneAt.Before(r.SentAt):
		return errors.New("sent_at and done_at must be set, and done_at not earlier")
	case r.Outcome == Done && r.Op != OpDeliver && r.Got == nil:
		return errors.New("what was done must have got an order or a reservation")
	}
	return nil
}

// Path returns the path for the POST of an ask.
func (a *Ask) Path() string {
	switch a.Op {
	case OpPlace:
		return "/v1/orders"
	case OpReserve:
		return "/v1/reservations"
	case OpConfirm:
		return "/v1/reservations/" + url.PathEscape(a.Ref) + "/confirm"
	case OpRelease:
		return "/v1/reservations/" + url.PathEscape(a.Ref) + "/cancel"
	case OpExtend:
		return "/v1/reservations/" + url.PathEscape(a.Ref) + "/extend"
	case OpCancel:
		return "/v1/orders/" + url.PathEscape(a.Ref) + "/cancel"
	default:
		return "/v1/stock/" + url.PathEscape(a.Ref) + "/adjustments"
	}
}

// body returns what is sent as JSON; nil: nothing is.
func (a *Ask) body() map[string]any {
	switch a.Op {
	case OpDeliver:
		// The reason is the key, by which the judge finds the delivery in the ledger.
		return map[string]any{"delta": a.Lines[0].Quantity, "reason": a.Key}
	case OpPlace:
		return map[string]any{"lines": a.Lines}
	case OpReserve:
		return map[string]any{"lines": a.Lines, "ttl_seconds": a.TTL}
	case OpExtend:
		return map[string]any{"ttl_seconds": a.TTL}
	}
	return nil
}

// request returns the request of one attempt, with the token of its customer, or of the staff for a delivery.
func (a *Ask) request(ctx context.Context, c *loadtest.Client, id string) (*http.Request, error) {
	var text []byte
	body := a.body()
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL()+a.Path(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	// Otherwise net/http itself may retry a request with a key, which the history would not show.
	req.GetBody = nil
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Request-Id", id)
	if a.Key != "" {
		req.Header.Set("Idempotency-Key", a.Key)
	}
	if a.Op == OpDeliver {
		req.Header.Set("Authorization", "Bearer "+c.Token())
		return req, nil
	}
	return req, c.Identify(req, a.Customer)
}

// errCutOff is the cause of a request whose customer broke the connection.
var errCutOff = errors.New("the customer broke the connection off")

// Send makes one attempt, and returns its record, without the times. With cut, it closes the connection that long after
// the request was written, or when the reply begins, whichever is first. Then the customer cannot know whether the
// service has executed the request.
func Send(ctx context.Context, c *loadtest.Client, a Ask, cut *time.Duration, id string) (r Record) {
	r.Ask = a
	ctx, drop := context.WithCancelCause(ctx)
	defer drop(nil)
	if cut != nil {
		r.Cut = true
		var once sync.Once
		var timer *time.Timer
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) {
				once.Do(func() { timer = time.AfterFunc(*cut, func() { drop(errCutOff) }) })
			},
			GotFirstResponseByte: func() { drop(errCutOff) },
		})
		defer func() {
			once.Do(func() {}) // from here on, timer is not written
			if timer != nil {
				timer.Stop()
			}
		}()
	}
	req, err := a.request(ctx, c, id)
	if err != nil {
		r.Outcome, r.Error = Busy, err.Error()
		return r
	}
	reply := c.Attempt(req, func(ans *loadtest.Answer) loadtest.Reply {
		r.read(ans)
		return loadtest.Reply{}
	})
	if cut != nil && r.Outcome != "" {
		// The reply came before the connection was closed. The customer must not see it.
		r.Outcome, r.Problem, r.Got, r.Replayed, r.Number, r.Error = Unknown, "", nil, false, 0, errCutOff.Error()
		r.Of, r.Limit = "", 0
	}
	switch {
	case r.Outcome != "":
	case reply.Outcome == loadtest.Failed:
		r.Outcome, r.Error = Busy, reply.Error // not sent
	default:
		r.Outcome, r.Status, r.Error = Unknown, reply.Status, reply.Error
	}
	return r
}

// read fills in the content of a complete reply.
func (r *Record) read(ans *loadtest.Answer) {
	r.Status, r.Instance = ans.Status, loadtest.Clip(ans.Header.Get("X-Instance"))
	if p := ans.Problem(); p != nil {
		r.Outcome, r.Problem, r.Error = outcomeOf(p), p.Name(), p.Detail
		if r.Problem == tooMany {
			r.Of, r.Limit = p.Of, p.Limit
		}
		return
	}
	if ans.Status != http.StatusOK && ans.Status != http.StatusCreated {
		r.Outcome = Unknown
		r.Error = fmt.Sprintf("status %d with %s, which is no reply of ours", ans.Status, ans.Kind())
		return
	}
	var got struct {
		Thing
		Number uint64 `json:"number"`
	}
	err := json.Unmarshal(ans.Body, &got)
	if err == nil {
		err = got.bound()
	}
	if err != nil {
		r.Outcome, r.Error = Unknown, "decode the reply: "+loadtest.Clip(err.Error())
		return
	}
	r.Outcome, r.Replayed = Done, ans.Header.Get("Idempotent-Replayed") == "true"
	if r.Op == OpDeliver {
		r.Number = got.Number
		return
	}
	r.Got = &got.Thing
}

// outcomeOf returns what a refusal means for the customer.
func outcomeOf(p *loadtest.Problem) Outcome {
	switch p.Outcome() {
	case loadtest.Busy:
		return Busy
	case loadtest.Unknown:
		return Unknown
	}
	if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
		return Busy // a server is down, and nothing was written
	}
	return Refused
}

// ReadCounts reads the counters of a SKU.
func ReadCounts(ctx context.Context, c *loadtest.Client, sku string) (out Counts, err error) {
	err = c.Call(ctx, http.MethodGet, "/v1/stock/"+url.PathEscape(sku), nil, &out)
	return out, err
}

// prepare sets the stock of a SKU and the limit per customer, and returns the counters.
func prepare(ctx context.Context, c *loadtest.Client, sku string, units, limit int64) (now Counts, err error) {
	path := "/v1/stock/" + url.PathEscape(sku)
	if err = c.Call(ctx, http.MethodPut, path, map[string]int64{"quantity": units}, nil); err != nil {
		return now, err
	}
	err = c.Call(ctx, http.MethodPut, path+"/policy", map[string]int64{"per_customer": limit}, &now)
	return now, err
}

const pageSize = 1000 // of movements and orders

// ReadMovements reads the movements of a SKU with numbers from after+1 to last.
func ReadMovements(ctx context.Context, c *loadtest.Client, sku string, after, last uint64) ([]Movement, error) {
	var list []Movement
	for after < last {
		var page struct {
			Movements []Movement `json:"movements"`
		}
		path := fmt.Sprintf("/v1/stock/%s/movements?limit=%d&cursor=%d", url.PathEscape(sku), pageSize, after)
		if err := c.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		for _, m := range page.Movements {
			if m.Number > last {
				return list, nil
			}
			list = append(list, m.bounded())
		}
		if len(list) > loadtest.MaxOrders {
			return nil, c.Errorf("answers %s with more than %d movements, which are not read", path, loadtest.MaxOrders)
		}
		if len(page.Movements) == 0 || page.Movements[len(page.Movements)-1].Number <= after {
			return list, nil // the judge reports missing ones
		}
		after = page.Movements[len(page.Movements)-1].Number
	}
	return list, nil
}

// ReadOrders reads all orders of a customer.
func ReadOrders(ctx context.Context, c *loadtest.Client, customer string) (list []Thing, err error) {
	err = c.Pages("/v1/orders", pageSize, func(path string) (next string, n int, err error) {
		var page struct {
			Orders []Thing `json:"orders"`
			Next   string  `json:"next"`
		}
		if err := c.CallAs(ctx, customer, http.MethodGet, path, nil, &page); err != nil {
			return "", 0, err
		}
		for i := range page.Orders {
			if err := page.Orders[i].bound(); err != nil {
				return "", 0, c.Errorf("answers %s with an order that cannot be kept: %w", path, err)
			}
		}
		list = append(list, page.Orders...)
		return page.Next, len(list), nil
	})
	return list, err
}

// ReadReservation reads one reservation. If there is none, the Thing has no id.
func ReadReservation(ctx context.Context, c *loadtest.Client, customer, id string) (out Thing, err error) {
	path := "/v1/reservations/" + url.PathEscape(id)
	err = c.CallAs(ctx, customer, http.MethodGet, path, nil, &out)
	if err == nil {
		if err = out.bound(); err != nil {
			err = c.Errorf("answers %s with what cannot be kept: %w", path, err)
		}
	}
	var problem *loadtest.Problem
	if errors.As(err, &problem) && problem.Name() == "not_found" {
		return Thing{}, nil
	}
	return out, err
}
