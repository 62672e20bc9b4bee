package repo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// inQueue runs a test in a bubble with a queue of one place, which is taken until the test calls leave. The test ends
// with nobody in the queue.
func inQueue(t *testing.T, test func(t *testing.T, q *Queue, leave func())) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(0, 10)
		leave, err := q.Enter(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		test(t, q, leave)
		synctest.Wait()
		if in, waits := q.Load(); in != 0 || waits != 0 {
			t.Errorf("%d are in and %d wait, want none", in, waits)
		}
	})
}

// The end of a sale's wait, or of its call, ends the wait in the queue. Only a deadline is an overload. If the work has
// begun, its wait does not count.
func TestWaitsInTheQueueEnd(t *testing.T) {
	gone := errors.New("the client went away")
	inQueue(t, func(t *testing.T, q *Queue, leave func()) {
		ending, end := context.WithCancelCause(t.Context())
		wait := func() (context.Context, context.CancelFunc) { return ending, func() {} }
		call, hangUp := context.WithCancelCause(t.Context())
		begun := make(chan error, 1)
		other := make(chan error, 2)
		try := func(ctx context.Context, result chan<- error) {
			leave, err := q.Enter(ctx, "read")
			if err == nil {
				leave()
			}
			result <- err
		}
		go try(service.WithWait(t.Context(), wait), other)
		go try(service.Begin(service.WithWait(t.Context(), wait)), begun)
		go try(call, other)
		synctest.Wait()
		end(gone)
		hangUp(gone)
		for range 2 {
			if err := <-other; !errors.Is(err, gone) || errors.Is(err, lock.ErrOverloaded) {
				t.Errorf("%v, want that the client went away", err)
			}
		}
		leave()
		if err := <-begun; err != nil {
			t.Errorf("what had begun: %v", err)
		}
	})
}

// Half of the time is for the queue in front of a server, so that the other half is left for the server.
func TestTheQueueLeavesTimeForTheServer(t *testing.T) {
	inQueue(t, func(t *testing.T, q *Queue, leave func()) {
		defer leave()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := q.Enter(ctx, "read stock")
		if !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != 5*time.Second {
			t.Errorf("refused after %v of 10 s: %v", time.Since(began), err)
		}
	})
}

// Two transactions for a row are admitted, a third waits or is told that the row is held, and other rows have places of
// their own. A row that nobody uses is forgotten.
func TestPlacesInFrontOfARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows rowQueues
		var leave []func()
		for _, sku := range []service.SKU{"hot", "hot", "other"} {
			out, err := rows.enter(t.Context(), sku, true)
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, out)
		}
		if _, err := rows.enter(t.Context(), "hot", true); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("one that does not wait: %v, want ErrHeld", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rows.enter(ctx, "hot", false)
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one whose time is over: %v, want ErrHeld and DeadlineExceeded", err)
		}
		third := make(chan error, 1)
		go func() {
			out, err := rows.enter(t.Context(), "hot", false)
			third <- err
			out()
		}()
		synctest.Wait()
		for _, out := range leave {
			out()
		}
		if err := <-third; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(rows.rows) != 0 {
			t.Errorf("%d rows are remembered", len(rows.rows))
		}
	})
}
