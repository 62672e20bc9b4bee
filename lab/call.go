package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// The pause points of the service, in the order of a sale.
const (
	BeforeLock  = "before_lock"
	AfterLock   = "after_lock"
	AfterRead   = "after_read"
	BeforeWrite = "before_write"
	AfterWrite  = "after_write"
	AfterUnlock = "after_unlock"
)

// An Ask is what a customer asks for besides one unit of the case's SKU with its strategy and store. The zero value is a plain request.
type Ask struct {
	Pause    []string       // stop at these points until Call.Go
	Wait     *time.Duration // for the lock; nil: as the strategy does
	Unfenced bool           // fencing=off
	Heedless bool           // heed_loss=off: work on after the lease is lost
	Nested   string         // holder, stranger
	Quantity int64          // 0: 1
	Key      string         // Idempotency-Key
	SKU      string         // empty: the case's
	Endpoint string         // path; empty: the strategy's
}

// Once tries once and does not wait.
func Once() *time.Duration { return For(0) }

// For waits for the lock for so long.
func For(d time.Duration) *time.Duration { return &d }

// A Call is a request under way.
type Call struct {
	Who string // A, B, ...: its name in the timeline
	ID  string // X-Request-Id
	App *App

	b      *Bench
	ask    Ask
	cancel context.CancelFunc
	done   chan struct{}
	record loadtest.Record // complete when done is closed

	at    string    // the point where it stands
	since time.Time // since when
	inner time.Time // since when it is known to be in the critical section
	noted bool
}

// Begin sends a request of customer who to an instance, and does not wait for the reply.
func (b *Bench) Begin(app *App, who string, ask Ask) *Call {
	if ask.Quantity == 0 {
		ask.Quantity = 1
	}
	if ask.SKU == "" {
		ask.SKU = b.SKU
	}
	if ask.Endpoint == "" {
		ask.Endpoint = b.Strategy.Endpoint
	}
	c := &Call{Who: who, ID: b.SKU + "." + who, App: app, b: b, ask: ask, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(b.Ctx)
	c.cancel = cancel
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, app.URL+ask.Endpoint+"?"+ask.query(b.Store()).Encode(), http.NoBody)
	b.Must("ask", err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Request-Id", c.ID)
	if ask.Key != "" {
		req.Header.Set("Idempotency-Key", ask.Key)
	}
	c.record = loadtest.Record{
		Seq: len(b.calls) + 1, RequestID: c.ID, Strategy: b.Strategy.Name, Store: b.Store(), SKU: ask.SKU, Quantity: ask.Quantity, SentAt: time.Now(),
	}
	b.calls = append(b.calls, c)
	b.event(Event{At: c.record.SentAt, Lane: app.Name, Kind: Sent, Who: who}, "%s asks %s%s", who, app.Name, ask.said())
	b.owned.Go(func() {
		defer close(c.done)
		c.record.Reply = exchange(req)
		c.record.DoneAt = time.Now()
	})
	return c
}

// Sell is a whole request.
func (b *Bench) Sell(app *App, who string, ask Ask) loadtest.Reply {
	return b.Begin(app, who, ask).Reply()
}

func (a Ask) query(store string) url.Values {
	q := url.Values{"sku": {a.SKU}, "quantity": {fmt.Sprint(a.Quantity)}}
	set := func(name, value string, wanted bool) {
		if wanted {
			q.Set(name, value)
		}
	}
	set("store", store, store != "")
	set("pause", strings.Join(a.Pause, ","), len(a.Pause) > 0)
	set("fencing", "off", a.Unfenced)
	set("heed_loss", "off", a.Heedless)
	set("nested", a.Nested, a.Nested != "")
	if a.Wait != nil {
		q.Set("wait", a.Wait.String())
	}
	return q
}

func (a Ask) said() Text {
	q := a.query("")
	q.Del("sku")
	if a.Quantity == 1 {
		q.Del("quantity")
	}
	if len(q) == 0 {
		return Text{}
	}
	text, _ := url.QueryUnescape(q.Encode())
	return Text{" with " + text, "，带参数 " + text}
}

// exchange sends a request once, on a connection of its own: the instance may be killed, and nothing may be sent twice.
func exchange(req *http.Request) loadtest.Reply {
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return loadtest.Reply{Outcome: loadtest.Unknown, Error: "no reply: " + err.Error()}
	}
	defer res.Body.Close()
	reply := loadtest.Reply{Status: res.StatusCode, Instance: res.Header.Get("X-Instance")}
	var problem loadtest.Problem
	if res.StatusCode == http.StatusOK {
		var sale struct {
			OrderID string `json:"order_id"`
			loadtest.Receipt
		}
		if err := json.NewDecoder(res.Body).Decode(&sale); err != nil {
			return loadtest.Reply{Outcome: loadtest.Unknown, Error: "broken reply: " + err.Error()}
		}
		reply.Outcome, reply.OrderID, reply.Receipt = loadtest.Accepted, sale.OrderID, &sale.Receipt
		return reply
	}
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		return loadtest.Reply{Outcome: loadtest.Unknown, Status: res.StatusCode, Error: "broken reply: " + err.Error()}
	}
	reply.Outcome, reply.Problem, reply.OrderID, reply.Error = problem.Outcome(), problem.Name(), problem.OrderID, problem.Detail
	return reply
}
