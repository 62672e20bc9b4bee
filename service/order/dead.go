package order

import (
	"context"
	"errors"
	"time"

	"example.com/stock/service"
)

// ErrNoDeadLetter: that event is not parked, or not any more.
var ErrNoDeadLetter = errors.New("no such dead letter")

// A DeadLetter is an event that its receiver refused so often that the relay has parked it. The events of its SKU that
// come after it wait: a person decides whether it is sent again, or left out. So a SKU has one at most.
type DeadLetter struct {
	SKU      service.SKU `json:"sku"`
	Number   uint64      `json:"number"` // of the movement
	Attempts int         `json:"attempts"`
	Reason   string      `json:"reason"` // of the last attempt, up to MaxDeadReason bytes
	ParkedAt time.Time   `json:"parked_at"`
	Decision Decision    `json:"verdict,omitempty"`
}

// MaxDeadReason bounds DeadLetter.Reason: what is longer is cut.
const MaxDeadReason = 500

// A Decision says what is to become of a dead letter.
type Decision string

// Verdicts.
const (
	Undecided Decision = ""      // a person has not decided yet
	Resend    Decision = "retry" // a person wants it to be sent again: it has its attempts anew
	Skip      Decision = "skip"  // a person wants it to be left out: its receiver sees a gap in the numbers
	Settled   Decision = "done"  // the relay has done so: the letter is removed
)

// DeadLetters keep what the relay has parked, in the store of the ledger. They need no fence: a letter only makes the
// relay wait for a person, and one whose movement was delivered means nothing.
type DeadLetters interface {
	// Park keeps a letter, undecided, in place of that of the same SKU if there is one. ParkedAt and Decision of d do
	// not count: the time is the store's.
	Park(ctx context.Context, d DeadLetter) error
	// Parked returns up to limit letters, in order of their SKUs, after the given one ("": from the first).
	Parked(ctx context.Context, after service.SKU, limit int) ([]DeadLetter, error)
	// Decide sets the verdict of a letter, or removes it if v is Settled. It fails with ErrNoDeadLetter if the SKU has
	// no letter with that number.
	Decide(ctx context.Context, sku service.SKU, number uint64, v Decision) error
}
