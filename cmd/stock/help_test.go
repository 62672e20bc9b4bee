package main

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/internal/words"
)

// Every command and every flag says in both languages what it does, with an example if it has flags of its own, and
// nothing else is in the catalogue. A flag of a setting says it in English.
func TestHelpIsInBothLanguages(t *testing.T) {
	t.Parallel()
	texts, err := help.Texts() // which has found each text that is there in one language only
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	app.AddFlags(settings)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := helpPath(cmd)
		for _, part := range []string{"short", "long", "example"} {
			key := path + "." + part
			used[key] = true
			bilingual(t, key, texts[key], part == "short", part == "example")
		}
		if cmd.Short != texts[path+".short"].EN {
			t.Errorf("stock %s has a text in the code: %q", path, cmd.Short)
		}
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				used[path+".flags."+f.Name], used[everyCommand+"."+f.Name] = true, true
				text := flagText(texts, path, f.Name)
				if s := settings.Lookup(f.Name); text != (words.Text{}) || s == nil || f.Usage != s.Usage {
					bilingual(t, path+".flags."+f.Name, text, true, false)
				}
				if own := texts[path+".flags."+f.Name]; own != (words.Text{}) && cmd.Example == "" {
					t.Errorf("stock %s has --%s, and no example", path, f.Name)
				}
			})
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(words.English))
	for key := range texts {
		if !used[key] {
			t.Errorf("help has %s, and there is no such command or flag", key)
		}
	}
}

// bilingual checks a text; commands of examples are the same in both languages.
func bilingual(t *testing.T, key string, text words.Text, needed, commands bool) {
	t.Helper()
	han := func(r rune) bool { return unicode.Is(unicode.Han, r) }
	switch {
	case text == words.Text{}:
		if needed {
			t.Errorf("there is no text %s", key)
		}
	case commands:
		if en, zh := commandsOf(text.EN), commandsOf(text.ZH); !slices.Equal(en, zh) {
			t.Errorf("%s has other commands in Chinese:\n%q\n%q", key, en, zh)
		}
	case strings.ContainsFunc(text.EN, han):
		t.Errorf("%s is not English: %q", key, text.EN)
	case !strings.ContainsFunc(text.ZH, han) && strings.Contains(text.EN, " ") && text.EN != text.ZH:
		t.Errorf("%s is not Chinese: %q", key, text.ZH)
	case text.EN == text.ZH && strings.Count(text.EN, " ") > 4:
		t.Errorf("%s is not translated: %q", key, text.EN)
	}
}

// commandsOf returns the lines of an example without what is a remark.
func commandsOf(example string) []string {
	var lines []string
	for line := range strings.Lines(example) {
		command, _, _ := strings.Cut(line, "# ")
		if command = strings.TrimSpace(command); command != "" {
			lines = append(lines, command)
		}
	}
	return lines
}
