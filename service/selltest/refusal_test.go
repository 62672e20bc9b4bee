package selltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// A shelf is stock in memory whose reads can be held up. It is for the order in which things happen, in a bubble.
type shelf struct {
	counter
	deducted int
	reading  func(n int) error // called in the middle of the n-th read, from 1
}

func (s *shelf) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	s.mu.Lock()
	s.reads++
	n := s.reads
	seen := s.stock
	s.mu.Unlock()
	if s.reading != nil {
		if err := s.reading(n); err != nil {
			return service.Stock{}, err
		}
	}
	return seen, nil
}

func (s *shelf) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	s.mu.Lock()
	s.deducted++
	guard := s.stock.Guard
	s.mu.Unlock()
	if guard != "" && guard != o.Strategy {
		return o, &service.GuardError{Guard: guard}
	}
	results, err := s.Batch(ctx, []service.Order{o})
	if err != nil {
		return o, err
	}
	return results[0].Order, results[0].Err
}

// asked are the reads and the deductions since the last call.
func (s *shelf) asked() (reads, deducted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads, deducted = s.reads, s.deducted
	s.reads, s.deducted = 0, 0
	return reads, deducted
}

func (s *shelf) wants(t *testing.T, what string, reads, deducted int) {
	t.Helper()
	if r, d := s.asked(); r != reads || d != deducted {
		t.Errorf("%s: %d reads and %d deductions, want %d and %d", what, r, d, reads, deducted)
	}
}

// soldOut is a scene in a bubble whose stock was seen sold out.
func soldOut(t *testing.T, test func(c *crowd, s *shelf)) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		c := crowdOf(t, stage(t, service.Atomically, s))
		c.come("all", quantity(initial-2))
		c.come("first", quantity(3)) // the strategy refuses it
		fails(t, c.errs["first"], all(service.ErrSoldOut))
		s.wants(t, "while nothing is known", 0, 2)
		test(c, s)
		c.all.Wait()
	})
}

func left(t *testing.T, err error, want int64) {
	t.Helper()
	if out, ok := errors.AsType[*service.SoldOutError](err); !ok || out.Remaining != want {
		t.Errorf("%v, want sold out with %d left", err, want)
	}
}

// Who asks for more than was left is refused by a read, with what that one sees. Who asks for less is not held up.
func TestARefusalIsARead(t *testing.T) {
	soldOut(t, func(c *crowd, s *shelf) {
		c.come("much", quantity(5))
		left(t, c.errs["much"], 2)
		s.wants(t, "too much", 1, 0)
		c.come("little", quantity(2))
		if err := c.errs["little"]; err != nil {
			t.Error(err)
		}
		s.wants(t, "enough for that", 0, 1)
		c.come("much again", quantity(5))
		left(t, c.errs["much again"], 0)
		c.come("one")
		left(t, c.errs["one"], 0)
		s.wants(t, "what the read saw is the next hint", 2, 0)
	})
}

// While a read is under way, all who come wait for the next one, and share it. What was sent before a customer came
// refuses nobody: the stock may have been set in between.
func TestARefusalIsReadAfterItsRequest(t *testing.T) {
	soldOut(t, func(c *crowd, s *shelf) {
		first := make(chan struct{})
		s.reading = func(n int) error {
			if n == 1 {
				<-first
			}
			return nil
		}
		c.come("early", quantity(3))
		if _, err := c.SetStock(c.t.Context(), "", c.sku, initial); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			c.come(fmt.Sprint("late", i), quantity(3))
		}
		if answered, err := c.answer("late0"); answered {
			t.Errorf("answered before it was read for: %v", err)
		}
		close(first)
		synctest.Wait()
		left(t, c.errs["early"], 2)
		sold := 0
		for i := range 5 {
			if err := c.errs[fmt.Sprint("late", i)]; err == nil {
				sold++
			}
		}
		if sold != 3 {
			t.Errorf("%d were sold after the restock, want 3", sold)
		}
		s.wants(t, "one read for each group", 2, 5)
	})
}

// What the store says when it is read is what all of the group are told; who leaves is told at once.
func TestARefusalThatFails(t *testing.T) {
	soldOut(t, func(c *crowd, s *shelf) {
		down := &driver.DownError{Server: "store", Reason: "gone"}
		held := make(chan struct{})
		s.reading = func(n int) error {
			<-held
			if n == 3 {
				panic("the store is broken")
			}
			return down
		}
		c.come("a", quantity(3))
		c.come("b", quantity(3))
		c.come("leaves", quantity(3))
		c.leave["leaves"](errors.New("gone shopping elsewhere"))
		synctest.Wait()
		if answered, _ := c.answer("leaves"); !answered {
			t.Error("who leaves is held up by the read")
		}
		close(held)
		synctest.Wait()
		for _, id := range []string{"a", "b"} {
			fails(t, c.errs[id], all(lock.ErrDown), service.ErrSoldOut, service.ErrOutcomeUnknown)
		}
		c.come("c", quantity(3))
		fails(t, c.errs["c"], all(errPanicked))
		s.reading = nil
		c.come("d", quantity(3))
		left(t, c.errs["d"], 2)
	})
}

// A stock that another strategy guards is refused by the store, which says that. A sale of the lab is the strategy's.
func TestWhatIsNotRefusedByARead(t *testing.T) {
	soldOut(t, func(c *crowd, s *shelf) {
		c.come("lab", quantity(3), lab(service.Lab{Hold: time.Millisecond}))
		left(t, c.errs["lab"], 2)
		s.wants(t, "lab", 0, 1)
		s.mu.Lock()
		s.stock.Guard = "another"
		s.mu.Unlock()
		c.come("guarded", quantity(3))
		fails(t, c.errs["guarded"], all(service.ErrGuarded))
		s.wants(t, "guarded", 1, 1)
	})
}
