package report

import (
	"fmt"
	"slices"
	"strings"

	"example.com/stock/loadtest"
)

// A summary is the verdict on several runs.
type summary struct {
	Word, Class string
	Lines       []string
}

func (p Page) summary() *summary {
	var runs []*loadtest.Result
	for _, g := range p.Groups {
		runs = append(runs, g.Runs...)
	}
	var raced, wrong, open, lucky []string
	kept := 0
	for _, r := range runs {
		v, name := &r.Verdict, heading(r)
		switch {
		case v.Finding == loadtest.Broken && v.Kept:
			raced = append(raced, name)
			kept++
		case v.Finding == loadtest.Broken:
			wrong = append(wrong, name)
		case !v.Kept || v.Finding == loadtest.Undecided:
			open = append(open, name)
		default:
			kept++
			if v.Luck {
				lucky = append(lucky, name)
			}
		}
	}
	s := &summary{Word: "All as promised", Class: "good"}
	line := func(list []string, format string) {
		if len(list) > 0 {
			s.Lines = append(s.Lines, fmt.Sprintf(format, len(list), names(list)))
		}
	}
	switch {
	case len(wrong) > 0:
		s.Word, s.Class = "A promise was broken", "bad"
	case len(open) > 0:
		s.Word, s.Class = "Not all is decided", "odd"
	}
	s.Lines = append(s.Lines, fmt.Sprintf("%d of %s were as promised.", kept, count(len(runs), "run")))
	line(wrong, "%d lost stock although they promise not to: %s.")
	line(raced, "%d lost stock, as was to be expected of what promises no exclusion: %s.")
	line(lucky, "%d lost nothing by luck: %s.")
	line(open, "%d could not be decided: %s.")
	return s
}

// names lists each name once, and how often if it is there several times.
func names(list []string) string {
	var parts []string
	for i, name := range list {
		if slices.Index(list, name) < i {
			continue
		}
		n := 0
		for _, other := range list {
			if other == name {
				n++
			}
		}
		if n > 1 {
			name += fmt.Sprintf(" (%d times)", n)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}
