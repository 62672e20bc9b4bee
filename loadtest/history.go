package loadtest

import (
	"bufio"
	"encoding/json"
	"io"
	"time"
)

// Format and Version are in the first line of every history. Version grows when a reader of the last one would misread the new one.
const (
	Format  = "stock-history"
	Version = 1
)

// A Header is the first line of a history: what was run.
type Header struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Run       string    `json:"run"`
	Target    string    `json:"target"`
	StartedAt time.Time `json:"started_at"`
	Plan      Plan      `json:"plan"`
	Strategy  Strategy  `json:"strategy"`
	Before    Stock     `json:"before"` // the stock as it was set
}

// An End is the last line of a history: what the store said when all was over. The final state cannot be in the first
// line, because the lines are written while the run is on.
type End struct {
	After       *Stock `json:"after"`    // nil: it could not be read
	Complete    bool   `json:"complete"` // as in Account
	Gap         string `json:"gap,omitempty"`
	Interrupted bool   `json:"interrupted"`
}

// A History is a run on file, as JSON lines: the header; a Record per request in order of completion; {"order": ...} for each
// order in the store; {"end": ...}. A run that was killed has no orders and no end, and its records are good all the same.
type History struct {
	Header  Header
	Records []Record
	Orders  []Order
	End     *End // nil: the run was killed
}

// Judge judges the history once more, by nothing but what is in it.
func (h *History) Judge() Verdict {
	account := Account{Store: h.Header.Plan.Store, Before: h.Header.Before, Orders: h.Orders, Gap: "the history has no end"}
	if h.End != nil {
		account.After, account.Complete, account.Gap = h.End.After, h.End.Complete, h.End.Gap
	}
	return Judge(h.Records, []Account{account}, h.Header.Strategy.Promise)
}

// WriteHistory writes h whole. (Run streams it instead.)
func WriteHistory(w io.Writer, h *History) error {
	out := newHistoryWriter(w)
	out.header(h.Header)
	for i := range h.Records {
		out.record(&h.Records[i])
	}
	for i := range h.Orders {
		out.line(line{Order: &h.Orders[i]})
	}
	if h.End != nil {
		out.line(line{End: h.End})
	}
	return out.flush()
}

// A line is any line but the first: exactly one of the three.
type line struct {
	*Record
	Order *Order `json:"order,omitempty"`
	End   *End   `json:"end,omitempty"`
}

// A historyWriter writes line by line. Its first error sticks, and flush returns it. Without a writer it does nothing.
type historyWriter struct {
	buf *bufio.Writer
	enc *json.Encoder
	err error
}

func newHistoryWriter(w io.Writer) *historyWriter {
	if w == nil {
		return &historyWriter{}
	}
	buf := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return &historyWriter{buf: buf, enc: enc}
}

func (h *historyWriter) line(v any) {
	if h.enc != nil && h.err == nil {
		h.err = h.enc.Encode(v)
	}
}

func (h *historyWriter) header(header Header) {
	header.Format, header.Version = Format, Version
	h.line(header)
}

func (h *historyWriter) record(r *Record) { h.line(line{Record: r}) }

func (h *historyWriter) end(a Account, interrupted bool) {
	for i := range a.Orders {
		h.line(line{Order: &a.Orders[i]})
	}
	h.line(line{End: &End{After: a.After, Complete: a.Complete, Gap: a.Gap, Interrupted: interrupted}})
}

func (h *historyWriter) flush() error {
	if h.buf != nil && h.err == nil {
		h.err = h.buf.Flush()
	}
	return h.err
}
