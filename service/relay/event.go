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

// An Event is a movement in its published form. All copies of an event are equal, byte for byte.
type Event struct {
	// ID is the same for every copy of the event and differs between events, so that a receiver can recognise a
	// repeat. It consists of the SKU, with "~" for ".", the number, and a digest of the movement, separated by
	// slashes. It contains no ".", because webhooks sign "id.timestamp.body".
	//
	// SKU and number alone would not be unique: a store that was restored from an older copy gives the same numbers to
	// other movements, and nobody may notice the restore. See docs/adr/README.md.
	ID   string         `json:"id"`
	Type string         `json:"type"`      // "stock." and the kind of the movement
	At   time.Time      `json:"timestamp"` // of the movement
	Data order.Movement `json:"data"`
	// Traceparent is the place in a trace of the request that moved the stock, "" if it was not sampled. It is the
	// extension "traceparent" of CloudEvents: of the origin, not of the delivery, so that all copies stay equal.
	Traceparent string `json:"traceparent,omitempty"`
}

// NewEvent returns the event of a movement.
func NewEvent(m order.Movement) Event {
	place := strings.ReplaceAll(string(m.SKU), ".", "~") + "/" + strconv.FormatUint(m.Number, 10)
	e := Event{
		ID: place + "/" + digest(m), Type: "stock." + string(m.Kind), At: m.At, Data: m, Traceparent: m.Traceparent,
	}
	e.Data.Traceparent = ""
	return e
}

// digest distinguishes movements with the same number. Movements that are equal in all fields are the same movement. A
// new version of the program must compute the same digest.
func digest(m order.Movement) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %d %d %d %d %q %q %q %d", m.SKU, m.Number, m.Kind,
		m.Received, m.Available, m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason, m.At.UnixMicro()))
	return hex.EncodeToString(sum[:8])
}

func (e Event) body() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return text, nil
}

// A Sink is a destination of events.
type Sink interface {
	// Deliver returns nil when the receiver has stored the event. An error that matches ErrUnavailable concerns the
	// receiver: the relay resends the event until it is delivered. Any other error concerns this event: the relay parks
	// it after too many attempts. The relay delivers the events of one SKU one after the other, and those of different
	// SKUs concurrently. When ctx ends, Deliver returns at once; the event may have arrived, or may still arrive.
	Deliver(ctx context.Context, e Event) error
}

// ErrUnavailable: the receiver did not answer, or answered that it cannot process events now. It may have received the
// event.
var ErrUnavailable = errors.New("the receiver is not available")

// A LaterError is an ErrUnavailable with the pause that the receiver asks for.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return fmt.Sprintf("%v; again in %v", e.Err, e.After) }

func (e *LaterError) Unwrap() error { return e.Err }

func (e *LaterError) Is(target error) bool { return target == ErrUnavailable }

// unavailable marks err as an error of the receiver.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
