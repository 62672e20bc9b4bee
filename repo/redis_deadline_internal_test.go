package repo

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// lateContext has a deadline, and never notices that it has passed.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// The deadline of ctx is set on the socket as well, which may notice it first: that is the end of ctx all the same.
func TestTheSocketMayNoticeTheDeadlineFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		socket := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
		for left, late := range map[time.Duration]bool{0: true, -time.Second: true, time.Second: false} {
			ctx := lateContext{t.Context(), time.Now().Add(left)}
			err := RedisFault(ctx, "read stock", "stock:{pen}", socket)
			if !errors.Is(err, lock.ErrDown) || errors.Is(err, context.DeadlineExceeded) != late {
				t.Errorf("%v before the deadline: %v, want it to be the end of ctx: %t", left, err, late)
			}
		}
	})
}
