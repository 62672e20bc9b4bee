package loadtest

import (
	"fmt"
	"strings"
	"sync"
)

// Bounds on what is kept of the service under test. A run keeps the replies to all its requests and all orders, so a
// broken or hostile service could otherwise fill the memory of the judge. Lengths are in bytes.
const (
	MaxOrders = 5_000_000 // orders of a SKU that are read
	MaxID     = 256       // length of an id of an order, which means nothing when cut off
	MaxCursor = 4 << 10   // length of a cursor

	maxReply  = 512 << 10 // length of the reply to a deduction
	maxHeader = 64 << 10  // length of the headers of a reply
	maxText   = 512       // length of any other text
	maxNames  = 1000      // different names of instances and problems
	maxErrors = 10_000    // different error texts and targets of redirects
)

// Clip returns text, cut off at the bound. Then it says how long the text was.
func Clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	said := fmt.Sprintf("... (%d bytes)", len(text))
	return strings.ToValidUTF8(text[:maxText-len(said)], "") + said
}

// A textPool keeps each text once, up to a number of different ones. It is safe for concurrent use.
type textPool struct {
	most int

	mu   sync.Mutex
	kept map[string]string
}

// keep returns text as it is kept. The text may share memory with something longer.
func (t *textPool) keep(text string) string {
	if text == "" {
		return ""
	}
	text = Clip(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if kept, known := t.kept[text]; known {
		return kept
	}
	if len(t.kept) == t.most {
		return fmt.Sprintf("(more than %d different ones)", t.most)
	}
	if t.kept == nil {
		t.kept = make(map[string]string)
	}
	text = strings.Clone(text)
	t.kept[text] = text
	return text
}

// Keep returns r within the bounds. A sale whose id cannot be kept has an unknown outcome.
func (c *Client) Keep(r Reply) Reply {
	long := func(what, id string) {
		if len(id) <= MaxID {
			return
		}
		r.OrderID, r.Receipt = "", nil
		if r.Outcome == Accepted {
			r.Outcome = Unknown
			r.Error = fmt.Sprintf("the %s id has %d bytes, of which no more than %d are kept", what, len(id), MaxID)
		}
	}
	long("order", r.OrderID)
	if r.Receipt != nil && r.Batch != nil {
		long("batch", r.Batch.ID)
	}
	r.Instance, r.Problem = c.names.keep(r.Instance), c.names.keep(r.Problem)
	r.Error, r.Location = c.errors.keep(r.Error), c.errors.keep(r.Location)
	return r
}
