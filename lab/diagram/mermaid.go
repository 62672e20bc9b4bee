package diagram

import (
	"fmt"
	"regexp"
	"strings"

	"example.com/stock/lab"
)

// longStatement is the most runes of a statement at an arrow of Mermaid.
const longStatement = 72

// Mermaid returns the diagram as Mermaid text, which GitHub draws, in one language: en or zh. It has only the times of
// long breaks, so that it changes only with the findings. The lab's page has all times.
func (d Diagram) Mermaid(lang string) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for i, l := range d.Lanes {
		kind := "participant"
		if l.Role <= Client {
			kind = "actor"
		}
		fmt.Fprintf(&b, "    %s p%d as %s\n", kind, i+1, plain(l.Says.In(lang)))
	}
	note := func(from, to int, text string) {
		over := fmt.Sprintf("p%d", min(from, to)+1)
		if from != to {
			over += fmt.Sprintf(",p%d", max(from, to)+1)
		}
		fmt.Fprintf(&b, "    Note over %s: %s\n", over, plain(text))
	}
	var stock *int64
	for i, s := range d.Steps {
		if s.Break > 0 {
			note(0, len(d.Lanes)-1, say("page.later", "for", roughly(s.Break)).In(lang))
		}
		label := s.Label.In(lang)
		if s.Kind == lab.Note { // a statement: Mermaid has more room than the page
			label = cut(s.Says.In(lang), longStatement)
		}
		switch {
		case s.From == s.To:
			note(s.From, s.To, s.Says.In(lang))
		case s.Lost:
			fmt.Fprintf(&b, "    p%d-xp%d: %s\n", s.From+1, s.To+1, plain(label))
		case s.Kind == lab.Answered || s.Kind == lab.Gives:
			fmt.Fprintf(&b, "    p%d-->>p%d: %s\n", s.From+1, s.To+1, plain(label))
		default:
			fmt.Fprintf(&b, "    p%d->>p%d: %s\n", s.From+1, s.To+1, plain(label))
		}
		if s.Harm {
			note(s.From, s.To, "⚠ "+s.Says.In(lang))
		}
		if s.Stock != nil && s.Kind == lab.Write && (stock == nil || *stock != *s.Stock || s.Harm) {
			note(s.To, s.To, say("page.stock", "n", *s.Stock).In(lang))
		}
		stock = s.Stock
		for _, bar := range d.Bars {
			if bar.Left != nil && bar.From == i {
				note(bar.Lane, bar.Lane,
					say("page.left", "who", short(bar.Who), "left", roughly(bar.Left[0])).In(lang))
			}
		}
	}
	return b.String()
}

// end matches the word that ends a block in Mermaid, even within a text.
var end = regexp.MustCompile(`(?i)\bend\b`)

// plain escapes what Mermaid would read as markup.
func plain(text string) string {
	text = strings.NewReplacer("#", "#35;", ";", "#59;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(text)
	return end.ReplaceAllStringFunc(text, func(word string) string { return word[:1] + "#8203;" + word[1:] })
}
