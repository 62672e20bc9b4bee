package repotest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// StatementWaits waits until exactly one statement that matches the LIKE pattern is running.
func StatementWaits(t *testing.T, dsn, like string) {
	t.Helper()
	watch := OpenMySQL(t, dsn)
	for deadline := time.Now().Add(Patience); ; time.Sleep(5 * time.Millisecond) {
		var n int
		if err := watch.Raw("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"+
			" AND INFO LIKE ? AND ID <> CONNECTION_ID()", like).Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no statement like %s", like)
		}
	}
}

// Down calls op with a deadline of 5 s and expects an error that matches target. With a shorter deadline, a busy
// computer might not even send the request, and the error would be different.
func Down(t *testing.T, what string, op func(context.Context) error, target error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := op(ctx)
	if !errors.Is(err, target) || errors.Is(err, lock.ErrDown) == errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}
