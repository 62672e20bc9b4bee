package lab

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Parts returns the texts of a scenario, each with its heading.
func (s Scenario) Parts() [4]struct{ Name, Text Text } {
	return [4]struct{ Name, Text Text }{
		{say("parts.setup"), s.Setup},
		{say("parts.forced"), s.Forced},
		{say("parts.why"), s.Why},
		{say("parts.fix"), s.Fix},
	}
}

// WriteScenario writes the texts of a scenario.
func WriteScenario(w io.Writer, s Scenario, lang string) {
	fmt.Fprintf(w, "\n%s (%s)\n", s.Title.In(lang), s.Name)
	for _, part := range s.Parts() {
		fmt.Fprintf(w, "  %s: %s\n", part.Name.In(lang), part.Text.In(lang))
	}
}

// WriteCell writes the prediction, the observation and the evidence of a cell, and its events if events is true.
func WriteCell(w io.Writer, c Cell, events bool, lang string) {
	fmt.Fprintf(w, "  %s %s: %s\n", c.mark(), c.Case().Said().In(lang), c.Verdict().In(lang))
	for _, e := range c.Evidence {
		fmt.Fprintf(w, "        %s\n", e.Said().In(lang))
	}
	if !events {
		return
	}
	for _, e := range c.Events {
		until := ""
		if !e.Until.IsZero() {
			until = fmt.Sprintf(" to %+.0f", ms(e.Until.Sub(c.StartedAt)))
		}
		fmt.Fprintf(w, "        %+6.0f%s ms  %-10s %-9s %s\n", ms(e.At.Sub(c.StartedAt)), until, e.Lane, e.Kind,
			e.Said().In(lang))
	}
}

// Verdict describes the result of a cell. Both languages contain the English word of the matrix; Chinese adds its
// translation.
func (c Cell) Verdict() Text {
	switch {
	case c.Skipped != "":
		return say("verdict.skipped", "reason", c.Skipped)
	case c.Failed != "":
		return say("verdict.failed", "reason", c.Failed)
	}
	why := say("verdict.stated")
	if c.Predicted.From != "" {
		why = say("verdict.promised", "from", c.Predicted.Basis())
	}
	seen := Text{EN: string(c.Observed), ZH: string(c.Observed) + " " + c.Observed.Word().ZH}
	if c.AfterMS != 0 {
		seen = say("verdict.seen-after", "outcome", seen, "after", time.Duration(c.AfterMS*float64(time.Millisecond)))
	}
	if c.AsPredicted {
		return say("verdict.as-predicted", "seen", seen, "why", why)
	}
	return say("verdict.contradicted", "seen", seen, "predicted", c.Predicted, "why", why)
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

// WriteSummary writes how many cells were as predicted, wrong and skipped, and lists the wrong and the skipped ones.
func WriteSummary(w io.Writer, r Report, lang string) {
	wrong, skipped := r.Wrong(), r.Skipped()
	count := say("summary.cells", "cells", len(r.Cells), "seconds", fmt.Sprintf("%.0f", r.TookMS/1000),
		"right", len(r.Cells)-len(wrong)-len(skipped), "wrong", len(wrong), "skipped", len(skipped))
	fmt.Fprintf(w, "\n%s\n", count.In(lang))
	again := say("summary.tried-again").In(lang)
	for _, c := range r.Cells {
		if c.Before != "" {
			fmt.Fprintf(w, "  ! %s: %s: %s: %s\n", c.Scenario, c.Case().Said().In(lang), again, firstLine(c.Before))
		}
	}
	for _, c := range append(wrong, skipped...) {
		fmt.Fprintf(w, "  %s %s: %s: %s\n", c.mark(), c.Scenario, c.Case().Said().In(lang),
			firstLine(c.Verdict().In(lang)))
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
