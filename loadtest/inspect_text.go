package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteInspection writes i for people.
func WriteInspection(w io.Writer, i *Inspection, style Style) error {
	var b strings.Builder
	b.WriteString(style.wrap(fmt.Sprintf("%s on %s at %s, judged from the store alone", i.SKU, store(i.Store), i.Target), 2) + "\n\n")
	line := func(name, format string, args ...any) {
		b.WriteString("  " + style.pad(faint, name, label, false) + style.wrap(fmt.Sprintf(format, args...), label+2) + "\n")
	}
	remaining, lost := "not known", "not known"
	if i.Known {
		remaining, lost = fmt.Sprint(i.Remaining), fmt.Sprint(i.Lost)
	}
	line("stock", "%d at first, %d sold, remaining %s", i.Initial, i.Sold, remaining)
	by := ""
	if len(i.Ways) > 0 {
		by += ", by " + strings.Join(i.Ways, " and ")
	}
	if len(i.Instances) > 0 {
		by += ", on " + strings.Join(i.Instances, ", ")
	}
	line("orders", "%d%s", i.Orders, by)
	if i.Accepted != nil {
		line("accepted", "%d, as you say", *i.Accepted)
	}
	line("damage", "oversold %d, lost updates %s, collisions %d", i.Oversold, lost, i.Collisions)

	word, t := (&Verdict{Finding: i.Finding}).word()
	b.WriteString("\n  " + style.pad(faint, "verdict", label, false) + style.paint(t, strings.ToUpper(word)))
	if i.Finding == Holds {
		fmt.Fprintf(&b, ": %d = %d remaining + %d sold", i.Initial, i.Remaining, i.Sold)
		if i.Orders > 0 {
			b.WriteString(", and no two orders read the same")
		}
	}
	b.WriteByte('\n')
	for _, reason := range i.Reasons {
		b.WriteString(strings.Repeat(" ", label+2) + "- " + style.wrap(reason.Text, label+4) + "\n")
	}
	for _, note := range i.Notes {
		line("note", "%s", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteInspectionJSON writes i for programs.
func WriteInspectionJSON(w io.Writer, i *Inspection) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(i)
}
