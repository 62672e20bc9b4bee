package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
	"example.com/stock/loadtest/report"
	"example.com/stock/loadtest/tally"
)

// verdictFlags holds the flags of verdict.
type verdictFlags struct {
	voice
	url, token, mapping    string
	from, format           string
	store, sku             string
	set, initial, accepted int64
	quantity, cutOff       int64
	recheck                time.Duration
	shared                 bool
	json                   string
	noColor                bool
}

func verdictCommand(v voice) *cobra.Command {
	f := verdictFlags{voice: v}
	cmd := &cobra.Command{
		Use:  "verdict [--set N | --from FILE | --accepted N]",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.token = cmp.Or(f.token, os.Getenv("STOCK_ADMIN_TOKEN"))
			err := f.run(cmd.Context(), cmd.Flags(), cmd.InOrStdin(), cmd.OutOrStdout())
			if cmd.Context().Err() != nil && err != nil {
				return exitError{exitInterrupted, failure("interrupted.no-verdict")}
			}
			return explainLoad(err, f.token != "")
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.url, "url", "http://localhost:8080", "")
	flags.StringVar(&f.sku, "sku", "stock", "")
	flags.StringVar(&f.store, "store", "", "")
	flags.StringVar(&f.from, "from", "", "")
	flags.StringVar(&f.format, "format", "", "")
	flags.Int64Var(&f.accepted, "accepted", 0, "")
	flags.Int64Var(&f.initial, "initial", 0, "")
	flags.Int64Var(&f.set, "set", 0, "")
	flags.StringVar(&f.token, "admin-token", "", "")
	flags.StringVar(&f.mapping, "mapping", "", "")
	flags.Int64Var(&f.quantity, "quantity", 0, "")
	flags.Int64Var(&f.cutOff, "cut-off", 0, "")
	flags.BoolVar(&f.shared, "shared", false, "")
	flags.DurationVar(&f.recheck, "recheck", loadtest.Recheck, "")
	flags.StringVar(&f.json, "json", "", "")
	noColorFlag(cmd, &f.noColor)
	return cmd
}

// look returns the Look for the flags. Its errors name the flag.
func (f *verdictFlags) look(flags *pflag.FlagSet) (loadtest.Look, error) {
	look := loadtest.Look{
		Store: f.store, SKU: f.sku, Quantity: f.quantity, CutOff: f.cutOff, Shared: f.shared, Recheck: &f.recheck,
	}
	for _, n := range []struct {
		flag  string
		value *int64
		into  **int64
		least int64
	}{
		{"set", &f.set, nil, 0},
		{"initial", &f.initial, &look.Initial, 0},
		{"accepted", &f.accepted, &look.Accepted, 0},
		{"quantity", &f.quantity, nil, least(flags.Changed("quantity"))},
		{"cut-off", &f.cutOff, nil, 0},
	} {
		switch given := flags.Changed(n.flag); {
		case *n.value < n.least:
			return look, wrong(n.flag, failure("wrong.least", "least", n.least, "given", *n.value))
		case given && n.flag != "set" && flags.Changed("set"):
			return look, wrong("set", failure("wrong.set-and-judge", "flag", n.flag))
		case given && n.into != nil:
			*n.into = n.value
		}
	}
	for _, flag := range []string{"set", "accepted"} {
		if f.from != "" && flags.Changed(flag) {
			return look, wrong("from", failure("wrong.from-and", "flag", flag))
		}
	}
	switch {
	case f.format != "" && f.from == "":
		return look, wrong("format", failure("wrong.format-alone"))
	case f.sku == "":
		return look, wrong("sku", failure("wrong.empty"))
	case f.mapping != "" && f.store != "":
		return look, wrong("store", failure("wrong.with-mapping"))
	case f.mapping != "" && !flags.Changed("sku"):
		return look, wrong("sku", failure("wrong.sku-with-mapping"))
	}
	return look, nil
}

// least returns the smallest valid quantity: 0 stands for a quantity that was not given.
func least(given bool) int64 {
	if given {
		return 1
	}
	return 0
}

func (f *verdictFlags) run(ctx context.Context, flags *pflag.FlagSet, stdin io.Reader, stdout io.Writer) error {
	look, err := f.look(flags)
	if err != nil {
		return err
	}
	var described *mapping.File
	if f.mapping != "" {
		if described, err = readMapping(f.mapping); err != nil {
			return err
		}
		look.Late = described.Late()
		if err := hasIDs(described, f.sku); err != nil {
			return err
		}
	}
	if f.from != "" {
		if err := f.read(&look, flags, described, stdin); err != nil {
			return err
		}
	}
	t, err := f.openTarget(f.url, f.token, described, 1)
	if err != nil {
		return err
	}
	defer t.Close()
	if flags.Changed("set") {
		s, err := t.SetStock(ctx, f.store, f.sku, f.set)
		if err != nil {
			return err
		}
		command := fmt.Sprintf("%s verdict --url %s --sku %s --from FILE", os.Args[0], f.url, f.sku)
		text := f.say("verdict.set", "sku", f.sku, "n", s.Quantity, "command", command)
		if f.mapping != "" {
			command += fmt.Sprintf(" --mapping %s --initial %d", f.mapping, s.Quantity)
			text = f.say("verdict.set-mapped", "sku", f.sku, "n", s.Quantity, "command", command)
		}
		fmt.Fprintln(stdout, text)
		return nil
	}
	i, err := loadtest.Inspect(ctx, t, look)
	if err != nil {
		return err
	}
	if err := f.show(i, stdout); err != nil {
		return err
	}
	switch i.Finding {
	case loadtest.Holds:
		return nil
	case loadtest.Broken:
		return exitError{code: exitVerdict}
	}
	return exitError{code: exitUndecided}
}

// read fills in what the summary of a tool tells. described is the mapping, which says what its statuses mean; nil: the
// target is a service of ours. The error names the flag.
func (f *verdictFlags) read(
	look *loadtest.Look, flags *pflag.FlagSet, described *mapping.File, stdin io.Reader,
) error {
	in := stdin
	if f.from != "-" {
		file, err := os.Open(f.from)
		if err != nil {
			return wrong("from", err)
		}
		defer file.Close()
		in = file
	}
	s, err := tally.Read(in, tally.Format(f.format))
	if err != nil {
		return wrong("from", failure("wrong.from", "path", f.from, "why", err))
	}
	if !flags.Changed("cut-off") {
		look.CutOff = s.Open
	}
	count(look, &s, described)
	return nil
}

// count fills in how many of the replies that a tool counted were accepted: exactly, at most, or at least if the tool
// stopped counting at its limit. It fills in nothing if a mapping has accepted replies of statuses that the tool does
// not tell from others.
func count(look *loadtest.Look, s *tally.Summary, described *mapping.File) {
	n, exact := s.Accepted, s.Exact
	if described != nil && s.Status != nil {
		n, exact = 0, s.Limit == 0
		for status, count := range s.Status {
			always, sometimes := described.Accepts(status)
			if always || sometimes && s.Limit == 0 {
				n += count
				exact = exact && always
			}
		}
	}
	switch {
	case exact:
		look.Accepted = &n
	case s.Limit > 0:
		look.AtLeast = &n
	case described == nil || s.Status != nil || !acceptsFailures(described):
		look.AtMost = &n
	}
}

// acceptsFailures reports whether a mapping has accepted replies among those that tools take for failures.
func acceptsFailures(described *mapping.File) bool {
	for status := 400; status < 600; status++ {
		if always, sometimes := described.Accepts(status); always || sometimes {
			return true
		}
	}
	return false
}

// show writes the verdict as text, or as JSON to where --json says.
func (f *verdictFlags) show(i *loadtest.Inspection, stdout io.Writer) error {
	if done, err := writeDocument(f.json, i, stdout); done || err != nil {
		return err
	}
	return report.WriteInspection(stdout, i, f.style(stdout, f.noColor))
}
