package locktest

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// A request is what the suite asks of a contender, one line of JSON.
type request struct {
	ID     int
	Do     string        // open, close, acquire, cancel, release, unknown, storm, waiters, count
	Addrs  []string      `json:",omitempty"` // open: of the servers, or of what stands before them
	Locker int           `json:",omitempty"` // which of those that were opened, by the ID of that request
	Lease  int           `json:",omitempty"` // which of those that were acquired, by the ID of that request; cancel: that request
	Term   time.Duration `json:",omitempty"` // open: the lease
	Key    string        `json:",omitempty"` // open: name of the bench
	Wait   time.Duration `json:",omitempty"`
	Try    bool          `json:",omitempty"`
	Insist bool          `json:",omitempty"` // again after every answer that is no lease, until the wait ends
	Storm  storm         `json:",omitzero"`
}

// A reply is what a contender answers, one line of JSON.
type reply struct {
	ID    int           // of the request; with Lost: of the one that acquired the lease
	Lost  bool          `json:",omitempty"` // nobody asked: a lease has ended
	Err   *failure      `json:",omitempty"`
	Fence lock.Fence    `json:",omitempty"`
	From  time.Duration `json:",omitempty"` // acquire: after the answer
	To    time.Duration `json:",omitempty"` // release: before the request; Lost: when it was known
	N     int           `json:",omitempty"`
	Holds []Hold        `json:",omitempty"`
}

// A failure is an error that has come from another process.
type failure struct {
	Text string
	Is   []int // indexes of the sentinels that it matches
}

// sentinels are the errors by which the contract speaks. Their order is the protocol.
func sentinels() []error {
	return []error{
		lock.ErrHeld, lock.ErrLost, lock.ErrExpired, lock.ErrTaken, lock.ErrReleased, lock.ErrDown,
		context.DeadlineExceeded, context.Canceled, errors.ErrUnsupported, lock.ErrOutcomeUnknown,
	}
}

func fail(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, sentinel := range sentinels() {
		if errors.Is(err, sentinel) {
			f.Is = append(f.Is, i)
		}
	}
	return f
}

// error is nil for a nil failure, which a conversion to error would not be.
func (f *failure) error() error {
	if f == nil {
		return nil
	}
	return &remoteError{f}
}

type remoteError struct{ *failure }

func (e *remoteError) Error() string { return e.Text }

func (e *remoteError) Is(target error) bool {
	for _, i := range e.failure.Is {
		if all := sentinels(); i < len(all) && all[i] == target {
			return true
		}
	}
	return false
}
