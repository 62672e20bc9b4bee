package diagram_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
)

// The steps of a diagram are in an order that could have happened, whenever each was noticed: a lock is granted to B
// after the server no longer regards A as its holder, and nothing goes on in a process that is dead.
func TestAnOrderThatCouldHaveHappened(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	asked := lab.CaseEvent{At: at(0), Lane: "app-1", Kind: lab.Asks, Who: "A", To: "lock", Text: "A asks for the lock"}
	granted := func(who, app string, ms int, fence uint64) lab.CaseEvent {
		return lab.CaseEvent{
			At: at(ms), Lane: app, Kind: lab.Gets, Who: who, To: "lock", Fence: fence, Text: who + " has the lock",
		}
	}
	held := func(who string, from, until int) lab.CaseEvent {
		return lab.CaseEvent{
			At: at(from), Until: at(until), Lane: "lock", Kind: lab.Standing, Who: who, Text: who + " is the holder",
		}
	}
	paused := lab.CaseEvent{
		At: at(40), Until: at(150), Lane: "app-1", Kind: lab.Paused, Who: "A", Point: lab.AfterRead,
		Text: "A is paused",
	}
	dead := func(text, point string) lab.CaseEvent {
		return lab.CaseEvent{At: at(100), Until: at(400), Lane: "app-1", Kind: lab.Fault, Point: point, Text: text}
	}
	elsewhere := dead("", lab.Killed)
	elsewhere.Lane = "app-2"
	last := lab.CaseEvent{
		At: at(500), Lane: "app-2", Kind: lab.Gives, Who: "B", To: "lock", Text: "B releases the lock",
	}
	for name, row := range map[string]struct {
		events []lab.CaseEvent
		want   string // the labels of the steps whose order matters
	}{
		"the end of a hold is noticed after the next grant": {
			[]lab.CaseEvent{
				asked, granted("A", "app-1", 10, 1), held("A on app-1", 11, 310), granted("B", "app-2", 300, 2),
				held("B on app-2", 310, 490), last,
			},
			"granted, fence #1; no longer A; granted, fence #2; no longer B",
		},
		"the grant to the holder itself stays before its end": {
			[]lab.CaseEvent{asked, held("A on app-1", 5, 310), granted("A", "app-1", 10, 1), last},
			"granted, fence #1; no longer A",
		},
		"killed in a pause":         {[]lab.CaseEvent{asked, paused, dead("", lab.Killed), last}, ""},
		"frozen in a pause":         {[]lab.CaseEvent{asked, paused, dead("app-1 was frozen", ""), last}, "goes on"},
		"another process is killed": {[]lab.CaseEvent{asked, paused, elsewhere, last}, "goes on"},
	} {
		var labels []string
		for _, s := range diagram.Of(lab.Cell{Events: row.events}).Steps {
			if slices.ContainsFunc([]string{"granted", "no longer", "goes on"}, func(word string) bool {
				return strings.HasPrefix(s.Label.EN, word)
			}) {
				labels = append(labels, s.Label.EN)
			}
		}
		if got := strings.Join(labels, "; "); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
