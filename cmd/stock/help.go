package main

import (
	"cmp"
	"embed"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/internal/words"
)

//go:embed help
var helpFiles embed.FS

// help is what --help says. Its keys are the path of a command without "stock", and then short, long, example or
// flags.NAME: "lab run.flags.html". What a flag means in every command that has it is every.NAME.
var help = words.NewPhrasebook(helpFiles, "help")

const everyCommand = "every"

// explain gives a command and those below it their texts: commands and flags are made without any. A text that is
// missing stays empty, which a test finds; of a catalogue that cannot be read, the command says why when it is run.
func (v voice) explain(cmd *cobra.Command) {
	texts, _ := help.Texts()
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	v.explainWith(texts, cmd)
	cmd.SetUsageTemplate(v.usage(cmd.UsageTemplate()))
}

func (v voice) explainWith(texts words.Texts, cmd *cobra.Command) {
	path := helpPath(cmd)
	cmd.Short, cmd.Long = v.in(texts[path+".short"]), v.in(texts[path+".long"])
	cmd.Example = strings.TrimRight(v.in(texts[path+".example"]), "\n")
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if text := flagText(texts, path, f.Name); text != (words.Text{}) { // a setting has its own, in English
				f.Usage = v.in(text)
			}
		})
	}
	for _, sub := range cmd.Commands() {
		v.explainWith(texts, sub)
	}
}

// helpPath returns what the keys of a command's texts begin with.
func helpPath(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "stock ") }

// flagText returns what a flag means: in this command, or in every command.
func flagText(texts words.Texts, path, name string) words.Text {
	return cmp.Or(texts[path+".flags."+name], texts[everyCommand+"."+name])
}

// usage puts the headings of cobra's template, which are in English only, into the language.
func (v voice) usage(template string) string {
	return strings.NewReplacer(
		"Usage:", v.say("usage.usage"),
		"Examples:", v.say("usage.examples"),
		"Available Commands:", v.say("usage.commands"),
		"Additional Commands:", v.say("usage.more-commands"),
		"Global Flags:", v.say("usage.global-flags"),
		"Flags:", v.say("usage.flags"),
		".FlagUsages |", ".FlagUsages | defaults `"+v.say("usage.default")+"` |",
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
		v.say("usage.see", "command", "{{.CommandPath}}"),
	).Replace(template)
}

func init() {
	// pflag writes the defaults of flags in English.
	cobra.AddTemplateFunc("defaults", func(word, usages string) string {
		return strings.ReplaceAll(usages, "(default ", "("+word+" ")
	})
}
