package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/stock/service/order"
)

// An Event is a movement as it is announced. The same movement is the same event, byte for byte, however often it is
// sent.
type Event struct {
	// ID is the same for every copy, and for no other event: what a receiver recognises a repeat by. It is the SKU, with
	// "~" for ".", the number, and a digest of the movement, with slashes between. Webhooks sign "id.timestamp.body", so
	// a "." in an id would leave open where it ends.
	//
	// SKU and number alone are not enough. A store that was restored from an older copy gives numbers a second time, to
	// other movements, and nobody may have noticed that it was. See docs/adr/0025.
	ID   string         `json:"id"`
	Type string         `json:"type"`      // "stock." and the kind of the movement
	At   time.Time      `json:"timestamp"` // of the movement
	Data order.Movement `json:"data"`
}

// NewEvent returns the event of a movement.
func NewEvent(m order.Movement) Event {
	place := strings.ReplaceAll(string(m.SKU), ".", "~") + "/" + strconv.FormatUint(m.Number, 10)
	return Event{ID: place + "/" + digest(m), Type: "stock." + string(m.Kind), At: m.At, Data: m}
}

// digest tells movements of the same number apart: two that are equal in everything, down to the microsecond and the
// order, are one. It must not change with the version of the program.
func digest(m order.Movement) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %d %d %d %d %q %q %q %d", m.SKU, m.Number, m.Kind,
		m.Received, m.Available, m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason, m.At.UnixMicro()))
	return hex.EncodeToString(sum[:8])
}

// body returns the event as JSON.
func (e Event) body() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return text, nil
}

// A Sink is where events go.
type Sink interface {
	// Deliver returns nil when the receiver has the event for good. An error that matches ErrUnavailable is about the
	// receiver: the event is sent again until it gets through. Any other error is about this event, which is parked
	// when it has come too often. The relay delivers the events of a SKU one after the other, and those of several SKUs
	// at a time. When ctx ends, Deliver returns at once; the event may have arrived, or still arrive.
	Deliver(ctx context.Context, e Event) error
}

// ErrUnavailable: the receiver did not answer, or said that it cannot serve now. It may have the event.
var ErrUnavailable = errors.New("the receiver is not available")

// A LaterError is an ErrUnavailable of a receiver that has said when it wants to be asked again.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("%v; again in %v", e.Err, e.After) }

// Unwrap returns what went wrong.
func (e *LaterError) Unwrap() error { return e.Err }

// Is makes a LaterError match ErrUnavailable.
func (e *LaterError) Is(target error) bool { return target == ErrUnavailable }

// unavailable wraps an error that is about the receiver.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
