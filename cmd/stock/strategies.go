package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/stock/internal/words"
	"example.com/stock/lock/driver"
	"example.com/stock/service/strategy"
)

func strategiesCommand(v voice) *cobra.Command {
	var markdown, short bool
	cmd := &cobra.Command{
		Use:  "strategies",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short && !markdown {
				return failure("wrong.short")
			}
			w := catalogue{v}
			switch {
			case short:
				w.short(cmd.OutOrStdout())
				return nil
			case markdown:
				w.markdown(cmd.OutOrStdout())
				return nil
			}
			return w.list(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "")
	cmd.Flags().BoolVar(&short, "short", false, "")
	return cmd
}

// A catalogue writes the strategies in one of two languages.
type catalogue struct{ voice }

func (w catalogue) of(t strategy.Text) string { return w.in(words.Text(t)) }

func (w catalogue) list(out io.Writer) error {
	var t table
	t.head(w.say("strategies.columns"))
	for _, s := range strategy.All() {
		t.line(s.Name, "POST "+s.Endpoint, trips(s), w.of(s.Summary))
	}
	return t.print(out)
}

// short writes the table of the README: the facts that decide between strategies.
func (w catalogue) short(out io.Writer) {
	fmt.Fprintln(out, w.say("strategies.short"))
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, s := range strategy.All() {
		p := s.Promise
		fmt.Fprintf(out, "| `%s` | `%s` | %s | %s | %s |\n",
			s.Name, s.Endpoint, w.scope(p.Scope), w.yes(p.Fair), w.yes(p.Fenced))
	}
}

// markdown writes the table of all promises, and below it what is not promised: docs/strategies.md.
func (w catalogue) markdown(out io.Writer) {
	fmt.Fprintln(out, w.say("strategies.head"))
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|")
	for _, s := range strategy.All() {
		p := s.Promise
		fmt.Fprintf(
			out, "| `%s` | `%s` | %s | %s | %s | %s | %s | %s | %s |\n", s.Name, s.Endpoint, w.of(s.Summary),
			w.scope(p.Scope), w.yes(p.Blocking), w.yes(p.Fair), w.yes(p.Fenced), trips(s), w.freed(s),
		)
	}
	fmt.Fprintf(out, "\n%s\n\n", w.say("strategies.not-promised"))
	for _, s := range strategy.All() {
		fmt.Fprintf(out, "- `%s`: %s\n", s.Name, w.of(s.Caveat))
	}
}

// trips returns the round trips of an uncontended lock.
func trips(s strategy.Strategy) string {
	if s.RoundTrips == 0 {
		return "–"
	}
	return strconv.Itoa(s.RoundTrips)
}

func (w catalogue) yes(b bool) string {
	if b {
		return w.say("strategies.yes")
	}
	return "–"
}

func (w catalogue) scope(s driver.Scope) string {
	switch s {
	case driver.Cluster:
		return w.say("strategies.cluster")
	case driver.Process:
		return w.say("strategies.process")
	default:
		return w.say("strategies.nowhere")
	}
}

func (w catalogue) freed(s strategy.Strategy) string {
	switch d := s.Promise.FreedAfterCrash; {
	case s.Promise.Scope != driver.Cluster || !s.Promise.Exclusive && d == 0:
		return "–"
	case d == driver.Forever:
		return w.say("strategies.never")
	case d == 0:
		return w.say("strategies.at-once")
	default:
		return w.say("strategies.within", "time", fmt.Sprintf("%.0f s", d.Seconds()))
	}
}
