package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/stock/loadtest"
)

// plainEvery is the time between two lines of progress if lines cannot be overwritten.
const plainEvery = 2 * time.Second

// ShowProgress returns a progress function for Run that writes to w. On a terminal with that many columns it overwrites
// one line. If columns is 0 it writes a plain line every 2 s and at the end. It uses no colours.
func ShowProgress(w io.Writer, name string, columns int) func(loadtest.Progress) {
	var shown time.Duration
	var warm bool
	return func(p loadtest.Progress) {
		live := columns > 0
		if p.WarmUp != warm {
			shown, warm = 0, p.WarmUp
		}
		if !live && !p.Last && p.Elapsed-shown < plainEvery {
			return
		}
		shown = p.Elapsed
		list := parts(&p)
		list[0] = name + ": " + list[0]
		switch {
		case !live:
			fmt.Fprintln(w, strings.Join(list, ", "))
		case p.Last:
			fmt.Fprint(w, "\r\x1b[K") // the result follows
		default:
			fmt.Fprint(w, "\r\x1b[K"+fit(list, columns-1))
		}
	}
}

// fit joins as many of parts as fit: a line that wraps could not be overwritten.
func fit(parts []string, room int) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if utf8.RuneCountInString(line)+2+utf8.RuneCountInString(part) > room {
			break
		}
		line += ", " + part
	}
	runes := []rune(line)
	return string(runes[:min(len(runes), room)])
}

// parts returns the progress in words, the more important first.
func parts(p *loadtest.Progress) []string {
	var list []string
	part := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch {
	case p.WarmUp:
		part("warm-up")
	case p.Interrupted && !p.Last:
		part("interrupted, waiting for replies")
	}
	if p.Total > 0 {
		part("%d of %d", p.Done, p.Total)
	} else {
		part("%d", p.Done)
	}
	part("%.0f/s", p.Rate)
	if p.Done > 0 {
		part("p50 %s p99 %s", loadtest.Millis(p.P50MS), loadtest.Millis(p.P99MS))
	}
	part("accepted %d", p.Outcomes[loadtest.Accepted])
	part("busy %d", p.Outcomes[loadtest.Busy])
	if p.Oversold > 0 {
		part("OVERSOLD %d", p.Oversold)
	}
	if p.Left >= time.Second && !p.Last && !p.Interrupted {
		part("%v left", p.Left.Round(time.Second))
	}
	part("sold out %d", p.Outcomes[loadtest.SoldOut])
	if n := p.Outcomes[loadtest.Failed] + p.Outcomes[loadtest.Unknown]; n > 0 {
		part("failed or unknown %d", n)
	}
	if p.Late > 0 {
		part("late %d", p.Late)
	}
	if p.Dropped > 0 {
		part("dropped %d", p.Dropped)
	}
	return list
}
