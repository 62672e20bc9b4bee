package lab

import (
	"cmp"
	"context"
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

// A Request has the options of a request for one unit of the case's SKU, with the case's strategy and store. The zero
// value is a plain request.
type Request struct {
	Pause      []string       // stop at these points until Call.Go
	Wait       *time.Duration // longest wait for the lock; nil: the strategy's default
	Unfenced   bool           // fencing=off
	IgnoreLoss bool           // heed_loss=off: continue after the lease is lost
	Nested     string         // holder, stranger
	Hold       time.Duration  // pause between read and write
	Strategy   string         // in place of the case's
	SKU        string         // in place of the case's
	Key        string         // Idempotency-Key; "": none
	Units      int64          // 0: one
}

// Once returns the Wait of a request that tries once.
func Once() *time.Duration { return For(0) }

// For returns the Wait of a request that waits for the lock for up to d.
func For(d time.Duration) *time.Duration { return &d }

// A pending request has been sent to an instance.
type pending struct {
	Who string // A, B, ...: its name in the timeline
	App *App

	b     *Testbed
	done  chan struct{} // closed when the reply has arrived
	noted bool          // the reply is in the timeline
}

func (b *Testbed) pending(app *App, who string) pending {
	return pending{Who: who, App: app, b: b, done: make(chan struct{})}
}

// Answered reports whether the reply has arrived.
func (p *pending) Answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// replyLimit is how long a reply may take.
const replyLimit = Patience + 30*time.Second

// await waits for the reply.
func (p *pending) await() {
	select {
	case <-p.done:
	case <-time.After(replyLimit):
		p.b.Fatalf("%s had no reply within %v", p.Who, replyLimit)
	case <-p.b.Ctx.Done():
		p.b.Fatalf("wait for the reply to %s: %w", p.Who, context.Cause(p.b.Ctx))
	}
}

// A Call is a request to the demonstration in progress.
type Call struct {
	pending
	ID string // X-Request-Id

	cancel context.CancelFunc
	record loadtest.Record // complete when done is closed

	at    string    // the pause point at which it waits, or ""
	since time.Time // when it stopped there
	inner time.Time // when it was first seen in the critical section
	over  time.Time // when it had left the critical section or got its reply
}

// Begin sends a request of customer who to an instance, and does not wait for the reply.
func (b *Testbed) Begin(app *App, who string, r Request) *Call {
	c := &Call{pending: b.pending(app, who), ID: b.SKU + "." + who}
	ctx, cancel := context.WithCancel(b.Ctx)
	c.cancel = cancel
	strategy := b.Strategy
	if r.Strategy != "" {
		strategy = b.another(r.Strategy)
	}
	request := loadtest.Request{
		Endpoint:       strategy.Endpoint,
		Store:          b.Store(),
		SKU:            cmp.Or(r.SKU, b.SKU),
		Quantity:       cmp.Or(r.Units, 1),
		Wait:           r.Wait,
		RequestID:      c.ID,
		IdempotencyKey: r.Key,
		Lab: loadtest.LabOptions{
			Pause:      r.Pause,
			Hold:       r.Hold,
			Unfenced:   r.Unfenced,
			IgnoreLoss: r.IgnoreLoss,
			Nested:     r.Nested,
		},
	}
	c.record = loadtest.Record{
		Seq: len(b.calls) + 1, RequestID: c.ID, Strategy: strategy.Name, Store: b.Store(), SKU: request.SKU,
		Quantity: request.Quantity, SentAt: time.Now(),
	}
	b.calls = append(b.calls, c)
	b.timeline.Record(CaseEvent{At: c.record.SentAt, Lane: app.Name, Kind: Sent, Who: who, To: app.Name},
		b.sent(app, who, &request))
	b.owned.Go(func() {
		defer close(c.done)
		c.record.Reply = app.client.Deduct(ctx, request)
		c.record.DoneAt = time.Now()
	})
	return c
}

// BeginPaused sends a request that stops at a pause point, and returns when the request has stopped there.
func (b *Testbed) BeginPaused(app *App, who, point string, r Request) *Call {
	r.Pause = []string{point}
	return b.Begin(app, who, r).Paused(point)
}

// Sell sends a request and waits for the reply.
func (b *Testbed) Sell(app *App, who string, r Request) loadtest.Reply {
	return b.Begin(app, who, r).Reply()
}

// another returns the strategy of that name, which need not be the case's.
func (b *Testbed) another(name string) Strategy {
	all, err := b.fleet.catalogue(b.Ctx)
	b.Must("ask what strategies there are", err)
	strategy, ok := all[name]
	b.Require(ok, "the service has the strategy "+name)
	return strategy
}

// sent describes a request by its optional parameters.
func (b *Testbed) sent(app *App, who string, r *loadtest.Request) Text {
	query := r.Query()
	if r.SKU == b.SKU {
		query.Del("sku")
	}
	query.Del("store")
	if r.Quantity == 1 {
		query.Del("quantity")
	}
	parameters, _ := url.QueryUnescape(query.Encode())
	if r.IdempotencyKey != "" {
		parameters = strings.TrimSpace(parameters + " Idempotency-Key: " + r.IdempotencyKey)
	}
	if parameters == "" {
		return say("says.asks", "who", who, "app", app.Name)
	}
	return say("says.asks-with", "who", who, "app", app.Name, "parameters", parameters)
}

// Paused waits until the call has stopped at point. It stops the scenario if the reply comes first, or the call never
// stops there.
func (c *Call) Paused(point string) *Call {
	if !c.PausedOrAnswered(point) {
		c.b.Fatalf("%s was answered before it came to %s: %s", c.Who, point, Told(c.record.Reply))
	}
	return c
}

// PausedOrAnswered waits until the call has stopped at point or has its reply, and reports whether it stopped. For a
// request that tries once, this shows without a clock whether it got the lock.
func (c *Call) PausedOrAnswered(point string) bool {
	for began := time.Now(); ; {
		answered := c.Answered()
		if !answered {
			where, since, err := c.App.whereabouts(c.b.Ctx, c.ID)
			if err == nil && where == point {
				c.at, c.since = point, since
				if c.inner.IsZero() && point != BeforeLock && point != AfterUnlock {
					c.inner = since
				}
				if point != BeforeLock && point != AfterUnlock {
					c.b.watchHolder(c.App)
				}
				return true
			}
			answered = c.Answered()
		}
		if answered {
			c.note()
			return false
		}
		if time.Since(began) > Patience {
			c.b.Fatalf("%s did not come to %s within %v", c.Who, point, Patience)
		}
		c.b.pause(c.Who + " stands at " + point)
	}
}

// Go resumes a call that waits at a pause point.
func (c *Call) Go() *Call {
	if c.at == "" {
		c.b.Fatalf("%s is to go on, but stands nowhere", c.Who)
	}
	stood := CaseEvent{At: c.since, Until: time.Now(), Lane: c.App.Name, Kind: Paused, Who: c.Who, Point: c.at}
	c.b.timeline.Record(stood, say("says.stood-at", "who", c.Who, "point", c.at))
	c.at = ""
	c.b.Must("let "+c.Who+" go on", c.App.release(c.b.Ctx, c.ID))
	return c
}

// Reply waits for the reply. A call without a reply has an unknown outcome.
func (c *Call) Reply() loadtest.Reply {
	c.await()
	c.note()
	return c.record.Reply
}

// Settle settles the order of a call with an unknown outcome, as its customer would. It records the result as evidence,
// and reports whether the order was written.
func (c *Call) Settle() (written bool) {
	b, id := c.b, c.Reply().OrderID
	if id == "" {
		b.Fatalf("%s was told no order to settle: %s", c.Who, Told(c.record.Reply))
	}
	path := "/v1/stock/" + url.PathEscape(b.SKU) + "/orders/" + url.PathEscape(id) + "/settle?store=" + b.Store()
	var reply struct{ State string }
	b.Must("settle the order of "+c.Who, c.App.client.Call(b.Ctx, http.MethodPost, path, nil, &reply))
	said := say("says.settled", "who", c.Who, "app", c.App.Name, "state", reply.State)
	b.prove(Answer, reply.State, said)
	b.note(c.App.Name, said)
	return reply.State == "written"
}

// Record returns the request with its reply. It waits for nothing: call it after Reply.
func (c *Call) Record() loadtest.Record { return c.record }

// Took returns how long the reply took.
func (c *Call) Took() time.Duration { return c.record.DoneAt.Sub(c.record.SentAt) }

// Leave disconnects the customer before the reply. A sale that waits at a pause point in the critical section stays
// there until Go.
func (c *Call) Leave() *Call {
	c.b.note(c.App.Name, say("says.goes-away", "who", c.Who))
	at := c.at
	c.cancel()
	<-c.done
	c.note()
	c.at, c.since = at, c.record.DoneAt
	return c
}

// note records the reply, and when the instance believed that it held the lock. Further calls do nothing.
func (c *Call) note() {
	if c.noted {
		return
	}
	c.noted = true
	b, r := c.b, &c.record
	event := func(kind Kind, from, until time.Time, said Text) {
		b.timeline.Record(CaseEvent{At: from, Until: until, Lane: c.App.Name, Kind: kind, Who: c.Who}, said)
	}
	if c.at != "" {
		stood := CaseEvent{At: c.since, Until: r.DoneAt, Lane: c.App.Name, Kind: Paused, Who: c.Who, Point: c.at}
		b.timeline.Record(stood, say("says.stood-at", "who", c.Who, "point", c.at))
		c.at = ""
	}
	event(Answered, r.DoneAt, time.Time{}, say("says.answered", "who", c.Who, "answer", Told(r.Reply)))
	from, until := c.inner, r.DoneAt
	if r.Receipt != nil {
		from, until = r.AcquiredAt, r.ReleasedAt
	}
	c.over = until
	if b.Promise.Exclusive && !from.IsZero() {
		event(Lease, from, until, say("says.held", "who", c.Who))
	}
}

// abandon ends a call that the scenario left in progress.
func (c *Call) abandon(ctx context.Context) {
	c.cancel()
	<-c.done
	for c.App.Pid() != 0 { // the request may stop at one point after another, and hold its lock for minutes
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := c.App.release(ctx, c.ID)
		cancel()
		if err != nil {
			return
		}
	}
}

// Told returns the description of a reply.
func Told(r loadtest.Reply) Text {
	switch {
	case r.Receipt != nil && r.Fence > 0:
		return say("replies.sold-with-fence", "read", r.Read, "left", r.Remaining, "fence", r.Fence)
	case r.Receipt != nil:
		return say("replies.sold", "read", r.Read, "left", r.Remaining)
	case r.Problem != "":
		return same(fmt.Sprintf("%d %s", r.Status, r.Problem))
	}
	return say("replies.none", "why", loadtest.ErrorText("", strings.TrimPrefix(r.Error, "no whole reply: ")))
}
