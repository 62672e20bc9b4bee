package repotest

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// DeadlockWith makes a batch deadlock with the transaction other, so that InnoDB rolls the batch back. It waits until
// a statement of the batch that begins with statement waits for a row of other, and then makes other wait for the
// stock's row, which the batch has locked. At the end it rolls other back.
func DeadlockWith(t *testing.T, dsn string, other *gorm.DB, statement string) {
	t.Helper()
	StatementWaits(t, dsn, statement+"%")
	var quantity int
	if err := other.Raw("SELECT quantity FROM stock WHERE sku = 'sku' FOR UPDATE").Scan(&quantity).Error; err != nil {
		t.Fatalf("the other was chosen: %v", err)
	}
	if err := other.Rollback().Error; err != nil {
		t.Fatal(err)
	}
}

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
