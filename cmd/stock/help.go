package main

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"text/template"
	"unicode"

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
	cmd.SetUsageFunc(v.usage)
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

// usage writes what follows the long text of --help: by cobra's template, whose headings are in English only, with
// those of the language.
func (v voice) usage(cmd *cobra.Command) error {
	text := strings.NewReplacer(
		"Usage:", v.say("usage.usage"),
		"Examples:", v.say("usage.examples"),
		"Available Commands:", v.say("usage.commands"),
		"Additional Commands:", v.say("usage.more-commands"),
		"Global Flags:", v.say("usage.global-flags"),
		"Flags:", v.say("usage.flags"),
		".FlagUsages |", ".FlagUsages | defaults |",
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
		v.say("usage.see", "command", "{{.CommandPath}}"),
	).Replace(cmd.UsageTemplate())
	usage, err := template.New("usage").Funcs(template.FuncMap{
		"rpad":                    func(name string, width int) string { return fmt.Sprintf("%-*s", width, name) },
		"trimTrailingWhitespaces": func(text string) string { return strings.TrimRightFunc(text, unicode.IsSpace) },
		"defaults": func(flags string) string { // of pflag, in English
			return strings.ReplaceAll(flags, "(default ", "("+v.say("usage.default")+" ")
		},
	}).Parse(text)
	if err != nil {
		return err
	}
	return usage.Execute(cmd.OutOrStderr(), cmd)
}
