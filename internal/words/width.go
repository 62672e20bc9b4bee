package words

// Columns returns how many columns of a terminal a text takes: a Chinese character, and its punctuation, takes two.
func Columns(text string) int {
	n := 0
	for _, r := range text {
		n++
		if Wide(r) {
			n++
		}
	}
	return n
}

// Wide reports whether a character is as wide as two letters: the blocks of Unicode that East Asian text is made of.
func Wide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6
}

// Widths returns the columns of a terminal that each column of a table needs. Rows may have different lengths.
func Widths(rows [][]string) (widths []int) {
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Columns(cell))
		}
	}
	return widths
}
