package report

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"example.com/stock/loadtest/checkout"
)

// A checkoutView is the data of the template of a checkout.
type checkoutView struct {
	voice
	pageHead
	When, Word, Class string
	R                 *checkout.Result
	F                 *checkout.Figures
	Visits            int
	Checks            []checkRow
	Stock             template.HTML
	Problems          string
	Commands          []string
}

type checkRow struct {
	*checkout.Check
	Asks, Word, Class string
}

// WriteCheckoutHTML writes a self-contained page about a checkout. commit is that of the judging program; empty:
// unknown.
func WriteCheckoutHTML(w io.Writer, r *checkout.Result, commit, lang string) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	say := voice(lang)
	t, err := template.New("checkout.html.tmpl").Funcs(template.FuncMap{
		"millis": millis, "say": say.say, "in": say.in, "thousands": grouped,
		"share": func(part, whole int) string { return fmt.Sprintf("%.0f", 100*float64(part)/float64(max(whole, 1))) },
		"open":  func(w checkout.WayFigures) int { return w.Visits - w.Whole - w.Refused },
		"way":   func(w checkout.Way) string { return say.say("way." + string(w)) },
		"op":    func(o checkout.Op) string { return say.say("op." + string(o)) },
	}).ParseFS(files, "checkout.html.tmpl", "head.html.tmpl")
	if err != nil {
		return err
	}
	v := &checkoutView{
		voice: say, pageHead: newHead(lang, say.say("checkout.title"), commit),
		R: r, F: &r.Figures, Visits: visits(&r.Figures),
		When: say.when(r.StartedAt), Problems: problems(&r.Figures), Commands: say.said(CheckoutCommands(r)),
	}
	word, shade := say.findingWord(r.Verdict.Finding)
	v.Word, v.Class = word, classOf(shade)
	for i := range r.Verdict.Checks {
		c := &r.Verdict.Checks[i]
		word, shade := say.checkWord(c)
		v.Checks = append(v.Checks, checkRow{c, say.checkName(c.Name), word, classOf(shade)})
	}
	if s := shelfOf(r); len(s.received) > 1 {
		v.Stock = s.chart(say)
	}
	return t.Execute(w, v)
}

func classOf(t tone) string {
	switch t {
	case good:
		return "good"
	case bad:
		return "bad"
	}
	return "odd"
}

// A shelf is the stock of all SKUs over time, as stacked lines.
type shelf struct {
	sold, reserved, received []moment  // sold; sold + reserved; all units
	commands                 []float64 // starts of the commands of the run
}

// shelfOf adds up the movements of all SKUs in the order of their times, by the clock of the store.
func shelfOf(r *checkout.Result) (s shelf) {
	var all []*checkout.Movement
	var now checkout.Counts
	for i := range r.Evidence.Books {
		b := &r.Evidence.Books[i]
		now.Received += b.Before.Received
		now.Reserved += b.Before.Reserved
		now.Sold += b.Before.Sold
		for k := range b.Movements {
			all = append(all, &b.Movements[k])
		}
	}
	if len(all) == 0 {
		return s
	}
	slices.SortStableFunc(all, func(a, b *checkout.Movement) int { return a.At.Compare(b.At) })
	start := all[0].At
	s.commands = startsOf(r.Ran, r.StartedAt)
	add := func(ms float64) {
		s.sold = append(s.sold, moment{ms, float64(now.Sold)})
		s.reserved = append(s.reserved, moment{ms, float64(now.Sold + now.Reserved)})
		s.received = append(s.received, moment{ms, float64(now.Received)})
	}
	add(0)
	for _, m := range all {
		now.Received += m.Received
		now.Reserved += m.Reserved
		now.Sold += m.Sold
		add(float64(m.At.Sub(start)) / float64(time.Millisecond))
	}
	return s
}

// chart draws the sold, reserved and available units as stacked areas. Their sum is the received units.
func (s *shelf) chart(v voice) template.HTML {
	c := &chart{
		frame: newFrame(), unit: v.say("chart.units"), caption: v.say("checkout.stock-caption"), height: 260,
		commands: s.commands, hints: s.hints(v),
	}
	below := []moment{{s.received[0].ms, 0}, {s.received[len(s.received)-1].ms, 0}}
	c.hold(below, s.received)
	for _, layer := range []layer{
		{look: "sold", name: v.say("checkout.sold"), line: thin(s.sold)},
		{look: "reserved", name: v.say("checkout.reserved"), line: thin(s.reserved)},
		{look: "available", name: v.say("checkout.available"), line: thin(s.received)},
	} {
		layer.below, below = below, layer.line
		c.layers = append(c.layers, layer)
	}
	c.addLine("truth", v.say("checkout.received"), thin(s.received))
	return c.draw(v)
}

// hints returns, for each range of the run, the stock at its end.
func (s *shelf) hints(v voice) []hint {
	return hintsOf(s.received, func(to float64) string {
		sold, reserved, received := level(s.sold, to), level(s.reserved, to), level(s.received, to)
		return v.say("checkout.hint", "at", millis(to), "received", received, "available", received-reserved,
			"reserved", reserved-sold, "sold", sold)
	})
}
