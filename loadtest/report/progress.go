package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// plainEvery is the time between two lines of progress if lines cannot be overwritten.
const plainEvery = 2 * time.Second

// ShowProgress returns a progress function for Run that writes to w. On a terminal with that many columns it overwrites
// one line. If columns is 0 it writes a plain line every 2 s and at the end. It uses no colours.
func ShowProgress(w io.Writer, name, lang string, columns int) func(loadtest.Progress) {
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
		list := voice(lang).progress(&p)
		list[0] = voice(lang).say("progress.run", "run", name, "progress", list[0])
		switch {
		case !live:
			fmt.Fprintln(w, strings.Join(list, voice(lang).say("comma")))
		case p.Last:
			fmt.Fprint(w, "\r\x1b[K") // the result follows
		default:
			fmt.Fprint(w, "\r\x1b[K"+fit(list, voice(lang).say("comma"), columns-1))
		}
	}
}

// fit joins as many of parts as fit: a line that wraps could not be overwritten.
func fit(parts []string, comma string, room int) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if words.Columns(line+comma+part) > room {
			break
		}
		line += comma + part
	}
	for words.Columns(line) > room {
		_, last := utf8.DecodeLastRuneInString(line)
		line = line[:len(line)-last]
	}
	return line
}

// progress returns the progress in words, the more important first.
func (v voice) progress(p *loadtest.Progress) []string {
	var list []string
	part := func(key string, pairs ...any) { list = append(list, v.say("progress."+key, pairs...)) }
	switch {
	case p.WarmUp:
		part("warm-up")
	case p.Interrupted && !p.Last:
		part("interrupted")
	}
	part("sold", "rate", fmt.Sprintf("%.0f", p.SoldRate))
	if p.Total > 0 {
		part("of", "done", p.Done, "total", p.Total)
	} else {
		list = append(list, strconv.Itoa(p.Done))
	}
	list = append(list, fmt.Sprintf("%.0f/s", p.Rate))
	if p.Done > 0 {
		list = append(list, fmt.Sprintf("p50 %s p99 %s", loadtest.Millis(p.P50MS), loadtest.Millis(p.P99MS)))
	}
	part("accepted", "n", p.Outcomes[loadtest.Accepted])
	part("busy", "n", p.Outcomes[loadtest.Busy])
	if p.Oversold > 0 {
		part("oversold", "n", p.Oversold)
	}
	if p.Left >= time.Second && !p.Last && !p.Interrupted {
		part("left", "time", p.Left.Round(time.Second))
	}
	part("sold-out", "n", p.Outcomes[loadtest.SoldOut])
	if n := p.Outcomes[loadtest.Failed] + p.Outcomes[loadtest.Unknown]; n > 0 {
		part("failed", "n", n)
	}
	if p.Late > 0 {
		part("late", "n", p.Late)
	}
	if p.Dropped > 0 {
		part("dropped", "n", p.Dropped)
	}
	return list
}
