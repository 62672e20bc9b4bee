// Package text holds the texts of problems in both languages, for the service and for clients that translate their
// records.
package text

import (
	"embed"

	"example.com/stock/internal/words"
)

//go:embed *.yaml
var files embed.FS

var book = words.NewPhrasebook(files, ".")

func Book() words.Phrasebook { return book }
