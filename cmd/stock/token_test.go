package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/internal/stack"
)

// The first token makes the keys: the private one for its owner alone. Standard output has the token and nothing else.
func TestTokenMakesItsKeys(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "new", "token.pem")
	made := func(args ...string) (token, said string) {
		t.Helper()
		out, errs, err := run(t.Context(), append([]string{"token", "--keys", keys}, args...)...)
		if err != nil || strings.Count(out, ".") != 2 || strings.Count(out, "\n") != 1 {
			t.Fatalf("%v, %q", err, out)
		}
		return out, errs
	}
	first, said := made("--sub", "ann")
	public := strings.TrimSuffix(keys, ".pem") + ".jwks"
	for _, text := range []string{keys, public, "--auth tokens", "--tokens-keys-file " + public} {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %s: %s", text, said)
		}
	}
	for path, mode := range map[string]os.FileMode{keys: 0o600, public: 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	text, _ := os.ReadFile(keys)
	if err := os.Remove(public); err != nil {
		t.Fatal(err)
	}
	second, said := made("--sub", "ann", "--scope", "stock:read,stock:write", "--ttl", "8h")
	again, _ := os.ReadFile(keys)
	if _, err := os.Stat(public); err != nil || string(text) != string(again) || said != "" || first == second {
		t.Errorf("the second token: %v, keys kept: %t, %q", err, string(text) == string(again), said)
	}
	broken := filepath.Join(t.TempDir(), "broken.pem")
	if err := os.WriteFile(broken, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, why := range map[string]string{
		"":                             "--sub: must be a name",
		"--sub a|b":                    "--sub: must be a name",
		"--sub ann --scope orders":     `--scope: "orders" is none of`,
		"--sub ann --scope lab":        `--scope: "lab" is none of`,
		"--sub ann --ttl 0s":           "--ttl: must be from 1s to 720h",
		"--sub ann --ttl 721h":         "--ttl: must be from 1s to 720h",
		"--sub ann --issuer=":          "--issuer, --audience: is empty",
		"--sub ann --keys " + broken:   "--keys: ",
		"--sub ann --keys /dev/null/x": "--keys: ",
	} {
		_, _, err := run(t.Context(), append([]string{"token"}, strings.Fields(args)...)...)
		says(t, err, why, "!s3cret")
	}
}

// The calls of requests-orders.http, the audit and the judge of the checkout work with a service that wants a token of
// each customer. They say what to give if they are refused.
func TestCheckoutWithTokens(t *testing.T) {
	path := pathOf(t, &plain)
	keys := filepath.Join(t.TempDir(), "token.pem")
	if _, _, err := run(t.Context(), "token", "--sub", "ann", "--keys", keys); err != nil {
		t.Fatal(err)
	}
	s := startServers(t, t.Context(), []stack.Kind{stack.Redis}, unharmed()...)
	t.Cleanup(func() { _ = s.Stop() })
	skipIfMissing(t, s)
	c := serve(t, s, 2, "STOCK_PROFILE=orders", "STOCK_AUTH=tokens", "STOCK_TOKENS_ISSUER=demo",
		"STOCK_TOKENS_AUDIENCE=orders", "STOCK_TOKENS_KEYS_FILE="+strings.TrimSuffix(keys, ".pem")+".jwks")
	tokens := make(map[string]string)
	for _, customer := range []string{"ann", "bob"} {
		text, _, err := run(t.Context(), "token", "--sub", customer, "--keys", keys)
		if err != nil {
			t.Fatal(err)
		}
		tokens[customer] = strings.TrimSpace(text)
	}
	firstCalls(t, calls(t, "requests-orders.http", c.front.URL, tokens), 15)
	t.Setenv("STOCK_ADMIN_TOKEN", "")
	_, _, err := run(t.Context(), "audit", "pen", "--url", c.front.URL)
	says(t, err, "Send the header Authorization")
	clerk, _, err := run(t.Context(), "token", "--sub", "clerk", "--scope", "stock:read", "--keys", keys)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t.Context(), "audit", "pen", "--url", c.front.URL, "--token", strings.TrimSpace(clerk))
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	load := func(command string) (string, error) {
		args := []string{
			"load", "--scenario", "checkout", "--url", c.front.URL, "--admin-token", demoToken, "-n", "60", "-c", "8",
		}
		if command != "" {
			args = append(args, "--token-command", command)
		}
		out, errs, err := run(t.Context(), args...)
		return out + errs, err
	}
	for command, why := range map[string]string{
		"":                        "--token-command: the service refuses a customer (Send the header",
		"echo s3cret":             "--token-command: the service refuses a customer (The token is not valid",
		"echo s3cret >&2":         "--token-command: printed no token",
		"echo s3 cret":            "--token-command: printed no token",
		"echo nothing >&2; false": "--token-command: failed for",
	} {
		_, err := load(command)
		says(t, err, why, "!s3cret", "!s3 cret")
	}
	counted := filepath.Join(t.TempDir(), "customers")
	out, err = load(fmt.Sprintf(`echo "$STOCK_CUSTOMER" >>%s; exec %s token --keys %s --sub "$STOCK_CUSTOMER"`,
		counted, path, keys))
	if err != nil || !strings.Contains(out, "HOLDS") {
		t.Fatalf("%v\n%s", err, out)
	}
	text, _ := os.ReadFile(counted)
	list := strings.Fields(string(text))
	once := make(map[string]bool)
	for _, customer := range list {
		once[customer] = true
	}
	if len(once) != 10 || len(list) != len(once) {
		t.Errorf("the command was run for %d customers, %d times; want 10, once each", len(once), len(list))
	}
}
