package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/repair"
)

// withRepair adds to the audit the flags that make and apply a plan. They open the store, and not the service.
func withRepair(v voice, audit *cobra.Command) *cobra.Command {
	var plan, apply string
	var believe []string
	app.AddFlags(audit.Flags())
	audit.Flags().StringVar(&plan, "repair-plan", "", "")
	audit.Flags().StringVar(&apply, "apply", "", "")
	audit.Flags().StringArrayVar(&believe, "believe", nil, "")
	audit.Use += " | --repair-plan PLAN [SKU...] | --apply PLAN"
	run, args := audit.RunE, audit.Args
	audit.Args = nil
	audit.RunE = func(cmd *cobra.Command, skus []string) error {
		switch {
		case plan != "" && apply != "":
			return failure("repair.two")
		case plan != "":
			return v.planRepair(cmd, plan, skus)
		case apply != "" && len(skus) > 0:
			return failure("repair.no-skus")
		case apply != "":
			return v.applyRepair(cmd, apply, believe)
		}
		if err := args(cmd, skus); err != nil {
			return err
		}
		return run(cmd, skus)
	}
	return audit
}

// openedRepair calls do with the store of the configuration, and explains its error.
func openedRepair(cmd *cobra.Command, do func(context.Context, *app.Repair) error) error {
	return opened(cmd, app.OpenRepair, func(ctx context.Context, r *app.Repair) error {
		return repairFailure(ctx, do(ctx, r))
	})
}

// planRepair makes a plan, shows it, and writes it into a new file.
func (v voice) planRepair(cmd *cobra.Command, file string, names []string) error {
	var skus []service.SKU
	for _, name := range names {
		sku, err := app.ParseSKU(name)
		if err != nil {
			return err
		}
		skus = append(skus, sku)
	}
	return openedRepair(cmd, func(ctx context.Context, r *app.Repair) error {
		out := cmd.OutOrStdout()
		p, err := r.Plan(ctx, skus)
		if err != nil {
			return err
		}
		if len(p.SKUs) == 0 {
			fmt.Fprintln(out, v.say("repair.nothing"))
			return nil
		}
		for _, m := range p.SKUs {
			v.showMend(out, m)
		}
		text, _ := json.MarshalIndent(p, "", "  ") // numbers and texts: it cannot fail
		to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = to.Write(append(text, '\n'))
		if err = errors.Join(err, to.Close()); err != nil {
			return err
		}
		fmt.Fprintln(out, v.say("repair.planned", "plan", p.ID, "file", file))
		return exitError{exitVerdict, failure("repair.wrong", "n", len(p.SKUs))}
	})
}

// showMend says what is wrong with the books of a SKU, and how they can be mended.
func (v voice) showMend(out io.Writer, m repair.Mend) {
	fmt.Fprintf(out, "%s:\n", m.SKU)
	say := func(key string, pairs ...any) { fmt.Fprintln(out, "  "+v.say(key, pairs...)) }
	say("repair.counters", append(levelOf(m.Counters), "number", m.Number)...)
	say("repair.movements", append(levelOf(m.Movements), "number", m.Last)...)
	say("repair.held", "held", m.Held)
	if m.Ordered == nil {
		say("repair.archived")
	} else {
		say("repair.ordered", "ordered", *m.Ordered)
	}
	for _, kind := range m.Damage {
		switch kind {
		case order.Gap:
			say("repair.gap")
		case order.Law:
			say("repair.law")
		case order.OtherSKU:
			say("repair.other-sku")
		}
	}
	for _, o := range m.Options {
		why := v.belief(o.Believe)
		say("repair.option", append(levelOf(o.Adjust), "believe", o.Believe, "why", why)...)
		say("repair.then", levelOf(o.Counters)...)
	}
	switch {
	case len(m.Options) == 0:
		say("repair.hopeless")
	case m.Choice == "":
		say("repair.choose", "sku", m.SKU, "believe", names(m))
	}
}

func levelOf(a repair.Amounts) []any {
	return []any{"received", a.Received, "available", a.Available, "reserved", a.Reserved, "sold", a.Sold}
}

// names lists the options of m.
func names(m repair.Mend) string {
	var all []string
	for _, o := range m.Options {
		all = append(all, o.Believe)
	}
	return strings.Join(all, ", ")
}

// belief says what an option takes for right.
func (v voice) belief(name string) string {
	side, where, _ := strings.Cut(name, "-")
	var text string
	switch side {
	case repair.Counters:
		text = v.say("repair.believe.counters")
	case repair.Movements:
		text = v.say("repair.believe.movements")
	default:
		text = v.say("repair.believe.books")
	}
	switch "-" + where {
	case repair.Back:
		text += v.say("repair.believe.back")
	case repair.Gone:
		text += v.say("repair.believe.gone")
	case repair.Found:
		text += v.say("repair.believe.found")
	}
	return text
}

// applyRepair applies a plan file.
func (v voice) applyRepair(cmd *cobra.Command, file string, choices []string) error {
	chosen := map[service.SKU]string{}
	for _, choice := range choices {
		sku, name, is := strings.Cut(choice, "=")
		if !is {
			return failure("repair.choice", "given", choice)
		}
		chosen[service.SKU(sku)] = name
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	p, err := repair.Parse(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return repairFailure(cmd.Context(), err)
	}
	return openedRepair(cmd, func(ctx context.Context, r *app.Repair) error {
		left := 0
		err := r.Apply(ctx, p, chosen, func(done repair.Result) {
			if done.State != repair.Applied && done.State != repair.Already {
				left++
			}
			v.showResult(cmd.OutOrStdout(), done)
		})
		if err == nil && left > 0 {
			err = exitError{exitVerdict, failure("repair.left", "left", left, "n", len(p.SKUs))}
		}
		return err
	})
}

func (v voice) showResult(out io.Writer, r repair.Result) {
	var text string
	switch r.State {
	case repair.Applied:
		text = v.say("repair.applied", "number", r.Number, "believe", r.Option.Believe)
	case repair.Already:
		text = v.say("repair.already", "number", r.Number)
	case repair.Moved:
		text = v.say("repair.moved", "number", r.Books.Number)
	case repair.Open:
		text = v.say("repair.choose", "sku", r.SKU, "believe", names(r.Mend))
	case repair.Hopeless:
		text = v.say("repair.hopeless")
	}
	fmt.Fprintf(out, "%s: %s\n", r.SKU, text)
}

// repairFailure says in the words of the command why a plan could not be made or applied.
func repairFailure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, is := errors.AsType[exitError](err); is {
		return err
	}
	if ctx.Err() != nil {
		return exitError{exitInterrupted, failure("interrupted.by", "why", err)}
	}
	if choice, is := errors.AsType[*repair.ChoiceError](err); is {
		return failure("repair.no-option", "sku", choice.SKU, "believe", choice.Believe)
	}
	if p, is := errors.AsType[*repair.PlanError](err); is {
		return planFailure(p)
	}
	if errors.Is(err, service.ErrOutcomeUnknown) {
		return exitError{exitTarget, failure("repair.unknown", "why", err)}
	}
	if of, is := errors.AsType[*repair.SKUError](err); is {
		return exitError{exitTarget, failure("audit.failed", "sku", of.SKU, "why", of.Err)}
	}
	if errors.Is(err, lock.ErrDown) {
		return exitError{exitTarget, err}
	}
	return err
}

func planFailure(p *repair.PlanError) error {
	switch p.Code {
	case repair.TooLarge:
		return failure("repair.plan.too-large", p.Values...)
	case repair.NotJSON:
		return failure("repair.plan.not-json", p.Values...)
	case repair.WrongVersion:
		return failure("repair.plan.version", p.Values...)
	case repair.Edited:
		return failure("repair.plan.edited", p.Values...)
	case repair.OtherStore:
		return failure("repair.plan.store", p.Values...)
	case repair.BadSKU:
		return failure("repair.plan.sku", p.Values...)
	case repair.BadNumber:
		return failure("repair.plan.number", p.Values...)
	}
	return p
}
