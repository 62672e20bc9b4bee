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

// A progressLine shows the progress of a run. On a terminal with that many columns it overwrites one line. If columns
// is 0 it writes a plain line every 2 s and at the end. It uses no colours.
type progressLine struct {
	voice
	to      io.Writer
	columns int
	shown   time.Duration // since the start, when a plain line was written
}

func (l *progressLine) show(elapsed time.Duration, last bool, parts []string) {
	switch comma := l.say("comma"); {
	case l.columns == 0 && !last && elapsed-l.shown < plainEvery:
	case l.columns == 0:
		l.shown = elapsed
		fmt.Fprintln(l.to, strings.Join(parts, comma))
	case last:
		fmt.Fprint(l.to, "\r\x1b[K") // the result follows
	default:
		fmt.Fprint(l.to, "\r\x1b[K"+fit(parts, comma, l.columns-1))
	}
}

// ShowProgress returns a progress function for loadtest.Run that writes to w, on a terminal with that many columns, or
// plain lines if columns is 0.
func ShowProgress(w io.Writer, name, lang string, columns int) func(loadtest.Progress) {
	line := &progressLine{voice: voice(lang), to: w, columns: columns}
	var warm bool
	return func(p loadtest.Progress) {
		if p.WarmUp != warm {
			line.shown, warm = 0, p.WarmUp
		}
		parts := line.progress(&p)
		parts[0] = line.say("progress.run", "run", name, "progress", parts[0])
		line.show(p.Elapsed, p.Last, parts)
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
