package cmd_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"example.com/stock/orders/cmd"
	"example.com/stock/orders/handler"
	"example.com/stock/orders/internal/mariadb"
)

const secret = "a secret for tests, of 32 bytes."

// orders runs a command, and returns what it prints and its exit status.
func orders(t *testing.T, args ...string) (string, int, error) {
	t.Helper()
	var out strings.Builder
	c := cmd.Command("v1")
	c.SetArgs(args)
	c.SetOut(&out)
	err := c.ExecuteContext(t.Context())
	return out.String(), cmd.Status(err), err
}

func TestMisused(t *testing.T) {
	for _, args := range []string{"", "serv", "serve x", "migrate --fast", "outbox", "outbox skip", "token --for x"} {
		if _, status, err := orders(t, strings.Fields(args)...); status != 2 {
			t.Errorf("orders %s: status %d, %v", args, status, err)
		}
	}
	for _, args := range []string{"serve", "migrate", "audit", "outbox list", "token"} { // there is no setting
		if _, status, err := orders(t, strings.Fields(args)...); status != 1 {
			t.Errorf("orders %s: status %d, %v", args, status, err)
		}
	}
}

func TestToken(t *testing.T) {
	t.Setenv("ORDERS_AUTH_SECRET", secret)
	t.Setenv("ORDERS_AUTH_AUDIENCE", "shop")
	tokens, err := handler.NewTokens(handler.TokenOptions{Secret: secret, Audience: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	token, status, err := orders(t, "token", "--sub", "a@b", "--scope", "stock:read stock:write")
	if status != 0 {
		t.Fatal(err)
	}
	who, err := tokens.Identify(t.Context(), strings.TrimSpace(token))
	if err != nil || who.Customer != "a@b" || fmt.Sprint(who.Scopes) != "[stock:read stock:write]" {
		t.Errorf("%+v, %v", who, err)
	}
	text, status, err := orders(t, "config")
	if status != 0 || strings.Contains(text, secret) || !strings.Contains(text, `auth.audience: "shop"`) {
		t.Error(text, err)
	}
}

func TestHealthcheck(t *testing.T) {
	ready := http.StatusOK
	operators := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Error(r.URL)
		}
		w.WriteHeader(ready)
	}))
	defer operators.Close()
	t.Setenv("ORDERS_HTTP_OPERATORS", strings.TrimPrefix(operators.URL, "http://"))
	if _, status, err := orders(t, "healthcheck"); status != 0 {
		t.Error(err)
	}
	ready = http.StatusServiceUnavailable
	if _, status, err := orders(t, "healthcheck"); status != 1 {
		t.Errorf("status %d, %v", status, err)
	}
}

func TestDatabase(t *testing.T) {
	if os.Getenv("SKIP_SERVERS") == "1" {
		t.Skip("SKIP_SERVERS")
	}
	server, dsn, err := mariadb.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	t.Setenv("ORDERS_MYSQL_DSN", dsn)
	rows, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	change := func(statement string) {
		t.Helper()
		if _, err := rows.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(args string, status int, want string) {
		t.Helper()
		text, got, err := orders(t, strings.Fields(args)...)
		if got != status || !strings.Contains(text+fmt.Sprint(err), want) {
			t.Errorf("orders %s: status %d, %s%v; want %d, %s", args, got, text, err, status, want)
		}
	}
	expect("audit", 1, "doesn't exist")
	expect("migrate", 0, "applied 00001_orders.sql")
	expect("migrate", 0, "up to date")
	change("INSERT INTO stocks VALUES ('tea', 5, 5, 0, 0, 1, 0)")
	change("INSERT INTO movements VALUES ('tea', 1, 'set', 5, 5, 0, 0, '', '', '', SYSDATE(6))")
	expect("audit", 0, "1 SKUs checked.")
	change("UPDATE stocks SET received = 6, available = 6")
	expect("audit", 3, "tea: the counters are received 6")
	expect("audit", 3, "1 SKUs checked.")
	change("INSERT INTO outbox (sku, number, body, refusals, reason) VALUES" +
		" ('tea', 1, '{}', 20, 'no'), ('tea', 2, '{}', 20, 'no')")
	expect("outbox list", 0, "tea.1 refused 20 times: \"no\"\n")
	expect("outbox retry tea.1", 0, "")
	expect("outbox skip tea.2", 0, "")
	expect("outbox skip tea.2", 1, "no such event")
	expect("outbox list", 0, "0 parked, 1 waiting")
	server.Stop()
	expect("audit", 1, "the database does not answer")
}
