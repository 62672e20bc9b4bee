package checkout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// Format and HistoryVersion are in the first line of every history.
const (
	Format         = "stock-checkout-history"
	HistoryVersion = 2
)

// A header is the first line of a history.
type header struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Run       string    `json:"run"`
	Target    string    `json:"target"`
	StartedAt time.Time `json:"started_at"`
	Command   string    `json:"command"`
	Plan      Plan      `json:"plan"`
	Before    []Counts  `json:"before"`
	Events    string    `json:"events,omitempty"` // where events were read
}

// An end is the last line. Without it, the run was killed.
type end struct {
	After       []Counts       `json:"after"`
	Interrupted bool           `json:"interrupted"`
	Unheard     words.Text     `json:"unheard,omitzero"`
	Unread      words.Text     `json:"unread,omitzero"`
	ReadAt      time.Time      `json:"read_at,omitzero"`
	Ran         []loadtest.Ran `json:"ran,omitempty"` // the commands of the plan
}

// A line is any line but the first. Exactly one of its fields is set. Attempts come first, in the order in which they
// ended; the books follow at the end.
type line struct {
	*Record
	Movement    *Movement `json:"movement,omitempty"`
	Event       *Event    `json:"event,omitempty"`
	Order       *Thing    `json:"order,omitempty"`
	Reservation *Thing    `json:"reservation,omitempty"`
	End         *end      `json:"end,omitempty"`
}

func (r *Result) writeHeader(out *loadtest.LineWriter) {
	first := header{
		Format: Format, Version: HistoryVersion, Run: r.Run, Target: r.Target, StartedAt: r.StartedAt,
		Command: r.Command, Plan: r.Plan, Events: r.Heard,
	}
	for _, b := range r.Books {
		first.Before = append(first.Before, b.Before)
	}
	out.Line(first)
}

// writeEnd writes what follows the records of a run.
func (r *Result) writeEnd(out *loadtest.LineWriter) {
	e := &r.Evidence
	last := &end{Interrupted: r.Interrupted, Unheard: e.Unheard, Unread: e.Unread, ReadAt: e.ReadAt, Ran: r.Ran}
	for i := range e.Books {
		b := &e.Books[i]
		for k := range b.Movements {
			out.Line(line{Movement: &b.Movements[k]})
		}
		for k := range b.Events {
			out.Line(line{Event: &b.Events[k]})
		}
		last.After = append(last.After, b.After)
	}
	for i := range e.Orders {
		out.Line(line{Order: &e.Orders[i]})
	}
	for i := range e.Reservations {
		out.Line(line{Reservation: &e.Reservations[i]})
	}
	out.Line(line{End: last})
}

// WriteHistory writes the history of a result. (Run streams it instead.)
func WriteHistory(w io.Writer, r *Result) error {
	out := loadtest.NewLineWriter(w)
	r.writeHeader(out)
	for i := range r.Evidence.Records {
		out.Line(line{Record: &r.Evidence.Records[i]})
	}
	r.writeEnd(out)
	return out.Flush()
}

// IsHistory reports whether a file that begins with first is a history of a checkout.
func IsHistory(first []byte) bool {
	return bytes.HasPrefix(first, []byte(`{"format":"`+Format+`"`))
}

// ReadHistory reads a history, and judges it again. It is strict: an unknown key or an impossible value is an error
// that names the line. A last line that is cut off, as when its writer was killed, is left out, and the error matches
// loadtest.ErrCut. A run without an end counts as interrupted, with unread books.
func ReadHistory(from io.Reader) (*Result, error) {
	r := &Result{Format: ReportFormat, Version: ReportVersion, Interrupted: true}
	books := make(map[string]int)
	ended := false
	header := func(text []byte) error { return r.readHeader(text, books) }
	err := loadtest.ReadLines(from, header, func(text []byte) (_ bool, err error) {
		ended, err = r.readLine(text, books)
		return ended, err
	})
	if err != nil && !errors.Is(err, loadtest.ErrCut) {
		return nil, err
	}
	return r.rejudge(ended), err
}

func (r *Result) rejudge(ended bool) *Result {
	r.Evidence.Run, r.Evidence.Limit = r.Run, r.Plan.limit()
	if !ended {
		r.Evidence.Unread = say("unread.no-end")
	}
	r.Verdict = Judge(&r.Evidence)
	r.Books = r.Evidence.Books
	r.Figures = Measure(r)
	return r
}

func (r *Result) readHeader(text []byte, books map[string]int) error {
	var h header
	if err := loadtest.StrictHeader(text, Format, HistoryVersion, &h); err != nil {
		return err
	}
	if _, err := h.Plan.Filled(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	r.Run, r.Target, r.StartedAt = h.Run, h.Target, h.StartedAt
	r.Command, r.Plan, r.Heard = h.Command, h.Plan, h.Events
	for i, before := range h.Before {
		books[before.SKU] = i
		r.Evidence.Books = append(r.Evidence.Books, Book{Before: before, After: before})
	}
	return nil
}

func (r *Result) readLine(text []byte, books map[string]int) (ended bool, err error) {
	var l line
	if err := loadtest.Strict(text, &l); err != nil {
		return false, err
	}
	e := &r.Evidence
	book := func(sku string) (*Book, error) {
		i, known := books[sku]
		if !known {
			return nil, fmt.Errorf("the SKU %q is not in the first line", sku)
		}
		return &e.Books[i], nil
	}
	switch {
	case l.Record != nil:
		e.Records = append(e.Records, *l.Record)
		return false, l.Record.check()
	case l.Movement != nil:
		b, err := book(l.Movement.SKU)
		if err == nil {
			b.Movements = append(b.Movements, *l.Movement)
		}
		return false, err
	case l.Event != nil:
		b, err := book(l.Event.Data.SKU)
		if err == nil {
			b.Events = append(b.Events, *l.Event)
		}
		return false, err
	case l.Order != nil:
		e.Orders = append(e.Orders, *l.Order)
	case l.Reservation != nil:
		e.Reservations = append(e.Reservations, *l.Reservation)
	case l.End != nil:
		for _, after := range l.End.After {
			b, err := book(after.SKU)
			if err != nil {
				return false, err
			}
			b.After = after
		}
		r.Interrupted, e.Unheard, e.Unread = l.End.Interrupted, l.End.Unheard, l.End.Unread
		e.ReadAt, r.Ran = l.End.ReadAt, l.End.Ran
		return true, nil
	default:
		return false, errors.New("must be an attempt, a movement, an event, an order, a reservation or the end")
	}
	return false, nil
}

// planText is the JSON form of a Plan. Its durations are those of the plan itself.
type planText struct {
	*bare
	Duration *loadtest.Span `json:"duration,omitzero"`
	TTL      *loadtest.Span `json:"ttl"`
	Timeout  *loadtest.Span `json:"timeout"`
}

type bare Plan // without the methods

func (p *Plan) text() *planText {
	return &planText{
		(*bare)(p), (*loadtest.Span)(&p.Duration), (*loadtest.Span)(&p.TTL), (*loadtest.Span)(&p.Timeout),
	}
}

// MarshalJSON writes durations as "5s".
func (p Plan) MarshalJSON() ([]byte, error) { return json.Marshal(p.text()) }

// UnmarshalJSON reads the form that MarshalJSON writes. An unknown key is an error, as in loadtest.Strict.
func (p *Plan) UnmarshalJSON(data []byte) error {
	*p = Plan{}
	return loadtest.Strict(data, p.text())
}
