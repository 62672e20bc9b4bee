package service

import (
	"errors"
	"testing"
)

// A store that makes no batches is told to all who wait, and not called.
func TestABatchInAStoreThatMakesNone(t *testing.T) {
	w := &merging{sale: &Sale{}}
	mergeBatch{w}.write(t.Context(), struct{ Store }{})
	if !errors.Is(w.err, errors.ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", w.err)
	}
}
