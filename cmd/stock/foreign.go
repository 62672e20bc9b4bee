package main

import (
	"context"
	"strconv"

	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/lock"
	"example.com/stock/service/strategy"
)

// instead says what to use in place of a command or a flag that was taken away, in the first release without it. ok is
// false if there was none of this name.
func instead(kind, name string) (text words.Text, ok bool) {
	texts, err := phrases.Texts()
	text, ok = texts["gone."+kind+"."+name]
	return text, ok && err == nil
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
		if text, ok := instead("flag", err.GetSpecifiedName()); ok {
			return text, true
		}
		return phrases.Say("foreign.flag", "name", "--"+err.GetSpecifiedName()), true
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
		return phrases.Say("foreign.expired-after", "time", err.After.String()), true
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
