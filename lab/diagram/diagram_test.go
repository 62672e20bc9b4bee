package diagram_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
)

// recorded returns cells of a real run.
func recorded(t testing.TB) []lab.Cell {
	t.Helper()
	text, err := os.ReadFile("testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	var r lab.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r.Cells
}

// name is the file of a cell.
func name(c lab.Cell) string {
	said := strings.NewReplacer(" ", "-", ",", "").Replace(c.Scenario + "." + c.Case().Subject() + "." + c.Variant)
	return strings.TrimSuffix(said, ".")
}

// Three diagrams of a real run are whole: lanes, steps, bars, faults and breaks.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, c := range recorded(t) {
		file := filepath.Join("testdata", name(c)+".golden")
		if !slices.Contains(files, file) {
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := dump(diagram.Of(c)); got != string(want) {
			t.Errorf("the diagram of %s differs from its file:\n%s", name(c), got)
		}
	}
}

// dump writes all of a diagram for people.
func dump(d diagram.Diagram) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s / %s\n", d.Title.EN, d.Title.ZH)
	for _, l := range d.Lanes {
		fmt.Fprintf(&b, "lane %d %s / %s\n", l.Role, l.Says.EN, l.Says.ZH)
	}
	for i, s := range d.Steps {
		if s.Break > 0 {
			fmt.Fprintf(&b, "   ... %s\n", diagram.Brief(s.Break))
		}
		fmt.Fprintf(&b, "%2d %s ", i+1, diagram.Brief(s.At))
		switch {
		case s.From == s.To:
			fmt.Fprintf(&b, "%s", d.Lanes[s.From].Name)
		case s.Lost:
			fmt.Fprintf(&b, "%s -x %s", d.Lanes[s.From].Name, d.Lanes[s.To].Name)
		default:
			fmt.Fprintf(&b, "%s -> %s", d.Lanes[s.From].Name, d.Lanes[s.To].Name)
		}
		fmt.Fprintf(&b, " [%s / %s]", s.Label.EN, s.Label.ZH)
		if s.Stock != nil {
			fmt.Fprintf(&b, " stock %d", *s.Stock)
		}
		if s.Harm {
			b.WriteString(" HARM")
		}
		fmt.Fprintf(&b, "\n     %s\n     %s\n", s.Says.EN, s.Says.ZH)
	}
	for _, x := range d.Bars {
		fmt.Fprintf(&b, "bar %s of %s in %s, slot %d, steps %d to %d", x.Kind, x.Who, d.Lanes[x.Lane].Name, x.Slot,
			x.From+1, x.To+1)
		for _, left := range x.Left {
			fmt.Fprintf(&b, " %s", diagram.Brief(left))
		}
		b.WriteString("\n")
	}
	for _, x := range d.Bands {
		fmt.Fprintf(&b, "fault in %s, steps %d to %d: %s\n", d.Lanes[x.Lane].Name, x.From+1, x.To+1, x.Says.EN)
	}
	for _, x := range d.Charts {
		fmt.Fprintf(&b, "chart %v: %s\n", x.Values, x.Says.EN)
	}
	return b.String()
}

// check returns what is wrong with the diagram of a cell, whatever the cell is.
func check(c lab.Cell, d diagram.Diagram) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(d.Steps) == 0 {
		return nil
	}
	times := make([]int, len(c.Events)) // how often each event is drawn
	at := time.Duration(0)
	for i, s := range d.Steps {
		if s.At < at {
			bad("step %d is earlier than the one before", i+1)
		}
		at = s.At
		for _, lane := range []int{s.From, s.To} {
			if lane < 0 || lane >= len(d.Lanes) {
				bad("step %d: lane %d", i+1, lane)
			}
		}
		if s.Says.EN == "" || s.Says.ZH == "" || len([]rune(s.Label.EN)) > 60 {
			bad("step %d says %q, %q", i+1, s.Says, s.Label)
		}
		for _, n := range s.Events {
			if !s.End {
				times[n]++
			}
		}
	}
	for _, b := range d.Bars {
		if b.From < 0 || b.To < b.From || b.To >= len(d.Steps) || b.Lane < 0 ||
			b.Left != nil && len(b.Left) != b.To-b.From+1 {
			bad("bar %+v", b)
		}
		if b.Kind == lab.Lease {
			times[b.Event]++
		}
		for i, left := range b.Left {
			if left < 0 || left > b.Full {
				bad("bar %+v: %v left at %d", b, left, i)
			}
		}
	}
	for _, b := range d.Bands {
		if b.From < 0 || b.To < b.From || b.To >= len(d.Steps) || b.Lane < 0 {
			bad("band %+v", b)
		}
	}
	for _, x := range d.Charts {
		times[x.Event]++
	}
	for n, drawn := range times {
		if drawn != 1 {
			bad("event %d (%s, %s) is drawn %d times", n, c.Events[n].Kind, c.Events[n].Text, drawn)
		}
	}
	return append(wrong, causes(c, d)...)
}

// causes returns the effects that stand before their causes.
func causes(c lab.Cell, d diagram.Diagram) (wrong []string) {
	order := map[lab.Kind]int{
		lab.Sent: 0, lab.Asks: 1, lab.Gets: 2, lab.Read: 3, lab.Write: 4, lab.Gives: 5, lab.Answered: 6,
	}
	wrote := make(map[uint64]bool) // versions
	steps := make(map[string]int)  // of each customer, how far it has come
	for i, s := range d.Steps {
		e := c.Events[s.Events[0]]
		place, known := order[e.Kind]
		if !known || s.End || e.Who == "" {
			continue
		}
		if before := steps[e.Who]; place < before && e.Kind != lab.Asks && e.Kind != lab.Read && e.Kind != lab.Gets {
			wrong = append(wrong, fmt.Sprintf("step %d: %s of %s comes after what it causes", i+1, e.Kind, e.Who))
		}
		steps[e.Who] = place
		switch {
		case e.Version == 0:
		case e.Kind == lab.Read && wrote[e.Version]:
			wrong = append(wrong, fmt.Sprintf("step %d: %s reads version %d, which is gone", i+1, e.Who, e.Version))
		case e.Kind == lab.Write:
			wrote[e.Version] = true
		}
	}
	return wrong
}

// In the diagrams of a real run no effect stands before its cause, and every event is drawn once.
func TestARealRun(t *testing.T) {
	t.Parallel()
	for _, c := range recorded(t) {
		for _, wrong := range check(c, diagram.Of(c)) {
			t.Errorf("%s: %s", name(c), wrong)
		}
	}
}

// The same holds for any sales whatever: customers who read, think and write at random, with and without a lock, each
// step noted up to a millisecond later than the store did it; with faults, pauses and leases anywhere.
func TestAnySales(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		c := anyCell(rand.New(rand.NewPCG(seed, 14)))
		d := diagram.Of(c)
		if wrong := check(c, d); len(wrong) > 0 {
			t.Fatalf("seed %d: %s\n%s", seed, strings.Join(wrong, "\n"), dump(d))
		}
	}
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// anyCell makes up a run: a store with versions, and customers whose steps are noted late.
func anyCell(r *rand.Rand) lab.Cell {
	type sale struct {
		who     string
		at      time.Time // of its last note
		read    int64
		version uint64
		done    int
	}
	var events []lab.CaseEvent
	now, left, version := began, int64(1+r.IntN(5)), uint64(1)
	locks := r.IntN(2) == 0
	note := func(s *sale, e lab.CaseEvent) {
		e.At = now.Add(time.Duration(r.IntN(1000)) * time.Microsecond)
		if !e.At.After(s.at) {
			e.At = s.at.Add(time.Microsecond)
		}
		s.at = e.At
		e.Who = s.who
		e.Lane = "app-" + fmt.Sprint(1+int(s.who[0])%3)
		e.Text, e.ZH = string(e.Kind)+" "+s.who, string(e.Kind)+" "+s.who
		events = append(events, e)
	}
	var sales []*sale
	for i := range 1 + r.IntN(9) {
		sales = append(sales, &sale{who: string(rune('A' + i))})
	}
	for range 80 {
		now = now.Add(time.Duration(r.IntN(600)) * time.Microsecond)
		if r.IntN(20) == 0 {
			now = now.Add(time.Second)
		}
		s := sales[r.IntN(len(sales))]
		lock := func(kind lab.Kind) {
			if locks {
				note(s, lab.CaseEvent{Kind: kind, To: "lock", Fence: uint64(r.IntN(2)) * 1795372784451533})
			}
		}
		switch s.done {
		case 0:
			note(s, lab.CaseEvent{Kind: lab.Sent})
		case 1:
			lock(lab.Asks)
		case 2:
			lock(lab.Gets)
		case 3:
			s.read, s.version = left, version
			note(s, lab.CaseEvent{Kind: lab.Read, To: "store", Read: &s.read, Version: version})
		case 4:
			n := s.read - 1
			version, left = version+1, n
			note(s, lab.CaseEvent{Kind: lab.Write, To: "store", Read: &s.read, Left: &n, Version: s.version})
		case 5:
			lock(lab.Gives)
		case 6:
			note(s, lab.CaseEvent{Kind: lab.Answered})
		}
		s.done++
		if r.IntN(6) == 0 {
			kind := []lab.Kind{lab.Fault, lab.Paused, lab.Standing, lab.Lease, lab.Thinks, lab.Note}[r.IntN(6)]
			e := lab.CaseEvent{
				At: now, Until: now.Add(time.Duration(r.IntN(3000)) * time.Millisecond),
				Lane: "app-1", Kind: kind, Who: "A",
				Text: string(kind), ZH: string(kind),
			}
			switch kind {
			case lab.Standing:
				e.Lane, e.TTL = "lock", []lab.TTL{{At: e.At, Left: 2000}, {At: e.Until, Left: float64(r.IntN(3000))}}
			case lab.Fault:
				e.Who = ""
			case lab.Paused:
				e.Point = "before_write"
			case lab.Note:
				e.Until, e.Lane = time.Time{}, []string{"redis", "A", "node 3"}[r.IntN(3)]
			}
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b lab.CaseEvent) int { return a.At.Compare(b.At) })
	return lab.Cell{Scenario: "any", Strategy: "none", Events: events}
}
