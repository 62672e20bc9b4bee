package mapping

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

const (
	trialStock = 3                // units that a trial puts in stock
	trialMore  = 5                // purchases after the first, at most
	shown      = 2000             // characters of a request, or of a reply, that a trial shows
	trialWait  = 30 * time.Second // for each reply
)

// A trial uses each part of a mapping once, shows what is sent and replied, and finds what does not fit together.
type trial struct {
	*Target
	sku, lang string
	out       io.Writer
	err       error // of out

	replies  int // that arrived
	matched  map[*rule]bool
	findings []finding

	request, order string          // of the first purchase; no order: nothing was sold
	known          map[string]bool // orders listed after the first purchase, and those of later ones
	quiet          bool            // nothing is shown
	ended          *step           // the step that the last purchase ended with, and its reply
	last           source
	status         int
}

// A finding is what seems wrong in the mapping, or in the API.
type finding struct {
	entry
	text words.Text
}

// Try tries the mapping with one client: it sets 3 units, sells one, finds its order, sells until it is refused, and
// sets the stock again. It writes to out what was sent and understood, in the given language, and returns how many
// things it found wrong. The error is a TargetError if no reply arrived at all. The target cannot be used for anything
// else.
func (t *Target) Try(ctx context.Context, sku string, out io.Writer, lang string) (found int, err error) {
	r := &trial{Target: t, sku: sku, lang: lang, out: out, matched: make(map[*rule]bool), known: make(map[string]bool)}
	t.trial = r
	t.client.Observe(r.see)
	failed := r.run(ctx)
	if r.replies == 0 && failed != nil {
		return 0, failed
	}
	r.unmatched()
	for _, e := range t.unused {
		r.find(e, "unused")
	}
	r.conclude()
	return len(r.findings), r.err
}

// run is the trial. It returns the error that ended it, which is a finding, too.
func (r *trial) run(ctx context.Context) error {
	if err := r.stocks(ctx, "set"); err != nil {
		return err
	}
	r.head("sell")
	reply := r.buy(ctx)
	if reply.Outcome != loadtest.Accepted {
		r.find(r.ended.entry, "not-sold", "outcome", r.outcome(reply.Outcome), "why", reply.Error)
		return nil
	}
	if err := r.listed(ctx, &reply); err != nil {
		r.find(r.orders.entry, "failed", "why", err)
		return err
	}
	r.head("left")
	left, err := r.readBack(ctx, r.sku, trialStock-1)
	switch {
	case err != nil:
		r.find(r.read.entry, "failed", "why", err)
		return err
	case left.Quantity != trialStock-1:
		r.find(r.read.entry, "not-down", "left", left.Quantity, "want", trialStock-1)
	}
	r.sellOut(ctx)
	if len(r.set) > 0 {
		return r.stocks(ctx, "set-again")
	}
	return nil
}

// stocks sets the stock, and reads it. The second time shows whether that is right after units were sold, too.
func (r *trial) stocks(ctx context.Context, head string) error {
	r.head(head, "n", trialStock)
	_, err := r.SetStock(ctx, "", r.sku, trialStock)
	if err != nil {
		at := r.read.entry
		if len(r.set) > 0 {
			at = r.set[0].entry
		}
		r.find(at, "failed", "why", err)
	}
	return err
}

// buy makes a purchase of one unit.
func (r *trial) buy(ctx context.Context) loadtest.Reply {
	id := "try-" + strings.ToLower(rand.Text()[:10])
	r.request = cmp.Or(r.request, id)
	reply := r.Deduct(ctx, loadtest.Request{SKU: r.sku, Quantity: 1, RequestID: id, Timeout: trialWait})
	r.line("outcome", "outcome", r.outcome(reply.Outcome), "order", reply.OrderID)
	return reply
}

// took notes the reply to a step, shows what it told, and reads the stock after it.
func (r *trial) took(ctx context.Context, p *purchase, i int, got *turn) {
	s := &r.deduct[i]
	r.ended, r.last, r.status = s, got.source, got.Status
	for _, saved := range s.saves {
		if value, known := p.values[saved.name]; known {
			r.line("saved", "name", saved.name, "value", r.show(value))
		}
	}
	if r.quiet || len(r.deduct) == 1 {
		return
	}
	r.quiet = true
	now, err := r.Stock(ctx, "", r.sku)
	r.quiet = false
	if err != nil {
		return // it is read again, and told then
	}
	r.line("left", "n", now.Quantity)
	if i < r.sells && now.Quantity < trialStock && r.order == "" {
		r.find(s.entry, "down-early", "left", now.Quantity, "step", r.deduct[r.sells].name)
	}
}

// listed looks for the order of the first purchase until the API may no longer be late.
func (r *trial) listed(ctx context.Context, reply *loadtest.Reply) (err error) {
	r.order = reply.OrderID
	if r.orders == nil {
		return nil
	}
	r.head("orders")
	var orders []loadtest.Order
	var hint string
	at := -1
	began := time.Now()
	loadtest.LookAgain(ctx, r.late, func() bool {
		orders, hint, err = r.list(ctx, r.sku)
		at = slices.IndexFunc(orders, func(o loadtest.Order) bool { return o.OrderID == reply.OrderID })
		r.quiet = true // the first list is enough
		return err == nil && at < 0
	})
	r.quiet = false
	if err != nil {
		return err
	}
	r.line("listed", "n", len(orders))
	for _, o := range orders {
		r.known[o.OrderID] = true
	}
	switch {
	case at < 0:
		r.find(r.orders.entry, "unlisted", "order", reply.OrderID, "n", len(orders),
			"time", time.Since(began).Round(100*time.Millisecond))
	case orders[at].Quantity != 1:
		r.find(r.orders.entry, "other-quantity", "order", reply.OrderID, "n", orders[at].Quantity)
	case !r.orders.requestID.empty() && orders[at].RequestID != r.request:
		r.find(r.orders.entry, "other-request", "order", reply.OrderID, "id", orders[at].RequestID,
			"sent", r.request, "variable", "{{request_id}}")
	}
	if hint != "" {
		r.find(r.orders.entry, "cut", "n", len(orders), "hint", hint)
	}
	return nil
}

// sellOut sells until a purchase is refused.
func (r *trial) sellOut(ctx context.Context) {
	r.head("sell-out", "n", trialMore)
	sold := int64(1)
	var reply loadtest.Reply
	for range trialMore {
		reply = r.buy(ctx)
		switch reply.Outcome {
		case loadtest.Accepted:
			sold++
			r.known[reply.OrderID] = true
			continue
		case loadtest.Busy:
			_ = loadtest.Sleep(ctx, cmp.Or(reply.Wait, busyWait)) // the next one is sent at once if ctx is over
			continue
		}
		break
	}
	r.head("left")
	now, err := r.Stock(ctx, "", r.sku)
	if err == nil {
		r.line("left", "n", now.Quantity)
	}
	switch {
	case reply.Outcome == loadtest.SoldOut && sold < trialStock:
		r.find(r.ended.entry, "early-refusal", "sold", sold, "n", trialStock)
	case reply.Outcome == loadtest.SoldOut:
		r.listsRefused(ctx)
	case sold > trialStock:
		r.find(r.deduct[r.sells].entry, "oversold", "sold", sold, "n", trialStock)
	case sold == trialStock && reply.Outcome != loadtest.Busy:
		r.find(r.ended.entry, "no-refusal", "rule", r.proposal(), "n", trialStock)
	default:
		r.find(r.ended.entry, "not-sold", "outcome", r.outcome(reply.Outcome), "why", reply.Error)
	}
}

// listsRefused looks for an order that no purchase came to, until the API may no longer be late. A load run would take
// it for a sale.
func (r *trial) listsRefused(ctx context.Context) {
	if r.orders == nil {
		return
	}
	at, listed := -1, []loadtest.Order(nil)
	r.quiet = true
	loadtest.LookAgain(ctx, r.late, func() bool {
		var err error
		listed, _, err = r.list(ctx, r.sku)
		at = slices.IndexFunc(listed, func(o loadtest.Order) bool { return !r.known[o.OrderID] })
		return err == nil && at >= 0
	})
	r.quiet = false
	if at >= 0 {
		r.find(r.orders.entry, "refused-listed", "order", listed[at].OrderID)
	}
}

// proposal returns the rule for sold_out that takes the last reply.
func (r *trial) proposal() string {
	for _, at := range []string{"code", "type", "reason", "error", "error.code", "errors.0.code", "message"} {
		place, _ := parsePlace(at, nil)
		if text, ok := place.scalar(r.last); ok && text != "" {
			return fmt.Sprintf("sold_out: {status: %d, field: %s, equals: %q}", r.status, at, r.show(text))
		}
	}
	return fmt.Sprintf("sold_out: {status: %d}", r.status)
}

// unmatched finds the keys whose rules took no reply. What took another reply of the same request in their place is no
// mistake, and what refuses is looked for by selling out.
func (r *trial) unmatched() {
	if r.order == "" {
		return // a purchase that ended early has not come to all of them
	}
	matched := func(of rules) bool { return len(of) > 0 && r.matched[&of[0]] }
	for _, c := range r.conditions {
		excused := matched(c.rules) || strings.HasSuffix(c.field, ".sold_out")
		for i := range r.deduct {
			s := &r.deduct[i]
			switch c.field {
			case s.field + ".accepted":
				excused = excused || matched(s.pending)
			case s.field + ".repeat.while", s.field + ".repeat.until":
				excused = excused || !s.byDefault && matched(s.accepted)
			}
		}
		if !excused {
			r.find(c.entry, "never")
		}
	}
}

// see shows a request and its reply.
func (r *trial) see(e loadtest.Exchange) {
	if e.Status != 0 {
		r.replies++
	}
	if r.quiet {
		return
	}
	r.print("  " + e.Request.Method + " " + r.show(e.Request.URL.RequestURI()))
	r.body("> ", e.Body)
	if e.Status == 0 {
		r.print("  " + r.show(fmt.Sprint(e.Err)))
		return
	}
	r.print(fmt.Sprintf("  %d %s, %v", e.Status, http.StatusText(e.Status), e.Took.Round(100*time.Microsecond)))
	r.body("< ", e.Answer.Body)
}

func (r *trial) body(mark string, text []byte) {
	for line := range strings.Lines(r.show(string(text))) {
		r.print("    " + mark + strings.TrimRight(line, "\n"))
	}
}

// show returns the beginning of a text, without secrets and control characters.
func (r *trial) show(text string) string {
	text = strings.ToValidUTF8(r.veil.over(text), "?")
	text = strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
	if characters := []rune(text); len(characters) > shown {
		return string(characters[:shown]) + "..."
	}
	return text
}

func (r *trial) find(at entry, key string, pairs ...any) {
	r.findings = append(r.findings, finding{at, phrases.Say("try.found."+key, pairs...)})
}

// conclude writes the findings, by line.
func (r *trial) conclude() {
	r.print("")
	if len(r.findings) == 0 {
		r.print(phrases.Say("try.nothing").In(r.lang))
		return
	}
	slices.SortStableFunc(r.findings, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	for _, f := range r.findings {
		what := r.show(f.text.In(r.lang))
		r.print("- " + phrases.Say("try.at", "line", f.line, "field", f.field, "what", what).In(r.lang))
	}
}

func (r *trial) head(key string, pairs ...any) {
	r.print("\n" + phrases.Say("try.head."+key, pairs...).In(r.lang))
}

func (r *trial) line(key string, pairs ...any) {
	if !r.quiet {
		r.print("  = " + r.show(phrases.Say("try.line."+key, pairs...).In(r.lang)))
	}
}

func (r *trial) outcome(o loadtest.Outcome) words.Text {
	return phrases.Say("try.outcome." + string(o))
}

func (r *trial) print(line string) {
	if _, err := fmt.Fprintln(r.out, line); r.err == nil {
		r.err = err
	}
}
