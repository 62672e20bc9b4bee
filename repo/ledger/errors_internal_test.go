package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// What a script refuses for one step of a batch is tried for each alone; what is true of all is not.
func TestWhatIsOfOneStep(t *testing.T) {
	for _, row := range []struct {
		err error
		is  bool
	}{
		{errors.New("WRONGTYPE"), true},
		{fmt.Errorf("%w: %w", lock.ErrHeld, errFaster), true},
		{lock.ErrHeld, false},
		{lock.ErrDown, false},
		{lock.ErrOverloaded, false},
		{service.ErrOutcomeUnknown, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
	} {
		if got := ofOneStep(row.err); got != row.is {
			t.Errorf("%v: of one step %t", row.err, got)
		}
	}
}

// A count that is not there is none.
func TestCountsThatAreNone(t *testing.T) {
	f := repo.Fields{Values: []any{"7", "", "8"}}
	if count(&f, 0) != 7 || count(&f, 1) != 0 || count(&f, 2) != 8 || f.Err != nil {
		t.Errorf("counts %v", f.Err)
	}
}
