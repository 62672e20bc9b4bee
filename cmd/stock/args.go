package main

import (
	"cmp"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/internal/words"
)

// parent returns a command that does nothing but show its help. With a RunE of its own it refuses an unknown verb:
// without, it would show its help and exit with 0.
func parent(use string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(verbFirst)
	cmd.AddCommand(verbs...)
	return cmd
}

// verbFirst returns the error of a flag, or of an unknown verb before it, whose flag it was meant to be.
func verbFirst(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return noArgs(cmd, args)
	}
	return err
}

// settings gives a command the flags of the service's settings.
func settings(cmd *cobra.Command) *cobra.Command {
	app.AddFlags(cmd.Flags())
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return app.FlagError(err) })
	return cmd
}

// wrong returns err as the error of a flag.
func wrong(flag string, err error) error {
	return failure("wrong.flag", "flag", flag, "reason", words.Of(err, told))
}

// atLeast returns an error unless the value of a flag is least or more.
func atLeast[T cmp.Ordered](flag string, value, least T) error {
	if value < least {
		return wrong(flag, failure("wrong.least", "least", least, "given", value))
	}
	return nil
}

// within returns an error unless the value of a flag is from least to most.
func within[T cmp.Ordered](flag string, value, least, most T) error {
	if value < least || value > most {
		return failure("wrong.from-to", "flag", flag, "least", least, "most", most, "given", value)
	}
	return nil
}

// noArgs refuses arguments. The first one of a command with verbs is a verb that it does not have.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return failure("args.none", "command", cmd.CommandPath(), "name", strconv.Quote(args[0]))
	}
	if text, ok := instead("command", args[0]); ok {
		return &words.Error{Text: text}
	}
	var verbs []string
	for _, verb := range cmd.Commands() {
		verbs = append(verbs, verb.Name())
	}
	return words.Unknown(phrases.Say("args.command"), args[0], verbs)
}

// exactly refuses any other number of arguments than n.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return failure("args.want", "usage", cmd.UseLine())
		}
		return nil
	}
}
