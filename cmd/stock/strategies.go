package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"example.com/stock/lock"
	"example.com/stock/strategy"
)

func strategiesCommand() *cobra.Command {
	var markdown, short bool
	var lang string
	cmd := &cobra.Command{
		Use:   "strategies",
		Short: "List the catalogue: every way to sell, what it promises and what not",
		Long: "List the catalogue, weakest first. A running instance tells at GET /v1/strategies which of them " +
			"it can use now.",
		Example: "  stock strategies\n  stock strategies --markdown --lang zh\n  stock strategies --markdown --short",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLanguage(lang); err != nil {
				return err
			}
			if short && !markdown {
				return errors.New("--short: goes with --markdown only")
			}
			w := words{chinese: lang == "zh"}
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
	cmd.Flags().BoolVar(&markdown, "markdown", false,
		"as a table of all promises, and what is not promised: docs/strategies.md")
	cmd.Flags().BoolVar(&short, "short", false,
		"with --markdown: only endpoint, safe on, fair and fenced, as in the README")
	languageFlag(cmd, &lang)
	return cmd
}

// words writes the catalogue in one of two languages.
type words struct{ chinese bool }

func (w words) of(t strategy.Text) string { return w.pick(t.EN, t.ZH) }

func (w words) pick(en, zh string) string {
	if w.chinese {
		return zh
	}
	return en
}

func (w words) list(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// The heads of padded columns are English in both: tabwriter counts a Chinese character, which is twice as wide,
	// as one.
	fmt.Fprintln(table, "STRATEGY\tENDPOINT\tROUND TRIPS\t"+w.pick("WHAT IT IS", "做法"))
	for _, s := range strategy.All() {
		fmt.Fprintf(table, "%s\tPOST %s\t%s\t%s\n", s.Name, s.Endpoint, trips(s), w.of(s.Summary))
	}
	return table.Flush()
}

// short writes the table of the README: the facts that decide between strategies.
func (w words) short(out io.Writer) {
	fmt.Fprintln(out, w.pick(
		"| strategy | endpoint (POST) | safe on | fair | fenced |",
		"| 策略 | 接口（POST） | 何处安全 | 公平 | 栅栏令牌 |"))
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, s := range strategy.All() {
		p := s.Promise
		fmt.Fprintf(out, "| `%s` | `%s` | %s | %s | %s |\n",
			s.Name, s.Endpoint, w.scope(p.Scope), w.yes(p.Fair), w.yes(p.Fenced))
	}
}

// markdown writes the table of all promises, and below it what is not promised: docs/strategies.md.
func (w words) markdown(out io.Writer) {
	fmt.Fprintln(out, w.pick(
		"| strategy | endpoint (POST) | what it is | safe on | waits | fair | fenced | round trips | next holder "+
			"after a crash |",
		"| 策略 | 接口（POST） | 做法 | 何处安全 | 等待 | 公平 | 栅栏令牌 | 往返次数 | 持有者崩溃后多久可再获得 |",
	))
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|")
	for _, s := range strategy.All() {
		p := s.Promise
		fmt.Fprintf(
			out, "| `%s` | `%s` | %s | %s | %s | %s | %s | %s | %s |\n", s.Name, s.Endpoint, w.of(s.Summary),
			w.scope(p.Scope), w.yes(p.Blocking), w.yes(p.Fair), w.yes(p.Fenced), trips(s), w.freed(s),
		)
	}
	fmt.Fprintf(out, "\n%s\n\n", w.pick("What each does **not** promise:", "各策略**不**保证什么："))
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

func (w words) yes(b bool) string {
	if b {
		return w.pick("yes", "是")
	}
	return "–"
}

func (w words) scope(s lock.Scope) string {
	switch s {
	case lock.Cluster:
		return w.pick("all instances", "所有实例")
	case lock.Process:
		return w.pick("one instance", "单个实例")
	default:
		return w.pick("nowhere", "无处")
	}
}

func (w words) freed(s strategy.Strategy) string {
	switch d := s.Promise.FreedAfterCrash; {
	case s.Promise.Scope != lock.Cluster || !s.Promise.Exclusive && d == 0:
		return "–"
	case d == lock.Forever:
		return w.pick("never", "永不")
	case d == 0:
		return w.pick("at once", "立即")
	default:
		return w.pick("within ", "") + fmt.Sprintf("%.0f s", d.Seconds()) + w.pick("", "内")
	}
}
