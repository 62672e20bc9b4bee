package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// checkWord returns how a check ended, in a word.
func (v voice) checkWord(c *checkout.Check) (string, tone) {
	switch {
	case c.NotChecked.EN != "":
		return v.say("checkout.not-checked"), odd
	case c.Failed > 0:
		return v.say("checkout.failed"), bad
	}
	return v.say("checkout.holds"), good
}

// checkName returns the question of a check.
func (v voice) checkName(name string) string { return v.in(checkout.Asks(name)) }

// WriteCheckout writes everything about a checkout, for people.
func WriteCheckout(w io.Writer, r *checkout.Result, style Style) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	v, f := voice(style.Lang), &r.Figures
	var b strings.Builder
	line := style.lines(&b)
	key := "checkout.heading"
	if r.Interrupted {
		key = "checkout.heading-interrupted"
	}
	b.WriteString(style.wrap(v.say(key, "visits", visits(f), "workers", r.Plan.Concurrency,
		"skus", r.Plan.SKUs, "skew", string(r.Plan.Skew), "stock", thousands(r.Plan.Stock),
		"target", r.Target), 2) + "\n\n")
	line("requests", phrases.Say("checkout.requests", "requests", f.Requests, "attempts", f.Attempts, "cut", f.Cut,
		"replayed", f.Replayed, "seconds", fmt.Sprintf("%.1f", f.Seconds)))
	if len(f.Problems) > 0 {
		line("refusals", words.Same(problems(f)))
	}
	line("orders", phrases.Say("checkout.orders", "orders", f.Orders, "reservations", f.Reservations,
		"confirmed", f.Kinds["confirm"], "late", f.Late, "released", f.Kinds["cancel"], "expired", f.Kinds["expire"],
		"returned", f.Kinds["return"]))
	if f.Revised > 0 {
		line("", phrases.Say("checkout.revised", "n", f.Revised))
	}
	if f.SweptMS.Count > 0 {
		line("expiry", phrases.Say("checkout.swept", "mean", loadtest.Millis(f.SweptMS.MeanMS),
			"most", loadtest.Millis(f.SweptMS.MaxMS)))
	}
	all := checkout.Total(r.Books)
	line("stock", phrases.Say("checkout.stock", "received", all.Received, "available", all.Available,
		"reserved", all.Reserved, "sold", all.Sold, "movements", f.Movements))
	writeCommands(line, CheckoutCommands(r))
	if r.Heard != "" {
		line("events", phrases.Say("checkout.events", "n", f.Events, "repeats", f.Repeats, "where", r.Heard))
	}
	b.WriteByte('\n')
	row := style.rows(&b, 20)
	row(faint, style.say("label.latency"), style.say("label.replies"), "p50", "p90", "p99", "max")
	for _, l := range f.Latency {
		row(plain, v.say("op."+string(l.Op)), fmt.Sprint(l.Count), loadtest.Millis(l.P50), loadtest.Millis(l.P90),
			loadtest.Millis(l.P99), loadtest.Millis(l.Max))
	}
	b.WriteByte('\n')
	for i := range r.Verdict.Checks {
		c := &r.Verdict.Checks[i]
		word, t := v.checkWord(c)
		b.WriteString("  " + style.pad(plain, v.checkName(c.Name), 42, false) + " " +
			style.pad(plain, thousands(int64(c.Looked)), 9, true) + "  " + style.paint(t, word) + "\n")
		for _, text := range c.Examples {
			b.WriteString("    - " + style.wrap(text.In(style.Lang), 6) + "\n")
		}
		if more := c.Failed - len(c.Examples); more > 0 {
			b.WriteString("    " + style.say("checkout.more", "n", more) + "\n")
		}
		if c.NotChecked.EN != "" {
			b.WriteString("    " + style.wrap(c.NotChecked.In(style.Lang), 4) + "\n")
		}
	}
	word, t := v.findingWord(r.Verdict.Finding)
	b.WriteString("\n  " + style.left(faint, "verdict") + style.paint(t, strings.ToUpper(word)) + "\n")
	b.WriteString("  " + strings.Repeat(" ", label) + style.wrap(v.in(r.Verdict.Sentence), label+2) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func visits(f *checkout.Figures) (n int) {
	for _, w := range f.Ways {
		n += w.Visits
	}
	return n
}

// problems lists the problems in replies, with counts.
func problems(f *checkout.Figures) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.Problems)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, f.Problems[name]))
	}
	return strings.Join(parts, ", ")
}

// ShowCheckoutProgress returns a progress function for checkout.Run that writes to w, as ShowProgress does.
func ShowCheckoutProgress(w io.Writer, lang string, columns int) func(checkout.Progress) {
	line := &progressLine{voice: voice(lang), to: w, columns: columns}
	return func(p checkout.Progress) {
		made := fmt.Sprint(p.Visits)
		if p.Total > 0 {
			made = line.say("progress.of", "done", p.Visits, "total", p.Total)
		}
		line.show(p.Elapsed, p.Last, []string{
			line.say("progress.run", "run", line.in(p.Phase), "progress", made),
			line.say("checkout.so-far", "attempts", p.Requests, "done", p.Outcomes[checkout.Done],
				"refused", p.Outcomes[checkout.Refused], "unknown", p.Outcomes[checkout.Unknown]),
		})
	}
}
