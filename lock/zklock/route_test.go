package zklock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// There is no pause in the first round over all servers. Then the pauses double up to a second, and each is between
// half and all of that. An answered request begins anew, a greeting does not. The end of the generation ends a pause.
func TestPausesBetweenServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancelCause(context.Background())
		r := &route{over: over}
		_ = r.Init([]string{"a:1", "b:1", "c:1"})
		if r.Len() != 3 {
			t.Errorf("%d servers", r.Len())
		}
		next := func() time.Duration {
			t.Helper()
			if server, stop := r.Next(); stop || server != r.servers[(r.at-1)%3] {
				t.Errorf("try %d is of %s, stop %t", r.at, server, stop)
			}
			began := time.Now()
			if err := r.pause(); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		for range 20 {
			r.served()
			for try, most := range []time.Duration{0, 0, 0, 100, 200, 400, 800, 1000, 1000} {
				most *= time.Millisecond
				r.Connected()
				if waited := next(); waited < most/2 || waited > most {
					t.Errorf("before try %d: %v, want %v to %v", try+1, waited, most/2, most)
				}
			}
		}
		end(errClosed)
		began := time.Now()
		if err := r.pause(); !errors.Is(err, errClosed) || time.Since(began) != 0 {
			t.Errorf("after the end: %v, in %v", err, time.Since(began))
		}
		if _, stop := r.Next(); !stop {
			t.Error("it goes on after the end")
		}
	})
}

// A check that finds no server says so, also if its ctx ends first: then it is the end of ctx.
func TestCheckWithoutAServer(t *testing.T) {
	t.Parallel()
	s, err := Dial(Config{Hosts: []string{"127.0.0.1:1"}})
	must(t, err)
	defer s.Close()
	if err := s.Check(t.Context()); !errors.Is(err, lock.ErrDown) {
		t.Errorf("no server: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := s.Check(gone); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrDown) {
		t.Errorf("nobody waits: %v", err)
	}
}
