package main

import (
	"context"
	"strconv"
	"strings"

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

// moved returns the command that does what a command or a flag did before, or "".
func moved(old string) string {
	return map[string]string{
		"audit": "orders audit", "relay": "orders outbox", "token": "orders token", "--ha": "lab failover",
		"--scenario": "checkout",
	}[old]
}

// goneFlag says what to use in place of a flag that was taken away. ok is false if there was none of this name.
func goneFlag(flag string) (text words.Text, ok bool) {
	texts, err := phrases.Texts()
	text, ok = texts["foreign.gone-flag."+flag]
	return text, ok && err == nil
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
		return failure("foreign.moved", "name", strconv.Quote("stock "+name), "command", command)
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
		if command := moved("--" + name); command != "" {
			return phrases.Say("foreign.moved", "name", "--"+name, "command", command), true
		}
		if instead, ok := goneFlag(name); ok {
			return instead, true
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
		return invalidValue(err)
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

// invalidValue says what the value of a flag must be.
func invalidValue(err *pflag.InvalidValueError) (text words.Text, ok bool) {
	flag := err.GetFlag()
	kind, ok := map[string]string{
		"int": "integer", "int64": "integer", "uint64": "natural", "float64": "number", "bool": "bool",
		"duration": "duration",
	}[flag.Value.Type()]
	if !ok {
		return text, false
	}
	return phrases.Say("foreign."+kind, "flag", flag.Name, "value", strconv.Quote(err.GetValue())), true
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
