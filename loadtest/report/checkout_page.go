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
	When, Word, Class      string
	R                      *checkout.Result
	F                      *checkout.Figures
	Visits                 int
	Checks                 []checkRow
	StockWide, StockNarrow template.HTML
	Problems               string
	Commands               []string
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
		label := say.say("checkout.stock-caption")
		v.StockWide = shelfChart(say, s, 11).toSVG(1120, 320, "wide", label, s.hints(say, 80))
		v.StockNarrow = shelfChart(say, s, 10.5).toSVG(420, 300, "narrow", label, s.hints(say, 30))
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

// shelfChart draws the sold, reserved and available units as stacked areas. Their sum is the received units.
func shelfChart(v voice, s shelf, size float64) *chart {
	p := newChart(size)
	below := []moment{{s.received[0].ms, 0}, {s.received[len(s.received)-1].ms, 0}}
	for _, layer := range []struct {
		line []moment
		ink  ink
		name string
	}{
		{s.sold, inkAccepted, "checkout.sold"},
		{s.reserved, inkBusy, "checkout.reserved"},
		{s.received, inkSoldOut, "checkout.available"},
	} {
		line := thin(layer.line)
		p.fill(line, below, layer.ink, v.say(layer.name))
		below = line
	}
	p.step(thin(s.received), p.line(inkTruth, 1.4), v.say("checkout.received"))
	p.Y.Min = 0
	p.finish(v, s.commands)
	return p
}

// hints returns, for n ranges of the run, the stock at their end.
func (s shelf) hints(v voice, n int) []hint {
	return hintsOf(s.received, n, func(to float64) string {
		sold, reserved, received := level(s.sold, to), level(s.reserved, to), level(s.received, to)
		return v.say("checkout.hint", "at", millis(to), "received", received, "available", received-reserved,
			"reserved", reserved-sold, "sold", sold)
	})
}
