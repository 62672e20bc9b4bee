// Package diagram makes a sequence diagram of one case of the fault lab from its recorded events. Readers can step
// through it. Of, a pure function, returns the model; Figure draws it.
package diagram

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/stock/internal/words"
	"example.com/stock/lab"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

func say(key string, pairs ...any) lab.Text { return phrases.Say(key, pairs...) }

// A Diagram has the events of a case in causal order, independent of the form in which it is drawn.
type Diagram struct {
	Title  lab.Text // the case
	Lanes  []Lane   // from left to right: customers, clients, instances, locks, servers, the store
	Steps  []Step   // from top to bottom, with ascending times
	Bars   []Bar
	Bands  []Band
	Charts []Chart

	Overlaps []Overlap
}

// A Lane is a customer, a client, an instance or a server.
type Lane struct {
	Name string // as in the events; "*" for many customers
	Role Role
	Says lab.Text
}

// A Role is the kind of a lane. Lanes are sorted by role.
type Role int

// The roles.
const (
	Customer Role = iota // a buyer
	Client               // code of the lab
	Instance
	Wire
	Lock
	Server // or one node of several
	Store
)

// A Step is one moment: an arrow from lane to lane, or an event in one lane.
type Step struct {
	Events   []int // indices of its events in the cell; several: repeated tries
	End      bool  // the end of an interval
	At       time.Duration
	Break    time.Duration // time since the previous step, if it is long; otherwise 0
	From, To int           // lanes; equal: no arrow
	Kind     lab.Kind
	Lost     bool // the arrow is refused
	Harm     bool // the write is based on a value that another write has replaced
	Label    lab.Text
	Says     lab.Text // one sentence
	Stock    *int64   // the stock from then on; nil: unknown
}

// A Bar is an interval in a lane: a hold, a pause, or the time between read and write.
type Bar struct {
	Event    int
	Lane     int
	Slot     int // overlapping bars of one lane have different slots, from 0
	From, To int // steps, both included
	Kind     lab.Kind
	Who      string
	At, For  time.Duration // exactly
	// for a lease: its rest at each of the steps; nil: unknown
	Left []time.Duration
	Full time.Duration // the maximum of Left
}

// An Overlap is an interval in which two holders both believed that they held the lock.
type Overlap struct {
	Bars     [2]int // indices of the two holds
	From, To int    // steps, both included
	Says     lab.Text
}

// A Band shades the duration of a fault.
type Band struct {
	Lane     int
	From, To int
	Says     lab.Text
}

// A Chart is a series of numbers, such as how many waiters each release woke.
type Chart struct {
	Event  int
	Values []int
	Says   lab.Text
}

const (
	manyLanes  = 6                      // if there are more customers, or more clients, they share a lane
	longBreak  = 300 * time.Millisecond // at which the axis has a break
	shortFault = 20 * time.Millisecond  // a shorter fault is drawn as a moment, unless an event falls into it
	longLabel  = 38                     // runes
)

// Of returns the diagram of a cell. It contains every event once: as a Step that is no End, as a Chart, or, if the
// event is a hold as its holder saw it, as a Bar. A cell with no events, or only such holds, has no steps.
func Of(cell lab.Cell) Diagram {
	d := Diagram{Title: cell.Case().Said()}
	if len(cell.Events) == 0 {
		return d
	}
	m := &maker{Diagram: d, events: slices.Clone(cell.Events), fences: Ranks(cell)}
	m.rank()
	m.shareLanes()
	m.charts()
	moments := m.moments()
	if len(moments) == 0 {
		return m.Diagram
	}
	m.first = moments[0].at
	m.causes(moments)
	m.grants(moments)
	m.findLanes(moments)
	m.step(moments)
	m.fold()
	m.spans()
	m.overlaps()
	m.harm()
	return m.Diagram
}

type maker struct {
	Diagram
	events []lab.CaseEvent
	fences map[string]string // their Ranks
	many   map[Role]bool     // roles that share a lane
	first  time.Time
}

// longFence matches a fencing token made from a clock, which is too long to compare by eye.
var longFence = regexp.MustCompile(`\b[0-9]{15,20}\b`)

// Ranks numbers the fencing tokens of a cell by size: "#1" is the smallest.
func Ranks(c lab.Cell) map[string]string {
	var all []string
	for _, e := range c.Evidence {
		all = append(all, longFence.FindAllString(e.Text, -1)...)
	}
	for _, e := range c.Events {
		if e.Fence > 0 {
			all = append(all, fmt.Sprint(e.Fence))
		}
		all = append(all, longFence.FindAllString(e.Text, -1)...)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	ranks := make(map[string]string)
	for i, number := range slices.Compact(all) {
		ranks[number] = fmt.Sprintf("#%d", i+1)
	}
	return ranks
}

// ReplaceFences replaces the long fencing tokens in a text.
func ReplaceFences(text string, by func(number string) string) string {
	return longFence.ReplaceAllStringFunc(text, by)
}

// rank replaces the long fencing tokens in the texts by their ranks.
func (m *maker) rank() {
	rank := func(number string) string { return m.fences[number] }
	for i := range m.events {
		e := &m.events[i]
		e.Text, e.ZH = ReplaceFences(e.Text, rank), ReplaceFences(e.ZH, rank)
	}
}

// roleOf returns the role of a lane of the events.
func roleOf(name string) Role {
	switch {
	case strings.HasPrefix(name, "app-"):
		return Instance
	case name == "wire":
		return Wire
	case name == "lock" || strings.HasPrefix(name, "lock in "):
		return Lock
	case name == "store":
		return Store
	}
	for _, server := range []string{"redis", "mysql", "zookeeper", "node ", "replica", "sentinel"} {
		if strings.HasPrefix(name, server) {
			return Server
		}
	}
	return Client
}

// ends returns the lanes of an event's arrow: its start and its head.
func ends(e lab.CaseEvent) (from, to string) {
	switch e.Kind {
	case lab.Sent:
		return e.Who, e.Lane
	case lab.Answered:
		return e.Lane, e.Who
	case lab.Gets, lab.Read:
		if e.To != "" {
			return e.To, e.Lane
		}
	}
	if e.To != "" {
		return e.Lane, e.To
	}
	return e.Lane, e.Lane
}

// shareLanes joins the lanes of customers, or of clients, if there are many.
func (m *maker) shareLanes() {
	buyers, clients := make(map[string]bool), make(map[string]bool)
	for _, e := range m.events {
		if e.Kind == lab.Sent || e.Kind == lab.Answered {
			buyers[e.Who] = true
		}
		if roleOf(e.Lane) == Client {
			clients[e.Lane] = true
		}
	}
	m.many = map[Role]bool{Customer: len(buyers) > manyLanes, Client: len(clients) > manyLanes}
	for i := range m.events {
		e := &m.events[i]
		if m.many[Customer] && (e.Kind == lab.Sent || e.Kind == lab.Answered) {
			e.Who = "*"
		}
		if m.many[Client] && roleOf(e.Lane) == Client {
			e.Lane = "*"
		}
	}
}

// findLanes lists the lanes that occur, in order.
func (m *maker) findLanes(list []moment) {
	add := func(name string, role Role) {
		if !slices.ContainsFunc(m.Lanes, func(l Lane) bool { return l.Name == name }) {
			m.Lanes = append(m.Lanes, Lane{Name: name, Role: role})
		}
	}
	for _, x := range list {
		e := m.events[x.event]
		if e.Kind == lab.Sent || e.Kind == lab.Answered {
			add(e.Who, Customer)
			add(e.Lane, roleOf(e.Lane))
			continue
		}
		for _, name := range []string{e.Lane, e.To} {
			if name != "" {
				add(name, roleOf(name))
			}
		}
	}
	for _, e := range m.events {
		add(e.Lane, roleOf(e.Lane))
	}
	slices.SortStableFunc(m.Lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for i := range m.Lanes {
		l := &m.Lanes[i]
		switch l.Says = words.Same(l.Name); {
		case l.Name == "*":
			l.Says = say("lanes.customers")
		case l.Name == "lock", l.Name == "store", l.Name == "wire":
			l.Says = say("lanes." + l.Name)
		case l.Role == Lock:
			l.Says = say("lanes.lock-in", "app", strings.TrimPrefix(l.Name, "lock in "))
		}
	}
}

func (m *maker) lane(name string) int {
	return slices.IndexFunc(m.Lanes, func(l Lane) bool { return l.Name == name })
}

// step makes a step of each moment.
func (m *maker) step(list []moment) {
	var stock *int64
	at := time.Duration(0)
	for _, x := range list {
		e := m.events[x.event]
		s := Step{Events: []int{x.event}, End: x.end, At: max(x.at.Sub(m.first), at), Kind: e.Kind}
		if gap := s.At - at; gap >= longBreak {
			s.Break = gap
		}
		at = s.At
		from, to := ends(e)
		s.From, s.To = m.lane(from), m.lane(to)
		s.Lost = e.Kind == lab.Refused && s.From != s.To
		if e.Left != nil && !s.Lost {
			stock = e.Left
		}
		s.Stock = stock
		s.Label, s.Says = m.label(e, x.end), m.sentence(e, x.end)
		m.Steps = append(m.Steps, s)
	}
}

// label returns the text at the arrow of an event.
func (m *maker) label(e lab.CaseEvent, end bool) lab.Text {
	said := e.Said()
	switch {
	case end && e.Kind == lab.Paused:
		return say("labels.goes-on")
	case end && e.Kind == lab.Standing:
		return say("labels.ends", "who", short(e.Who))
	case end:
		return say("labels.over")
	case e.Kind == lab.Sent:
		said = say("labels.buys")
	case e.Kind == lab.Answered:
		said = behind(said, ": ", "：")
	case e.Kind == lab.Asks:
		said = say("labels.asks")
	case e.Kind == lab.Gets && e.Fence > 0:
		said = say("labels.gets-with-fence", "fence", m.fences[fmt.Sprint(e.Fence)])
	case e.Kind == lab.Gets:
		said = say("labels.gets")
	case e.Kind == lab.Gives:
		said = say("labels.gives")
	case e.Kind == lab.Read && e.Read != nil && e.Version > 0:
		said = say("labels.read-version", "read", *e.Read, "version", e.Version)
	case e.Kind == lab.Read && e.Read != nil:
		said = say("labels.read", "read", *e.Read)
	case e.Kind == lab.Write && e.Left != nil && e.Fence > 0:
		said = say("labels.write-with-fence", "left", *e.Left, "fence", m.fences[fmt.Sprint(e.Fence)])
	case e.Kind == lab.Write && e.Left != nil:
		said = say("labels.write", "left", *e.Left)
	case e.Kind == lab.Paused:
		said = pointSaid(e)
	case e.Kind == lab.Thinks:
		said = say("labels.thinks", "for", Brief(e.Until.Sub(e.At)))
	case e.Kind == lab.Standing:
		said = say("labels.holds", "who", short(e.Who))
	case e.Kind == lab.Refused:
		said = behind(said, "was refused: ", "被拒绝：")
	}
	return lab.Text{EN: cut(said.EN, longLabel), ZH: cut(said.ZH, longLabel)}
}

// behind returns the part of a text after a mark, or the whole text.
func behind(t lab.Text, en, zh string) lab.Text {
	after := func(text, mark string) string {
		if _, rest, ok := strings.Cut(text, mark); ok {
			return rest
		}
		return text
	}
	t.EN = after(t.EN, en)
	if t.ZH = after(t.ZH, zh); zh != en {
		t.ZH = after(t.ZH, en)
	}
	return t
}

// cut shortens a text for the picture. The sentence has the whole text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// pointSaid returns the pause point in words.
func pointSaid(e lab.CaseEvent) lab.Text {
	switch p := e.Point; p {
	case lab.BeforeLock, lab.AfterLock, lab.AfterRead, lab.BeforeWrite, lab.AfterWrite, lab.AfterUnlock:
		return say("points." + p)
	default:
		return words.Same(p)
	}
}

// sentence returns the description of a step.
func (m *maker) sentence(e lab.CaseEvent, end bool) lab.Text {
	switch {
	case end && e.Kind == lab.Paused:
		return say("says.goes-on", "who", e.Who, "point", pointSaid(e))
	case end && e.Kind == lab.Standing:
		return say("says.hold-ends", "who", short(e.Who))
	case end:
		return say("says.over", "what", e.Said())
	case e.Kind == lab.Paused && e.Point != "":
		return say("says.stops", "who", e.Who, "point", pointSaid(e), "for", Brief(e.Until.Sub(e.At)))
	}
	return e.Said()
}

// fold joins repeated tries with the same result and no other step between them. It also joins equal steps of a crowd
// without a long break.
func (m *maker) fold() {
	var list []Step
	type doing struct {
		kind     lab.Kind
		end      bool
		from, to int
	}
	crowd := make(map[doing]int) // index of the step
	for _, s := range m.Steps {
		if s.Break > 0 {
			clear(crowd)
		}
		if m.many[Customer] && m.events[s.Events[0]].Who != "" {
			does := doing{s.Kind, s.End, s.From, s.To}
			if i, again := crowd[does]; again {
				list[i].Events = append(list[i].Events, s.Events...)
				for j := i; j < len(list); j++ {
					list[j].Stock = s.Stock
				}
				continue
			}
			crowd[does] = len(list)
		}
		if n := len(list); n > 0 && s.Kind == lab.Note && list[n-1].Kind == lab.Note && !s.End &&
			s.From == list[n-1].From && s.To == list[n-1].To && s.Break == 0 &&
			m.events[s.Events[0]].Text == m.events[list[n-1].Events[0]].Text {
			list[n-1].Events = append(list[n-1].Events, s.Events...)
			continue
		}
		list = append(list, s)
	}
	for i := range list {
		if n := len(list[i].Events); n > 1 {
			list[i].Says = say("says.times", "text", list[i].Says, "n", n)
			list[i].Label = say("says.times", "text", list[i].Label, "n", n)
		}
	}
	m.Steps = list
}

// row returns the index of the first step not before t, or of the last one.
func (m *maker) row(t time.Time) int {
	i := slices.IndexFunc(m.Steps, func(s Step) bool { return s.At >= t.Sub(m.first) })
	if i < 0 {
		return len(m.Steps) - 1
	}
	return i
}

// span returns the first and the last step between two moments. If there is none, both are the next step.
func (m *maker) span(from, until time.Time) (first, last int) {
	first = m.row(from)
	last = first
	for i := first; i < len(m.Steps) && m.Steps[i].At <= until.Sub(m.first); i++ {
		last = i
	}
	return first, last
}

// charts makes charts of the events with numbers.
func (m *maker) charts() {
	for i, e := range m.events {
		if len(e.Woken) > 0 {
			m.Charts = append(m.Charts, Chart{i, e.Woken, e.Said()})
		}
	}
}

// spans makes bars and bands of the intervals.
func (m *maker) spans() {
	for i, e := range m.events {
		if e.Until.IsZero() || len(e.Woken) > 0 {
			continue
		}
		if e.Kind == lab.Lease {
			e.At = m.got(e)
		}
		first, last := m.span(e.At, e.Until)
		switch e.Kind {
		case lab.Fault:
			if m.lasts(e) {
				m.Bands = append(m.Bands, Band{m.lane(e.Lane), first, last, e.Said()})
			}
		case lab.Lease, lab.Standing, lab.Paused, lab.Thinks:
			bar := Bar{
				Event: i, Lane: m.lane(e.Lane), From: first, To: last, Kind: e.Kind, Who: e.Who, At: e.At.Sub(m.first),
				For: e.Until.Sub(e.At),
			}
			m.runDown(&bar, e)
			m.Bars = append(m.Bars, bar)
		}
	}
	for i := range m.Bars {
		b := &m.Bars[i]
		for slices.ContainsFunc(m.Bars[:i], func(o Bar) bool {
			return o.Lane == b.Lane && o.Slot == b.Slot && o.From <= b.To && b.From <= o.To
		}) {
			b.Slot++
		}
	}
}

// overlaps finds the holds that overlap as their holders believed.
func (m *maker) overlaps() {
	for i, b := range m.Bars {
		for j, a := range m.Bars[:i] {
			one, other := m.events[a.Event], m.events[b.Event]
			if a.Kind == lab.Lease && b.Kind == lab.Lease && a.Who != b.Who && one.At.Before(other.Until) &&
				other.At.Before(one.Until) {
				says := say("says.both-held", "one", a.Who, "other", b.Who)
				m.Overlaps = append(m.Overlaps, Overlap{[2]int{j, i}, max(a.From, b.From), min(a.To, b.To), says})
			}
		}
	}
}

// got returns when a holder believed that it got its lease. For a refused sale only its first pause is known.
func (m *maker) got(lease lab.CaseEvent) time.Time {
	at := lease.At
	for _, e := range m.events {
		if e.Kind == lab.Gets && e.Who == lease.Who && e.Lane == lease.Lane && !e.At.After(lease.At) {
			at = e.At
		}
	}
	return at
}

// runDown fills in the rest of a lease at each step of its bar.
func (m *maker) runDown(bar *Bar, e lab.CaseEvent) {
	if len(e.TTL) == 0 {
		return
	}
	millis := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	for i := bar.From; i <= bar.To; i++ {
		at := m.first.Add(m.Steps[i].At)
		known := e.TTL[0]
		for _, ttl := range e.TTL {
			if !ttl.At.After(at) {
				known = ttl
			}
		}
		bar.Left = append(bar.Left, max(millis(known.Left)-at.Sub(known.At), 0))
	}
	for _, ttl := range e.TTL {
		bar.Full = max(bar.Full, millis(ttl.Left))
	}
	for i := range bar.Left {
		bar.Left[i] = min(bar.Left[i], bar.Full)
	}
}

// harm finds the writes that lost an update: another write was based on the same version, or, in a store without
// versions, on the same stock.
func (m *maker) harm() {
	for i := range m.Steps {
		s, e := &m.Steps[i], m.events[m.Steps[i].Events[0]]
		if e.Kind != lab.Write || s.End {
			continue
		}
		for _, before := range m.Steps[:i] {
			o := m.events[before.Events[0]]
			if o.Kind != lab.Write || o.To != e.To || o.Who == e.Who || o.Version != e.Version {
				continue
			}
			switch {
			case e.Version > 0 && e.Left != nil:
				s.Says = say("says.lost", "text", s.Says, "other", o.Who, "version", e.Version)
			case e.Version == 0 && e.Left != nil && o.Left != nil && *e.Left == *o.Left:
				s.Says = say("says.same-number", "text", s.Says, "other", o.Who, "left", *e.Left)
			default:
				continue
			}
			s.Harm = true
			break
		}
	}
}

// Brief formats a time for a picture.
func Brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
