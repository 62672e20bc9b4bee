package loadtest

import (
	"fmt"
	"io"
	"time"
)

// plainEvery is the time between two lines of progress where lines cannot be overwritten.
const plainEvery = 2 * time.Second

// ShowProgress returns a progress function for Run that writes to w: one line that is overwritten if w is a terminal of so many columns, and
// a plain line every 2 s and at the end if columns is 0.
func ShowProgress(w io.Writer, name string, columns int) func(Progress) {
	var shown time.Duration
	return func(p Progress) {
		live := columns > 0
		if !live && !p.Last && p.Elapsed-shown < plainEvery {
			return
		}
		shown = p.Elapsed
		o := p.Outcomes
		line := fmt.Sprintf("%s: %d of %d, %.0f/s, accepted %d, busy %d, sold out %d", name, p.Done, p.Total, p.Rate, o[Accepted], o[Busy], o[SoldOut])
		if n := o[Failed] + o[Unknown]; n > 0 {
			line += fmt.Sprintf(", failed or unknown %d", n)
		}
		switch {
		case !live:
			fmt.Fprintln(w, line)
		case p.Last:
			fmt.Fprint(w, "\r\x1b[K") // the result says it all
		default:
			// A line that wraps could not be overwritten.
			fmt.Fprint(w, "\r\x1b[K"+line[:min(len(line), columns-1)])
		}
	}
}
