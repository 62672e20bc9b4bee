package main

import (
	"io"
	"strings"

	"example.com/stock/internal/words"
)

// A table is lines whose columns begin below each other. text/tabwriter is not used for it: there a Chinese character
// counts as one column, and a terminal draws it as two.
type table [][]string

// head adds the heads of the columns, which have bars between them.
func (t *table) head(columns string) { t.line(strings.Split(columns, "|")...) }

func (t *table) line(cells ...string) {
	row := make([]string, len(cells))
	for i, text := range cells {
		row[i] = cell(text)
	}
	*t = append(*t, row)
}

// print writes the table, with two blanks between columns.
func (t table) print(out io.Writer) error {
	widths := words.Widths(t)
	var text strings.Builder
	for _, cells := range t {
		var line strings.Builder
		for i, cell := range cells {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]+2-words.Columns(cell)))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
