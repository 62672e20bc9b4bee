package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// The judge of the checkout works with the order service, which wants a token of each customer. It says what to give if
// a customer is refused.
func TestCheckoutWithTokens(t *testing.T) {
	path := plain.Path(t)
	s := startServers(t, &plain, []server.Kind{server.MySQL})
	shops, err := s.Orders(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	staff, err := loadtest.SignToken(stack.OrdersSecret, "staff", "stock:read stock:write")
	if err != nil {
		t.Fatal(err)
	}
	load := func(command string) (string, error) {
		args := []string{
			"checkout", "--url", shops[0].URL, "--admin-token", staff, "-n", "60", "-c", "8",
		}
		if command != "" {
			args = append(args, "--token-command", command)
		}
		out, errs, err := run(t.Context(), args...)
		return out + errs, err
	}
	for command, why := range map[string]string{
		"":                        "--token-command: the service refuses a customer",
		"echo s3cret":             "--token-command: the service refuses a customer",
		"echo s3cret >&2":         "--token-command: printed no token",
		"echo s3 cret":            "--token-command: printed no token",
		"echo nothing >&2; false": "--token-command: failed for",
	} {
		_, err := load(command)
		says(t, err, why, "!s3cret", "!s3 cret")
	}
	counted := filepath.Join(t.TempDir(), "customers")
	t.Setenv("ORDERS_AUTH_SECRET", stack.OrdersSecret)
	out, err := load(fmt.Sprintf(`echo "$STOCK_CUSTOMER" >>%s; exec %s orders token --sub "$STOCK_CUSTOMER"`, counted,
		path))
	if err != nil || !strings.Contains(out, "HOLDS") {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(counted)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(text))
	once := make(map[string]bool)
	for _, customer := range list {
		once[customer] = true
	}
	if len(once) != 10 || len(list) != len(once) {
		t.Errorf("the command was run for %d customers, %d times; want 10, once each", len(once), len(list))
	}
}
