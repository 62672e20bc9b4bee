package report

import (
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
	runs := p.runs()
	var raced, wrong, open, lucky []string
	v := voice(p.Lang)
	kept := 0
	var oversold, lost int64
	for _, r := range runs {
		verdict, name := &r.Verdict, v.in(named(r))
		switch {
		case verdict.Finding == loadtest.Broken && verdict.Kept:
			raced = append(raced, name)
			oversold, lost = oversold+verdict.OversoldUnits, lost+max(verdict.LostUnits, 0)
			kept++
		case verdict.Finding == loadtest.Broken:
			wrong = append(wrong, name)
		case !verdict.Kept || verdict.Finding == loadtest.Undecided:
			open = append(open, name)
		default:
			kept++
			if verdict.Luck {
				lucky = append(lucky, name)
			}
		}
	}
	s := &summary{Word: v.say("summary.kept"), Class: "good"}
	line := func(list []string, key string) {
		if len(list) > 0 {
			s.Lines = append(s.Lines, phrases.Say("summary."+key, "n", len(list), "names", v.names(list)).In(p.Lang))
		}
	}
	switch {
	case len(wrong) > 0:
		s.Word, s.Class = v.say("summary.broken"), "bad"
	case len(open) > 0:
		s.Word, s.Class = v.say("summary.open"), "odd"
	case len(raced) > 0:
		s.Word = v.say("summary.kept-raced", "oversold", thousands(oversold), "lost", thousands(lost))
		s.Class = "raced"
	}
	s.Lines = append(s.Lines, v.say("summary.of", "kept", kept, "runs", v.count("run", int64(len(runs)))))
	line(wrong, "lost")
	line(raced, "raced")
	line(lucky, "lucky")
	line(open, "undecided")
	return s
}

// names lists each name once, with its count if that is above 1.
func (v voice) names(list []string) string {
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
			name = v.say("summary.times", "run", name, "n", n)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, v.say("comma"))
}
