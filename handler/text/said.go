package text

import (
	"maps"

	"example.com/stock/internal/words"
)

// Said returns the title or the detail of a problem in both languages, given its English text from a client's records.
// name is the last part of the problem's type. If the problem has no such text, Said returns english for both.
func Said(name, english string) words.Text {
	texts, err := book.Texts()
	if err != nil {
		return words.Same(english)
	}
	reasons := texts.Under("reason")
	maps.Copy(reasons, texts.Under("down"))
	return texts.Under(name).Read(english, reasons)
}
