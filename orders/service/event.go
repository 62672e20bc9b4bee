package service

import (
	"strconv"
	"strings"
	"time"
)

// An Event is a row of the outbox: a movement that the receiver has not got yet.
type Event struct {
	ID       int64 // of the row; receivers see Name
	SKU      string
	Number   int64
	Body     []byte     // the Movement as JSON
	Due      *time.Time // nil: it is parked, and waits for a person
	Refusals int
	Reason   string // why it was not sent when it was last tried
}

// Name is the id of the event for people and receivers. It is the same in every copy.
func (e Event) Name() string { return e.SKU + "." + strconv.FormatInt(e.Number, 10) }

// Named returns the SKU and the number that a name of an event has.
func Named(event string) (sku string, number int64, ok bool) {
	dot := strings.LastIndexByte(event, '.') // a SKU may have dots, too
	if dot < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseInt(event[dot+1:], 10, 64)
	return event[:dot], number, err == nil
}

// A Delivery is an event that a sender has locked. The sender says what became of it; an event that is neither sent nor
// parked and has nothing to wait for stays as it is.
type Delivery struct {
	Event
	Behind bool          // the event before it is in the outbox, and not in this batch; Wait says when that is due
	Sent   bool          // it leaves the outbox
	Parked bool          // it waits for a person
	Wait   time.Duration // until it is due again
}

// A Backlog is what is in the outbox.
type Backlog struct {
	Waiting int64
	Parked  int64
	Late    time.Duration // the age of the oldest event that waits for the receiver, not for a person; 0: there is none
}
