package text

import (
	"maps"

	"example.com/stock/internal/words"
)

// Said returns the title or the detail of a problem in both languages, of which a client's records have the English.
// name is the last part of the problem's type. A text that is none of that problem is the same in both.
func Said(name, english string) words.Text {
	texts, err := book.Texts()
	if err != nil {
		return words.Same(english)
	}
	reasons := texts.Under("reason")
	maps.Copy(reasons, texts.Under("down"))
	return texts.Under(name).Read(english, reasons)
}
