package order

import (
	"context"
	"errors"
	"time"

	"example.com/stock/service"
)

// ErrNoDeadLetter: the event is not parked.
var ErrNoDeadLetter = errors.New("no such dead letter")

// A DeadLetter is an event that the relay has parked after too many refusals. A person decides whether to resend or
// skip it. Until then the later events of its SKU wait, so a SKU has at most one.
type DeadLetter struct {
	SKU      service.SKU `json:"sku"`
	Number   uint64      `json:"number"` // of the movement
	Attempts int         `json:"attempts"`
	Reason   string      `json:"reason"` // error of the last attempt, up to MaxDeadReason bytes
	ParkedAt time.Time   `json:"parked_at"`
	Decision Decision    `json:"verdict,omitempty"`
}

// MaxDeadReason is the longest DeadLetter.Reason.
const MaxDeadReason = 500

// A Decision says what to do with a dead letter.
type Decision string

// Decisions.
const (
	Undecided Decision = ""      // a person has not decided yet
	Resend    Decision = "retry" // send it again, with its attempts counted from 0
	Skip      Decision = "skip"  // leave it out: its receiver sees a gap in the numbers
	Settled   Decision = "done"  // the relay has carried out the decision: the letter is removed
)

// DeadLetters keeps the parked events in the store of the ledger. It needs no fence: a letter only makes the relay
// wait for a person, and a letter is ignored once its movement was delivered.
type DeadLetters interface {
	// Park stores a letter, and replaces an earlier letter of the same SKU. It ignores d.ParkedAt and d.Decision: the
	// letter gets the time of the store's server, and is undecided.
	Park(ctx context.Context, d DeadLetter) error
	// Parked returns up to limit letters, sorted by SKU, beginning after the given SKU ("": with the first).
	Parked(ctx context.Context, after service.SKU, limit int) ([]DeadLetter, error)
	// Decide sets the decision of a letter, or removes the letter if v is Settled. It fails with ErrNoDeadLetter if the
	// SKU has no letter with that number.
	Decide(ctx context.Context, sku service.SKU, number uint64, v Decision) error
}
