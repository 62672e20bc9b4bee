package loadtest

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeWarnings writes why the figures above may mislead.
func writeWarnings(b *strings.Builder, r *Result, style Style) {
	for i, warning := range r.Warnings {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + style.pad(odd, "warning", label, false) + style.wrap(warning, label+2) + "\n")
	}
}

// WriteExpectations writes for each expectation of each run whether it was met, with the actual value. It writes nothing if there are none.
func WriteExpectations(w io.Writer, results []*Result, style Style) error {
	var b strings.Builder
	widths := [2]int{}
	for _, r := range results {
		widths[0] = max(widths[0], utf8.RuneCountInString(runName(r, len(results))))
		for _, e := range r.Expected {
			widths[1] = max(widths[1], utf8.RuneCountInString(e.Text))
		}
	}
	for _, r := range results {
		for _, e := range r.Expected {
			word, t := "met", good
			if !e.Met {
				word, t = "NOT MET", bad
			}
			b.WriteString("  " + style.pad(t, word, label, false))
			if name := runName(r, len(results)); name != "" {
				b.WriteString(style.pad(plain, name, widths[0]+2, false))
			}
			fmt.Fprintf(&b, "%s  actual %s\n", style.pad(plain, e.Text, widths[1], false), e.Actual)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+b.String())
	return err
}

// runName tells the run from others, if there are any.
func runName(r *Result, runs int) string {
	if runs < 2 {
		return ""
	}
	return r.Plan.Strategy + on(r.Plan.Store)
}
