// Package text holds what problems say, in both languages: for the service, which answers with them, and for its
// clients, whose records have them in English.
package text

import (
	"embed"

	"example.com/stock/internal/words"
)

//go:embed *.yaml
var files embed.FS

var book = words.NewPhrasebook(files, ".")

// Book returns the catalogue.
func Book() words.Phrasebook { return book }
