package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/lock"
	"example.com/stock/service/strategy"
)

// execute runs the command that args name. An unknown one is refused here, because cobra does so in English.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if _, rest, err := root.Find(args); err != nil {
		return unknownCommand(root, rest)
	}
	return root.ExecuteContext(ctx)
}

// moved returns the new name of a command that belongs to the order service now, or "".
func moved(command string) string {
	return map[string]string{"audit": "orders audit", "relay": "orders outbox", "token": "orders token"}[command]
}

// movedFlag returns the command that does now what a flag did, or "".
func movedFlag(flag string) string {
	return map[string]string{"ha": "lab failover", "scenario": "checkout"}[flag]
}

// goneFlag reports whether a flag was taken away. The catalogue says what to use instead.
func goneFlag(flag string) bool {
	return slices.Contains([]string{"cold", "ramp-up", "schema", "svg", "think"}, flag)
}

func unknownCommand(root *cobra.Command, args []string) error {
	name := ""
	for i := 0; i < len(args) && name == ""; i++ {
		if args[i] == "--lang" {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			name = args[i]
		}
	}
	if command := moved(name); command != "" {
		return failure("foreign.command-moved", "name", name, "command", command)
	}
	root.SuggestionsMinimumDistance = 2
	var list strings.Builder
	for _, meant := range root.SuggestionsFor(name) {
		list.WriteString("\t" + meant + "\n")
	}
	if list.Len() > 0 {
		return failure("foreign.command-meant", "name", strconv.Quote(name), "command", strconv.Quote(root.Name()),
			"list", list.String())
	}
	return failure("args.unknown", "name", strconv.Quote(name), "command", strconv.Quote(root.Name()))
}

// exactly is that of cobra in both languages.
func exactly(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return failure("foreign.exactly", "n", n, "given", len(args))
		}
		return nil
	}
}

// told returns an error of a package that knows no language in both.
func told(err error) (text words.Text, ok bool) {
	switch err {
	case context.DeadlineExceeded:
		return phrases.Say("foreign.late"), true
	case context.Canceled:
		return phrases.Say("foreign.canceled"), true
	case lock.ErrExpired:
		return phrases.Say("foreign.expired"), true
	case lock.ErrTaken:
		return phrases.Say("foreign.taken"), true
	}
	switch err := err.(type) {
	case *pflag.NotExistError:
		if given := err.GetSpecifiedShortnames(); given != "" {
			letter := strconv.QuoteRune(rune(err.GetSpecifiedName()[0]))
			return phrases.Say("foreign.letter", "letter", letter, "given", "-"+given), true
		}
		name := err.GetSpecifiedName()
		if command := movedFlag(name); command != "" {
			return phrases.Say("foreign.flag-moved", "name", name, "command", command), true
		}
		if goneFlag(name) {
			return phrases.Say("foreign.gone-flag." + name), true
		}
		return phrases.Say("foreign.flag", "name", "--"+name), true
	case *pflag.ValueRequiredError:
		flag := "--" + err.GetSpecifiedName()
		if given := err.GetSpecifiedShortnames(); given != "" {
			flag = strconv.QuoteRune(rune(err.GetSpecifiedName()[0])) + " in -" + given
		}
		return phrases.Say("foreign.argument", "flag", flag), true
	case *pflag.InvalidSyntaxError:
		return phrases.Say("foreign.syntax", "given", err.GetSpecifiedFlag()), true
	case *pflag.InvalidValueError:
		return invalidValue(err), true
	case *strconv.NumError:
		return noNumber(err)
	case *strategy.UnknownError:
		return loadtest.UnknownStrategy(err.Name, err.Names).Said(), true
	case *lock.HeldError:
		return held(err), true
	case *lock.LostError:
		return phrases.Say("foreign.lost", "key", strconv.Quote(err.Key), "why", words.Of(err.Cause, told)), true
	case *lock.ExpiredError:
		key := "foreign.expired-after"
		if err.Maximum {
			key = "foreign.too-long"
		}
		return phrases.Say(key, "time", err.After.String()), true
	}
	return app.Said(err)
}

func invalidValue(err *pflag.InvalidValueError) words.Text {
	flag, value := err.GetFlag(), err.GetValue()
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	cause := errors.Unwrap(err)
	why := words.Of(cause, told)
	if flag.Value.Type() == "duration" {
		why = noDuration(value, cause)
	}
	return phrases.Say("foreign.invalid", "value", strconv.Quote(value), "flag", strconv.Quote(name), "why", why)
}

// noDuration says why a value is no duration, for which package time has no type of error.
func noDuration(value string, cause error) words.Text {
	number := strings.TrimRightFunc(value, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	quoted, unit := strconv.Quote(value), strconv.Quote(value[len(number):])
	if _, err := time.ParseDuration(number + "s"); err != nil {
		return phrases.Say("foreign.duration", "value", quoted)
	}
	if number == value {
		return phrases.Say("foreign.no-unit", "value", quoted)
	}
	if _, err := time.ParseDuration("1" + value[len(number):]); err != nil {
		return phrases.Say("foreign.unit", "unit", unit, "value", quoted)
	}
	return words.Of(cause)
}

// noNumber says what a number must be.
func noNumber(err *strconv.NumError) (text words.Text, ok bool) {
	key := map[string]string{
		"ParseInt": "integer", "ParseUint": "natural", "ParseFloat": "number", "ParseBool": "bool",
	}[err.Func]
	if err.Err == strconv.ErrRange && key == "integer" {
		key = "range"
	} else if err.Err != strconv.ErrSyntax || key == "" {
		return text, false
	}
	return phrases.Say("foreign."+key, "value", strconv.Quote(err.Num)), true
}

func held(err *lock.HeldError) words.Text {
	key, who, left := strconv.Quote(err.Key), err.Holder, err.Remaining.String()
	switch {
	case who != "" && err.Remaining > 0:
		return phrases.Say("foreign.held-by-for", "key", key, "who", who, "time", left)
	case who != "":
		return phrases.Say("foreign.held-by", "key", key, "who", who)
	case err.Remaining > 0:
		return phrases.Say("foreign.held-for", "key", key, "time", left)
	}
	return phrases.Say("foreign.held", "key", key)
}
