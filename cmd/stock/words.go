package main

import (
	"embed"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"example.com/stock/internal/words"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// A voice says the texts of the commands in one language.
type voice string

func (v voice) say(key string, pairs ...any) string {
	for i := 1; i < len(pairs); i += 2 {
		if err, is := pairs[i].(error); is {
			pairs[i] = words.Of(err, told)
		}
	}
	return phrases.Say(key, pairs...).In(string(v))
}

// message says an error, also one that was made where no language is known.
func (v voice) message(err error) string { return v.in(words.Of(err, told)) }

// in says a text of another package.
func (v voice) in(t words.Text) string { return t.In(string(v)) }

// failure returns a text as an error, which main prints in the language of the command.
func failure(key string, pairs ...any) error { return phrases.Error(key, pairs...) }

// language returns the language of a command line: what --lang says, or else the environment. The texts of --help need
// it before the flags are parsed. What follows "--" belongs to another command.
func language(args []string, lookup func(string) string) voice {
	lang := words.FromEnvironment(lookup)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		value, is := strings.CutPrefix(arg, "--lang=")
		if arg == "--lang" && i+1 < len(args) {
			value, is = args[i+1], true
		}
		if is {
			lang = words.Parse(value)
		}
	}
	return voice(lang)
}

// addLanguage adds --lang to every command.
func (v voice) addLanguage(root *cobra.Command) {
	lang := root.PersistentFlags().String("lang", string(v), "")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if *lang != words.English && *lang != words.Chinese {
			return failure("wrong.lang")
		}
		return errors.Join(phrases.Check(), help.Check())
	}
}
