package service

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"example.com/stock/lock"
)

// A server that is up and did not answer in time is slow, whichever clock was first: that of ctx, or that of the socket.
func TestSlowByEitherClock(t *testing.T) {
	socket := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for _, row := range []struct {
		err  error
		slow bool
	}{
		{lock.Down("read stock", context.DeadlineExceeded), true},
		{lock.Down("read stock", socket), true},
		{lock.Down("read stock", errors.New("connection refused")), false},
		{errors.Join(lock.Down("write order", socket), ErrOutcomeUnknown), false},
		{errors.Join(lock.Down("write order", socket), lock.ErrLost), false},
		{socket, false},
		{nil, false},
	} {
		got := slow(row.err)
		if errors.Is(got, lock.ErrOverloaded) != row.slow || row.slow && errors.Is(got, lock.ErrDown) {
			t.Errorf("%v: %v, want it slow: %t", row.err, got, row.slow)
		}
	}
}
