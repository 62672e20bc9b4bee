package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// A word that is no command is an error, at every level: a script that calls "stock migrate pu" must not go on.
func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"bogus"},
		{"migrate", "pu"},
		{"serve", "now"},
		{"config", "show"},
		{"healthcheck", "x"},
		{"demo", "x"},
		{"lab", "x"},
		{"lock", "x"},
	} {
		_, _, err := run(t.Context(), args...)
		says(t, err, args[len(args)-1])
	}
}

// A shell sees the exit status, which only a whole program has.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	path := program.Path(t)
	for _, row := range []struct {
		args   string
		status int
		out    string
		err    string
	}{
		{"--version", 0, "stock version dev", ""},
		{"--help", 0, "stock demo", ""},
		{"migrate", 0, "Usage:", ""},
		{"bogus", 1, "", `stock: unknown command "bogus"; there are demo, class, `},
		{"relay dead", 1, "", `use "stock orders outbox"`},
		{"demo --ha", 1, "", `use "stock lab failover"`},
		{"lab sok --for 1s", 1, "", `unknown command "sok"; did you mean soak?`},
		{"lab failover --json /no/x", 1, "", "stock: --json: "},
		{"lock zk-sequential k --no-wait -- true", 64, "", `is "stock lock run <strategy> <key> -- command" now`},
		{"lock --no-wait zk-sequential k -- true", 64, "", `is "stock lock run <strategy> <key> -- command" now`},
		{"lock --bogus", 64, "", "--bogus"},
		{"config --wait=1h", 1, "", "wait: 1h0m0s is not from 0s to 1m0s"},
		{"serve --addr=x", 1, "", `stock: configuration:`},
		{"checkout --per-customer=-3", 1, "", "stock: --per-customer: "},
		{"healthcheck --url http://127.0.0.1:1/readyz", 1, "", "connection refused"},
		{"strategies --lang fr", 1, "", "--lang: must be en or zh"},
	} {
		cmd := exec.Command(path, strings.Fields(row.args)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if status := cmd.ProcessState.ExitCode(); status != row.status || !strings.Contains(out.String(), row.out) ||
			!strings.Contains(errs.String(), row.err) {
			t.Errorf(
				"stock %s: status %d, want %d\nstdout: %s\nstderr: %s", row.args, status, row.status,
				out.String(), errs.String(),
			)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	for status, ok := range map[int]bool{200: true, 204: false, 301: false, 404: false, 500: false, 503: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status != 204 {
				fmt.Fprint(w, `{"status":"draining"}`)
			}
		}))
		_, _, err := run(t.Context(), "healthcheck", "--url", server.URL+"/readyz")
		server.Close()
		if ok && err != nil {
			t.Errorf("%d: %v", status, err)
		}
		if !ok {
			says(t, err, fmt.Sprint("not ready: ", status))
		}
		if status == 503 {
			says(t, err, "draining")
		}
	}
	_, _, err := run(t.Context(), "healthcheck", "--url", "http://127.0.0.1:1/readyz")
	says(t, err, "connection refused")
	_, _, err = run(t.Context(), "healthcheck", "--url", "::", "--wait", "1h")
	says(t, err, "--url")
}

// An instance that serves is ready although the nodes of redlock are not up yet. Only --all waits for them, and for all
// instances behind a proxy.
func TestHealthcheckOfAll(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		up := n > 3 && n != 6 // as if another instance behind the same address were late
		fmt.Fprintf(
			w,
			`{"status":"ready","backends":{"redis":{"up":true},"redlock":{"up":%v,"reason":"in quarantine"}}}`,
			up,
		)
	}))
	defer server.Close()
	if _, _, err := run(t.Context(), "healthcheck", "--url", server.URL); err != nil {
		t.Error(err)
	}
	_, _, err := run(t.Context(), "healthcheck", "--url", server.URL, "--all")
	says(t, err, "not all servers are up: redlock: in quarantine")
	if _, _, err := run(t.Context(), "healthcheck", "--url", server.URL, "--all", "--wait", "1m"); err != nil ||
		asked.Load() != 6+manyAnswers {
		t.Errorf("asked %d times, and at last: %v", asked.Load(), err)
	}
}

func TestMigrate(t *testing.T) {
	t.Setenv("STOCK_MYSQL_DSN", servers.MariaDB(t))
	for _, row := range []struct{ verb, says string }{
		{"status", "pending"},
		{"down", "nothing to do"},
		{"up", "applied: 00001_stock.sql, 00002_orders.sql"},
		{"up", "nothing to do"},
		{"status", "applied 20"},
		{"down", "taken back: 000"},
		{"status", "pending"},
	} {
		if out, _, err := run(t.Context(), "migrate", row.verb); err != nil || !strings.Contains(out, row.says) {
			t.Errorf("migrate %s: %v, no %q in\n%s", row.verb, err, row.says, out)
		}
	}
}

func TestMigrateSaysWhatIsMissing(t *testing.T) {
	for _, verb := range []string{"up", "down", "status"} {
		_, _, err := run(t.Context(), "migrate", verb, "--mysql-dsn=")
		says(t, err, "mysql.dsn is empty", "--mysql-dsn", "STOCK_MYSQL_DSN")
		_, _, err = run(t.Context(), "migrate", verb, "--mysql-dsn", "u:s3cret@tcp(127.0.0.1:1)/x")
		says(t, err, "reach mysql", "--mysql-dsn", "!s3cret")
		_, _, err = run(t.Context(), "migrate", verb, "--wait=1h")
		says(t, err, "wait:")
	}
}

// The documents about the strategies agree with the program.
func TestDocumentsShowTheCatalogue(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{
		"../../README.md":                {"strategies", "--markdown", "--short"},
		"../../README.zh-CN.md":          {"strategies", "--markdown", "--short", "--lang", "zh"},
		"../../docs/strategies.md":       {"strategies", "--markdown"},
		"../../docs/strategies.zh-CN.md": {"strategies", "--markdown", "--lang", "zh"},
	} {
		want, _, err := run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "<!-- strategies -->\n")
		got, _, _ := strings.Cut(after, "<!-- /strategies -->")
		if got != want {
			t.Errorf("%s does not show the catalogue as it is; run docs/refresh strategies", file)
		}
	}
}

// A reader that goes away after the first line, such as head, leaves neither a server nor a folder behind.
func TestNobodyReadsOn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	temporary, err := os.MkdirTemp("", "unread-") // short: the name of a socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temporary)
	cmd := exec.CommandContext(t.Context(), program.Path(t), "demo", "--strategies", "none", "--store", "redis")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
	stdout.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("%v, want exit status %d\n%s", err, exitInterrupted, &stderr)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
