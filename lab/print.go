package lab

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteScenario writes what a scenario is about.
func WriteScenario(w io.Writer, s Scenario, lang string) {
	words := [][2]string{{"set up", "准备"}, {"forced", "强制"}, {"why", "原因"}, {"fix", "修复"}}
	fmt.Fprintf(w, "\n%s (%s)\n", s.Title.In(lang), s.Name)
	for i, text := range []Text{s.Setup, s.Forced, s.Why, s.Fix} {
		fmt.Fprintf(w, "  %s: %s\n", Text{words[i][0], words[i][1]}.In(lang), text.In(lang))
	}
}

// WriteCell writes what was predicted and seen, with the evidence, and if wanted the events.
func WriteCell(w io.Writer, c Cell, events bool) {
	fmt.Fprintf(w, "  %s %s: %s\n", c.mark(), c.Case(), c.Verdict())
	for _, e := range c.Evidence {
		fmt.Fprintf(w, "        %s\n", e.Text)
	}
	if !events {
		return
	}
	for _, e := range c.Events {
		until := ""
		if !e.Until.IsZero() {
			until = fmt.Sprintf(" to %+.0f", ms(e.Until.Sub(c.StartedAt)))
		}
		fmt.Fprintf(w, "        %+6.0f%s ms  %-10s %-9s %s\n", ms(e.At.Sub(c.StartedAt)), until, e.Lane, e.Kind, e.Text)
	}
}

// Verdict says in words what a cell comes to.
func (c Cell) Verdict() string {
	why := "stated"
	if c.Predicted.From != "" {
		why = "from its promise, " + c.Predicted.From
	}
	switch {
	case c.Skipped != "":
		return "skipped, " + c.Skipped
	case c.Failed != "":
		return "no verdict: " + c.Failed
	case c.AsPredicted:
		return fmt.Sprintf("%s, as predicted (%s)", c.seen(), why)
	default:
		return fmt.Sprintf("%s, BUT PREDICTED: %s (%s)", c.seen(), c.Predicted, why)
	}
}

func (c Cell) seen() string {
	if c.AfterMS == 0 {
		return string(c.Observed)
	}
	return fmt.Sprintf("%s, %v", c.Observed, time.Duration(c.AfterMS*float64(time.Millisecond)).Round(time.Millisecond))
}

func (c Cell) mark() string {
	switch {
	case c.Skipped != "":
		return "-"
	case c.AsPredicted:
		return "✓"
	default:
		return "✗"
	}
}

// WriteSummary writes how many cells came to what, and names those that are wrong.
func WriteSummary(w io.Writer, r Report) {
	wrong, skipped := r.Wrong(), r.Skipped()
	fmt.Fprintf(w, "\n%d cells in %.0f s: %d as predicted, %d not, %d skipped.\n",
		len(r.Cells), r.TookMS/1000, len(r.Cells)-len(wrong)-len(skipped), len(wrong), len(skipped))
	for _, c := range r.Cells {
		if c.Before != "" {
			fmt.Fprintf(w, "  ! %s: %s was tried again, because at first: %s\n", c.Scenario, c.Case(), strings.SplitN(c.Before, "\n", 2)[0])
		}
	}
	for _, c := range append(wrong, skipped...) {
		fmt.Fprintf(w, "  %s %s: %s: %s\n", c.mark(), c.Scenario, c.Case(), strings.SplitN(c.Verdict(), "\n", 2)[0])
	}
}
