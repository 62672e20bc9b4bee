package main

import (
	"cmp"
	"embed"
	"fmt"
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
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprint(cmd.OutOrStderr(), v.usage(cmd))
		return err
	})
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

// usage returns what follows the long text of --help. It is cobra's, whose headings are in English only.
func (v voice) usage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(key, text string) { fmt.Fprintf(&b, "\n\n%s\n%s", v.say(key), strings.TrimRight(text, "\n ")) }
	b.WriteString(v.say("usage.usage"))
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	if cmd.HasExample() {
		section("usage.examples", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		for _, group := range cmd.Groups() {
			fmt.Fprintf(&b, "\n\n%s\n%s", group.Title, subcommands(cmd, group.ID))
		}
		title := "usage.commands"
		if len(cmd.Groups()) > 0 {
			title = "usage.more-commands"
		}
		if others := subcommands(cmd, ""); others != "" {
			section(title, others)
		}
	}
	if cmd.HasAvailableLocalFlags() {
		section("usage.flags", v.flags(cmd.LocalFlags()))
	}
	if cmd.HasAvailableInheritedFlags() {
		section("usage.global-flags", v.flags(cmd.InheritedFlags()))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n\n" + v.say("usage.see", "command", cmd.CommandPath()))
	}
	return b.String() + "\n"
}

// flags lists flags with their defaults, which pflag writes.
func (v voice) flags(flags *pflag.FlagSet) string {
	return strings.ReplaceAll(flags.FlagUsages(), "(default ", "("+v.say("usage.default")+" ")
}

// subcommands lists the commands of a group.
func subcommands(cmd *cobra.Command, group string) string {
	var lines []string
	for _, sub := range cmd.Commands() {
		if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
			lines = append(lines, fmt.Sprintf("  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short))
		}
	}
	return strings.Join(lines, "\n")
}
