package loadtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The command is run once for each customer, however many ask, and its failure is remembered, too.
func TestWallet(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "asked")
	w := NewWallet(`echo "$STOCK_CUSTOMER" >>` + file + `
		test "$STOCK_CUSTOMER" != eve && echo " of-$STOCK_CUSTOMER "`)
	var all sync.WaitGroup
	for range 20 {
		for customer, want := range map[string]string{"ann": "of-ann", "bob": "of-bob", "eve": ""} {
			all.Go(func() {
				got, err := w.Token(t.Context(), customer)
				plan, refused := errors.AsType[*PlanError](err)
				if got != want || refused != (want == "") || refused && plan.Field != "token-command" {
					t.Errorf("%s: %q, %v", customer, got, err)
				}
			})
		}
	}
	all.Wait()
	text, _ := os.ReadFile(file)
	if n := strings.Count(string(text), "\n"); n != 3 {
		t.Errorf("the command was run %d times:\n%s", n, text)
	}
}

// A command that does not end is ended, with what it has started.
func TestAWalletThatHangs(t *testing.T) {
	t.Parallel()
	w := newWallet(commandIssuer{"sleep 600 | sleep 600", 50 * time.Millisecond}.issue)
	if _, err := w.Token(t.Context(), "ann"); err == nil || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("%v", err)
	}
	w = newWallet(commandIssuer{"yes", time.Second}.issue)
	if _, err := w.Token(t.Context(), "ann"); err == nil {
		t.Error("endless output is a token")
	}
}
