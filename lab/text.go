package lab

import (
	"embed"

	"example.com/stock/internal/words"
)

// A Text is a text in two languages.
type Text = words.Text

// Texts is a catalogue of texts by key.
type Texts = words.Texts

func same(text string) Text { return words.Same(text) }

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// say returns a text of this package.
func say(key string, pairs ...any) Text { return phrases.Say(key, pairs...) }
