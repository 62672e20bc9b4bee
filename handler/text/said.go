package text

import "example.com/stock/internal/words"

var said = book.Foreign("")

// Said returns the title or the detail of a problem in both languages. One that the catalogue does not have is the same
// in both.
func Said(english string) words.Text { return said.Text(english) }
