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
	Version = 2
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
	Command   string    `json:"command"` // that does the same again, with the same seed; without the admin token
	Before    []Stock   `json:"before"`  // the stock of each SKU as it was set
}

// An End is the last line of a history: what the store said when all was over. The final state cannot be in the first
// line, because the lines are written while the run is on.
type End struct {
	Stocks      []Closing `json:"stocks"`  // of each SKU
	Dropped     int       `json:"dropped"` // requests of an open loop that were never sent: too many were under way
	Interrupted bool      `json:"interrupted"`
	SettledMS   float64   `json:"settled_ms,omitempty"` // as in Result
}

// A Closing is the final state of one SKU: its keys are those of Account.
type Closing struct {
	SKU      string `json:"sku"`
	After    *Stock `json:"after"`
	Complete bool   `json:"complete"`
	Gap      string `json:"gap,omitempty"`
}

// A History is a run on file, as JSON lines: the header; a Record per request in order of completion, those of the warm-up first;
// {"order": ...} for each order in the store; {"end": ...}. A run that was killed has no orders and no end, and its records are
// good all the same.
type History struct {
	Header  Header
	Warm    []Record // of the warm-up: on SKUs of their own, in no figure and no verdict
	Records []Record
	Orders  []Order
	End     *End // nil: the run was killed
}

// Accounts are what the store said of each SKU.
func (h *History) Accounts() []Account {
	orders := make(map[string][]Order, len(h.Header.Before))
	for _, o := range h.Orders {
		orders[o.SKU] = append(orders[o.SKU], o)
	}
	accounts := make([]Account, 0, len(h.Header.Before))
	for _, before := range h.Header.Before {
		a := Account{Store: h.Header.Plan.Store, Before: before, Orders: orders[before.SKU], Gap: "the history has no end"}
		if h.End != nil {
			a.Gap = "the history does not say how it ended"
			for _, c := range h.End.Stocks {
				if c.SKU == before.SKU {
					a.After, a.Complete, a.Gap = c.After, c.Complete, c.Gap
				}
			}
		}
		accounts = append(accounts, a)
	}
	return accounts
}

// Judge judges the history once more, by nothing but what is in it.
func (h *History) Judge() Verdict { return h.Result().Verdict }

// Result is the run as Run returned it, or would have if it had not been killed: one without an end counts as interrupted.
// Its records are sorted by Seq. It shares memory with h.
func (h *History) Result() *Result {
	r := &Result{
		Plan: h.Header.Plan, Target: h.Header.Target, Run: h.Header.Run, Command: h.Header.Command, Strategy: h.Header.Strategy,
		StartedAt: h.Header.StartedAt, Interrupted: true, Warm: h.Warm, Records: h.Records, Accounts: h.Accounts(),
	}
	if h.End != nil {
		r.Interrupted, r.Dropped, r.SettledMS = h.End.Interrupted, h.End.Dropped, h.End.SettledMS
	}
	r.judge()
	return r
}

// WriteHistory writes h whole. (Run streams it instead.)
func WriteHistory(w io.Writer, h *History) error {
	out := newHistoryWriter(w)
	out.header(h.Header)
	for i := range h.Warm {
		out.record(&h.Warm[i])
	}
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

func (h *historyWriter) end(r *Result) {
	end := &End{Stocks: make([]Closing, 0, len(r.Accounts)), Dropped: r.Dropped, Interrupted: r.Interrupted, SettledMS: r.SettledMS}
	for i := range r.Accounts {
		a := &r.Accounts[i]
		for j := range a.Orders {
			h.line(line{Order: &a.Orders[j]})
		}
		end.Stocks = append(end.Stocks, Closing{a.Before.SKU, a.After, a.Complete, a.Gap})
	}
	h.line(line{End: end})
}

func (h *historyWriter) flush() error {
	if h.buf != nil && h.err == nil {
		h.err = h.buf.Flush()
	}
	return h.err
}
