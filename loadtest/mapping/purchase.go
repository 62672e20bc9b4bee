package mapping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// taken is the outcome of a request that sells, and to which the shop replies before it has decided.
const taken loadtest.Outcome = "pending"

// A purchase is one sale in progress. Before the step that sells, nothing is sold. That step, or the one after it if
// its reply is pending, decides. What comes after that changes nothing.
type purchase struct {
	*Target
	request loadtest.Request
	values  values
	began   time.Time

	reply   loadtest.Reply // the result, if the purchase ends here
	open    bool           // the shop has taken the order, and has not decided
	decided int            // steps up to the one whose reply is the result
	steps   []loadtest.Step
	paused  time.Duration // because the API was busy
}

// A turn is the reply to one request of a purchase, and what that request alone came to.
type turn struct {
	loadtest.Reply
	source
	text string // the beginning of the reply, for errors
}

// Deduct sells by the steps of the mapping, each sent once. Only those that do not sell may be repeated.
func (t *Target) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	p := &purchase{Target: t, request: r, values: t.values(r.SKU), began: time.Now()}
	p.values[varQuantity], p.values[varRequest] = strconv.FormatInt(r.Quantity, 10), r.RequestID
	if err := t.ready(p.values); err != nil {
		return loadtest.Reply{Outcome: loadtest.Failed, Error: err.Error()}
	}
	for i := range t.deduct {
		got := p.exchange(ctx, &t.deduct[i])
		further := p.conclude(i, got)
		if t.trial != nil {
			t.trial.took(ctx, p, i, &got)
		}
		if !further {
			break
		}
	}
	if len(t.deduct) > 1 {
		p.reply.Purchase = &loadtest.Purchase{Steps: p.steps, Sells: t.sells + 1, Decided: p.decided}
	}
	return t.client.Keep(p.reply)
}

// conclude goes on from the reply to a step. It returns false if the purchase ends with it.
func (p *purchase) conclude(i int, got turn) (further bool) {
	s := &p.deduct[i]
	got.Error = p.named(s, got.Error)
	if i > p.sells && !p.open {
		return p.after(s, &got)
	}
	p.decided = i + 1
	if name, ok := s.instance.scalar(got.source); ok && !s.instance.empty() {
		got.Instance = p.veil.over(name)
	}
	got.Instance = cmp.Or(got.Instance, p.reply.Instance)
	got.OrderID = p.reply.OrderID
	if id, ok := s.orderID.scalar(got.source); ok && !s.orderID.empty() && got.worked() {
		got.OrderID = p.veil.over(id)
	}
	p.reply = got.Reply
	if i < p.sells {
		return p.before(s, &got)
	}
	return p.decide(s, &got)
}

// worked reports whether the reply says that the step did what it is for.
func (t *turn) worked() bool { return t.Outcome == loadtest.Accepted || t.Outcome == taken }

// before concludes from the reply to a step after which nothing is sold.
func (p *purchase) before(s *step, got *turn) (further bool) {
	switch p.reply.Outcome {
	case loadtest.SoldOut, loadtest.Busy:
		return false
	case loadtest.Accepted:
		err := s.save(got.source, p.values)
		if err == nil {
			return true
		}
		p.reply.Error = p.named(s, fmt.Sprintf("the reply %v: %s", err, got.text))
	}
	p.reply.Outcome = loadtest.Failed
	return false
}

// decide concludes from the reply to the step that sells, or to the one that tells what became of a pending sale.
func (p *purchase) decide(s *step, got *turn) (further bool) {
	wasOpen := p.open
	p.open = p.reply.Outcome == taken
	switch p.reply.Outcome {
	case taken:
		if err := s.save(got.source, p.values); err != nil {
			p.reply.Outcome = loadtest.Unknown
			p.reply.Error = p.named(s, fmt.Sprintf("pending, but the reply %v: %s", err, got.text))
			return false
		}
		return true
	case loadtest.Accepted:
		if err := p.accept(s, got.source); err != nil {
			p.reply.Outcome, p.reply.OrderID = loadtest.Unknown, ""
			p.reply.Error = p.named(s, fmt.Sprintf("accepted, but the reply %v: %s", err, got.text))
			return false
		}
		if err := s.save(got.source, p.values); err != nil {
			p.reply.Error = p.named(s, fmt.Sprintf("sold, but the reply %v: %s", err, got.text))
			return false
		}
		return true
	case loadtest.SoldOut:
		return false
	}
	if wasOpen {
		p.reply.Outcome, p.reply.Wait = loadtest.Unknown, 0
	}
	return false
}

// after goes on after the sale was decided.
func (p *purchase) after(s *step, got *turn) (further bool) {
	if got.Outcome == loadtest.Accepted {
		err := s.save(got.source, p.values)
		if err == nil {
			return true
		}
		got.Error = p.named(s, fmt.Sprintf("the reply %v: %s", err, got.text))
	}
	p.reply.Error = "sold, and then: " + cmp.Or(got.Error, string(got.Outcome))
	return false
}

// named names the step in an error, if there are several.
func (p *purchase) named(s *step, err string) string {
	if err == "" || len(p.deduct) == 1 {
		return err
	}
	return fmt.Sprintf("step %s: %s", s.name, err)
}

// exchange sends the request of a step, and again while the API is busy or the mapping says so.
func (p *purchase) exchange(ctx context.Context, s *step) (got turn) {
	began, before := time.Now(), p.paused
	ended := repeated(ctx, s.repeat, &p.paused, func() (pause, bool) {
		got = p.once(ctx, s)
		switch {
		case s.sells || got.Status == 0 || got.Outcome == loadtest.SoldOut:
			return pause{}, false
		case got.Outcome == loadtest.Busy:
			length, _, _ := s.busy.pause(got.Status, got.source)
			return pause{length, true}, true
		}
		return p.goesOn(s.repeat, got.Status, got.source)
	})
	switch {
	case errors.Is(ended, errTooBusy):
		got.Error = fmt.Sprintf("the API is busy, and has been for %v", p.paused.Round(time.Second))
	case errors.Is(ended, errTooLong):
		got.Outcome = loadtest.Failed
		got.Error = fmt.Sprintf("not decided within %v: %s", s.repeat.limit, got.text)
	case ended != nil:
		got.Outcome, got.Error = loadtest.Failed, ended.Error()
	}
	p.timed(s, began, p.paused-before)
	return got
}

// timed notes how long a step took.
func (p *purchase) timed(s *step, began time.Time, busy time.Duration) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	p.steps = append(p.steps, loadtest.Step{
		Name: s.name, AtMS: ms(began.Sub(p.began)), TookMS: ms(time.Since(began) - busy), PausedMS: ms(busy),
	})
}

// once sends the request of a step.
func (p *purchase) once(ctx context.Context, s *step) (got turn) {
	ctx, cancel := p.request.Limit(ctx)
	defer cancel()
	req, err := p.Target.request(ctx, &s.question, p.values)
	if err != nil {
		got.Reply = loadtest.Reply{Outcome: loadtest.Failed, Error: err.Error()}
		return got
	}
	if s.sells {
		req.Header.Set("X-Request-Id", p.request.RequestID)
	}
	if s.sells && req.Body == http.NoBody && req.Method == http.MethodGet {
		// net/http repeats a GET without a body by itself when the server closes the connection. That would sell twice.
		req.Body = io.NopCloser(strings.NewReader(""))
	}
	got.Reply = p.client.Attempt(req, func(ans *loadtest.Answer) loadtest.Reply {
		got.source = source{document(ans.Body), ans.Header, p.values, p.veil}
		got.text = p.veil.beginning(ans)
		return p.classify(s, got.source, ans)
	})
	got.Error = p.veil.over(got.Error) // of the connection
	return got
}

// classify interprets a reply to a step. A reply that the mapping does not know is a failure only if its status says
// that the request was refused (4xx). After any other status, units may have been sold.
func (t *Target) classify(s *step, got source, ans *loadtest.Answer) loadtest.Reply {
	reply := loadtest.Reply{Status: ans.Status, Instance: t.veil.over(ans.Header.Get("X-Instance"))}
	var meant []loadtest.Outcome
	for _, o := range []struct {
		loadtest.Outcome
		rules
	}{
		{loadtest.Busy, s.busy}, {loadtest.SoldOut, s.soldOut}, {taken, s.pending}, {loadtest.Accepted, s.accepted},
	} {
		if s.byDefault && o.Outcome == loadtest.Accepted && len(meant) > 0 {
			continue
		}
		if t.matches(o.rules, ans.Status, got) {
			meant = append(meant, o.Outcome)
		}
	}
	switch {
	case len(meant) > 1:
		slices.Sort(meant)
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
	default:
		reply.Outcome = meant[0]
		if pause, told, busy := s.busy.pause(ans.Status, got); busy && told {
			reply.Wait = pause
		}
	}
	return reply
}

// accept fills in what a reply tells of the sale that it accepts.
func (p *purchase) accept(s *step, got source) error {
	for i := range p.decided {
		if of := &p.deduct[i]; !of.orderID.empty() && p.reply.OrderID == "" {
			return fmt.Errorf("has nothing at %s (%s.order_id)", of.orderID.text, of.field)
		}
	}
	p.reply.OrderID = cmp.Or(p.reply.OrderID, p.request.RequestID) // stands in for it if the API has none
	saw, err := s.saw(got, p.request.Quantity, p.past(p.request.SKU))
	if err != nil {
		return err
	}
	p.reply.Receipt = &saw
	return nil
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
