package loadtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/stock/internal/words"
)

// Format and Version are in the first line of every history. Version increases when a reader of the previous version
// would misread a history.
const (
	Format  = "stock-history"
	Version = 2
)

// A Header is the first line of a history. It describes the run.
type Header struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Run       string    `json:"run"`
	Target    string    `json:"target"`
	StartedAt time.Time `json:"started_at"`
	Plan      Plan      `json:"plan"`
	Strategy  Strategy  `json:"strategy"`
	Command   string    `json:"command"` // repeats the run with the same seed; without the admin token
	Before    []Stock   `json:"before"`  // the stock of each SKU as it was set
}

// An End is the last line of a history: the state of the store after the run.
type End struct {
	Stocks      []Closing `json:"stocks"`  // of each SKU
	Dropped     int       `json:"dropped"` // requests of an open loop never sent, because too many were in flight
	Interrupted bool      `json:"interrupted"`
	SettledMS   float64   `json:"settled_ms,omitempty"` // as in Result
	Ran         []Ran     `json:"ran,omitempty"`        // the commands of the plan
}

// A Closing is the final state of one SKU. It has the keys of an Account.
type Closing struct {
	SKU      string     `json:"sku"`
	After    *Stock     `json:"after"`
	Complete bool       `json:"complete"`
	Gap      words.Text `json:"gap,omitzero"`
	LookedAt time.Time  `json:"looked_at,omitzero"`
}

// A History is a run in a file of JSON lines: the Header; a Record for each request in order of completion, those of
// the warm-up first; {"order": ...} for each order in the store, and {"undone": ...} for each that an earlier look
// found and the last did not; {"end": ...}. The history of a killed run has no orders and no end, but its records are
// valid.
type History struct {
	Header  Header
	Warm    []Record // of the warm-up, on separate SKUs; not judged or measured
	Records []Record
	Orders  []Order
	Undone  []Order
	End     *End // nil: the run was killed
}

// Accounts returns the account of each SKU.
func (h *History) Accounts() []Account {
	bySKU := func(list []Order) map[string][]Order {
		m := make(map[string][]Order, len(h.Header.Before))
		for _, o := range list {
			m[o.SKU] = append(m[o.SKU], o)
		}
		return m
	}
	orders, undone := bySKU(h.Orders), bySKU(h.Undone)
	accounts := make([]Account, 0, len(h.Header.Before))
	for _, before := range h.Header.Before {
		a := Account{
			Store:  h.Header.Plan.Store,
			Before: before,
			Orders: orders[before.SKU],
			Undone: undone[before.SKU],
			Gap:    say("gap.no-end"),
		}
		if h.End != nil {
			a.Gap = say("gap.end-silent")
			for _, c := range h.End.Stocks {
				if c.SKU == before.SKU {
					a.After, a.Complete, a.Gap, a.LookedAt = c.After, c.Complete, c.Gap, c.LookedAt
					if before.Unlisted && c.After != nil {
						a.Gap = say("gap.unlisted") // a history keeps texts in English
					}
				}
			}
		}
		accounts = append(accounts, a)
	}
	return accounts
}

// Judge judges the run again, from the history alone.
func (h *History) Judge() Verdict { return h.Result().Verdict }

// Result returns the Result that Run returned. A killed run, which has no end, counts as interrupted. Records are
// sorted by Seq. The Result shares memory with h.
func (h *History) Result() *Result {
	r := &Result{
		Plan:        h.Header.Plan,
		Target:      h.Header.Target,
		Run:         h.Header.Run,
		Command:     h.Header.Command,
		Strategy:    h.Header.Strategy,
		StartedAt:   h.Header.StartedAt,
		Interrupted: true,
		Warm:        h.Warm,
		Records:     h.Records,
		Accounts:    h.Accounts(),
	}
	if h.End != nil {
		r.Interrupted, r.Dropped, r.SettledMS = h.End.Interrupted, h.End.Dropped, h.End.SettledMS
		r.Ran = h.End.Ran
	}
	r.judge()
	return r
}

// WriteHistory writes all of h. (Run streams it instead.)
func WriteHistory(w io.Writer, h *History) error {
	out, header := NewLineWriter(w), h.Header
	header.Format, header.Version = Format, Version
	out.Line(header)
	for _, records := range [][]Record{h.Warm, h.Records} {
		for i := range records {
			out.Line(line{Record: &records[i]})
		}
	}
	for i := range h.Orders {
		out.Line(line{Order: &h.Orders[i]})
	}
	for i := range h.Undone {
		out.Line(line{Undone: &h.Undone[i]})
	}
	if h.End != nil {
		out.Line(line{End: h.End})
	}
	return out.Flush()
}

// A line is any line but the first. Exactly one of its fields is set.
type line struct {
	*Record
	Order  *Order `json:"order,omitempty"`
	Undone *Order `json:"undone,omitempty"`
	End    *End   `json:"end,omitempty"`
}

// A LineWriter writes a history, a JSON object a line. It keeps its first error, and Flush returns it. The zero value
// writes nothing.
type LineWriter struct {
	buf *bufio.Writer
	enc *json.Encoder
	err error
}

// NewLineWriter makes a LineWriter on w, with a buffer. nil writes nothing.
func NewLineWriter(w io.Writer) *LineWriter {
	if w == nil {
		return new(LineWriter)
	}
	buf := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return &LineWriter{buf: buf, enc: enc}
}

// Line writes a line, unless one before failed.
func (w *LineWriter) Line(v any) {
	if w.enc != nil && w.err == nil {
		w.err = w.enc.Encode(v)
	}
}

// Flush writes what is in the buffer, and returns the first error.
func (w *LineWriter) Flush() error {
	if w.buf != nil && w.err == nil {
		w.err = w.buf.Flush()
	}
	return w.err
}

// writeEnd writes what follows the records of a run.
func (r *Result) writeEnd(out *LineWriter) {
	end := &End{
		Stocks:      make([]Closing, 0, len(r.Accounts)),
		Dropped:     r.Dropped,
		Interrupted: r.Interrupted,
		SettledMS:   r.SettledMS,
		Ran:         r.Ran,
	}
	for i := range r.Accounts {
		a := &r.Accounts[i]
		for j := range a.Orders {
			out.Line(line{Order: &a.Orders[j]})
		}
		for j := range a.Undone {
			out.Line(line{Undone: &a.Undone[j]})
		}
		end.Stocks = append(end.Stocks, Closing{a.Before.SKU, a.After, a.Complete, a.Gap, a.LookedAt})
	}
	out.Line(line{End: end})
}

// maxLine is the longest line of a history, in bytes. Ours have a few hundred.
const maxLine = 1 << 20

// ErrCut reports that the last line of a history is cut off, as when its writer was killed. The value returned with it
// has all earlier lines.
var ErrCut = errors.New("the last line is cut off")

// ReadHistory reads a history. It is strict: an unknown key, an impossible value or a misplaced line is an error that
// names the line. If the last line has no newline and cannot be read, ReadHistory leaves it out and returns an error
// that matches ErrCut.
func ReadHistory(r io.Reader) (*History, error) {
	h := new(History)
	err := ReadLines(r, h.readHeader, h.readLine)
	if err != nil && !errors.Is(err, ErrCut) {
		return nil, err
	}
	return h, err
}

// ReadLines reads the output of a LineWriter. It calls header with the first line and line with each other one, until
// line reports the end, which nothing can follow. It returns the first error of these calls, with the line's number. If
// a last line without a newline is in error and is not the first, the error matches ErrCut. text is valid during the
// call only.
func ReadLines(r io.Reader, header func(text []byte) error, line func(text []byte) (end bool, err error)) error {
	in, ended := bufio.NewReaderSize(r, maxLine), false
	for number := 1; ; number++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d: is longer than %d bytes", number, maxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("line %d: %w", number, err)
		case err != nil && len(text) == 0 && number == 1:
			return errors.New("line 1: the history is empty")
		case err != nil && len(text) == 0:
			return nil
		}
		last := err != nil
		switch {
		case number == 1:
			err = header(text)
		case ended:
			err = errors.New("nothing can follow the end")
		default:
			ended, err = line(text)
		}
		switch {
		case err != nil && last && number > 1:
			return fmt.Errorf("line %d: %w after %d bytes: %w", number, ErrCut, len(text), err)
		case err != nil:
			return fmt.Errorf("line %d: %w", number, err)
		case last:
			return nil
		}
	}
}

func (h *History) readHeader(text []byte) error {
	if err := StrictHeader(text, Format, Version, &h.Header); err != nil {
		return err
	}
	if err := h.Header.Plan.Check(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

func (h *History) readLine(text []byte) (end bool, err error) {
	var l line
	if err := Strict(text, &l); err != nil {
		return false, err
	}
	kinds := 0
	for _, present := range []bool{l.Record != nil, l.Order != nil, l.Undone != nil, l.End != nil} {
		if present {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return false, errors.New("must be a request, an order or the end")
	case l.Record != nil:
		return false, h.addRecord(l.Record)
	case l.Order != nil:
		return false, addOrder(&h.Orders, l.Order)
	case l.Undone != nil:
		return false, addOrder(&h.Undone, l.Undone)
	}
	h.End = l.End
	return true, nil
}

func addOrder(list *[]Order, o *Order) error {
	if o.OrderID == "" || o.Quantity < 1 {
		return errors.New("an order must have an order_id, and a quantity of 1 or more")
	}
	*list = append(*list, *o)
	return nil
}

func (h *History) addRecord(r *Record) error {
	err, list := r.check(), &h.Records
	if r.Warm {
		list = &h.Warm
	}
	switch {
	case err != nil:
		return err
	case len(h.Orders)+len(h.Undone) > 0:
		return errors.New("a request cannot follow an order")
	case r.Warm && len(h.Records) > 0:
		return errors.New("a request of the warm-up cannot follow one of the run")
	}
	*list = append(*list, *r)
	return nil
}

// StrictHeader decodes the first line of a file of that format and version. Another format or version is reported as
// such, and not as an unknown key.
func StrictHeader(text []byte, format string, version int, into any) error {
	var kind struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &kind); err != nil || kind.Format != format {
		return fmt.Errorf(`a history begins with {"format":%q,"version":%d`, format, version)
	}
	if kind.Version != version {
		return fmt.Errorf("this is version %d of the format, and only version %d can be read here: use the stock "+
			"that wrote it, or run the load again", kind.Version, version)
	}
	return Strict(text, into)
}

// Strict decodes text, which must be one JSON value without unknown keys.
func Strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}
