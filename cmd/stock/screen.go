package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A screen is standard output or standard error as all commands write to it. Names and replies of other computers are
// in what they print, and a terminal obeys some characters: a screen writes an escape such as \u001b in their place.
type screen struct {
	file *os.File
	mu   sync.Mutex
	rest []byte // the beginning of a character that the next Write completes
}

// clearLine is what the lines of progress begin with. A screen writes it at the start of a Write only.
const clearLine = "\r\x1b[K"

// colours are what the reports and the QR code paint with. A screen writes them as they are.
var colours = [...]string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[30;47m"}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(s.rest, text...)
	whole := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		if last := all[len(all)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= i
			}
			break
		}
	}
	s.rest = bytes.Clone(all[whole:])
	var out strings.Builder
	line, cleared := strings.CutPrefix(string(all[:whole]), clearLine)
	if cleared {
		out.WriteString(clearLine)
	}
	for line != "" {
		n := colour(line)
		if n > 0 {
			out.WriteString(line[:n])
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(line)
			out.WriteString(visible(r, "\n\t"))
		}
		line = line[n:]
	}
	if _, err := s.file.WriteString(out.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Fd implements the interface that width needs.
func (s *screen) Fd() uintptr { return s.file.Fd() }

// colour returns the length of the colour that a text begins with, or 0.
func colour(text string) int {
	if text[0] == '\x1b' {
		for _, c := range colours {
			if strings.HasPrefix(text, c) {
				return len(c)
			}
		}
	}
	return 0
}

// visible returns the character, or its escape if it is none of allowed and would not be seen as itself: control
// characters, those that change the direction of writing, and separators of lines.
func visible(r rune, allowed string) string {
	if !strings.ContainsRune(allowed, r) &&
		(unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)) {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// cell returns the text of a cell: a line break there would begin a row that is none.
func cell(text string) string {
	var out strings.Builder
	for _, r := range text {
		out.WriteString(visible(r, ""))
	}
	return out.String()
}
