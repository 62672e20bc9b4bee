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

// Said returns an error of the service or of a lock, which have codes and no texts, in both languages. ok is false for
// any other error.
func Said(err error) (text words.Text, ok bool) { return handler.Said(err) }

// Usage returns what a flag of [AddFlags] means, and which environment variable sets the same. Without such a flag, ok
// is false.
func Usage(flag string) (text words.Text, ok bool) {
	text, ok = usages()[flag]
	return text, ok
}

// usages are made once: a command line asks for the flags of all its commands before it runs one, and to search the
// settings for each took half the time that a process needs to begin.
var usages = sync.OnceValue(func() map[string]words.Text {
	texts := map[string]words.Text{configFlag: configUsage()}
	for _, s := range new(Config).settings() {
		texts[s.flag()] = s.usage()
	}
	return texts
})

const configFlag = "config"

func configUsage() words.Text { return withEnv(phrases.Say(configFlag), envPrefix+"CONFIG") }

func (s setting) usage() words.Text { return withEnv(phrases.Say(s.key), s.env()) }

func withEnv(text words.Text, env string) words.Text {
	return words.Join([]words.Text{text, words.Same("(" + env + ")")}, words.Same(" "))
}

// meaning says what a setting is for.
func (s setting) meaning(lang string) string { return phrases.Say(s.key).In(lang) }
