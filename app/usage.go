package app

import (
	"embed"
	"sync"

	"example.com/stock/handler"
	"example.com/stock/internal/words"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// Said returns the text of an error of the service or of a lock, in both languages. ok is false for any other error.
func Said(err error) (text words.Text, ok bool) { return handler.Said(err) }

// Usage returns the usage of a flag of [AddFlags], with the environment variable for the same setting. ok is false for
// an unknown flag.
func Usage(flag string) (text words.Text, ok bool) {
	text, ok = usages()[flag]
	return text, ok
}

// usages is computed only once: a command line reads the flags of all its commands before it runs one, and it would be
// slow to search the settings for each flag.
var usages = sync.OnceValue(func() map[string]words.Text {
	texts := map[string]words.Text{configFlag: configUsage()}
	for _, s := range new(Config).settings() {
		texts[s.flag()] = s.usage()
	}
	return texts
})

const configFlag = "config"

func configUsage() words.Text { return withEnv(phrases.Say(configFlag), envPrefix+"CONFIG") }

func (s setting) usage() words.Text { return withEnv(s.meaning(), s.env()) }

func withEnv(text words.Text, env string) words.Text {
	return words.Join([]words.Text{text, words.Same("(" + env + ")")}, words.Same(" "))
}

// meaning returns the purpose of a setting.
func (s setting) meaning() words.Text { return phrases.Say(s.textKey()) }
