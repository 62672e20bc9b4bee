package loadtest

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Style is how reports for people look. The zero value is right for a file: no colour, 120 columns.
type Style struct {
	Color bool // ANSI colours; every coloured word says the same without
	Width int  // columns; 0: 120
}

func (s Style) width() int {
	if s.Width <= 0 {
		return 120
	}
	return max(s.Width, 40)
}

// A tone is an ANSI colour, or plain.
type tone string

const (
	plain tone = ""
	good  tone = "32"
	bad   tone = "1;31"
	odd   tone = "33"
	faint tone = "2"
)

func (s Style) paint(t tone, text string) string {
	if !s.Color || t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// pad fills text up to width, and paints it after that, so that colours do not count as columns.
func (s Style) pad(t tone, text string, width int, right bool) string {
	blank := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
	if right {
		return blank + s.paint(t, text)
	}
	return s.paint(t, text) + blank
}

// wrap breaks text into lines that fit beside indent columns. The first line is not indented.
func (s Style) wrap(text string, indent int) string {
	var b strings.Builder
	room := max(s.width()-indent, 20)
	column := 0
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// millis writes three digits: 0.12ms, 1.23ms, 12.3ms, 123ms, 1.23s.
func millis(ms float64) string {
	switch {
	case ms < 9.995:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 99.95:
		return fmt.Sprintf("%.1fms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0fms", ms)
	case ms < 9995:
		return fmt.Sprintf("%.2fs", ms/1000)
	}
	return fmt.Sprintf("%.1fs", ms/1000)
}

// word is the finding as shown: capitals where colour would be red.
func (v *Verdict) word() (string, tone) {
	switch {
	case v.Finding == Holds:
		return "holds", good
	case v.Finding == Broken && v.Kept:
		return "BROKEN", odd
	case v.Finding == Broken:
		return "BROKEN", bad
	}
	return "unknown", odd
}

// promised is the promise in a word.
func (v *Verdict) promised() (string, tone) {
	switch {
	case v.Kept && v.RaceSeen:
		return "expected", odd
	case v.Kept && v.Luck:
		return "not seen", odd
	case v.Kept:
		return "yes", good
	case v.Finding == Undecided:
		return "unclear", odd
	}
	return "NO", bad
}
