package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/lab/grade"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// The exit status is 0 for a lock that holds, 1 for one that fails, and 2 for one that could not be graded for any
// reason.
func TestGradeExitStatus(t *testing.T) {
	t.Parallel()
	servertest.Needs(t, server.Redis)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := "ok t"
		if strings.HasPrefix(r.URL.Path, "/odd") {
			reply = "granted"
		}
		_, _ = w.Write([]byte(reply))
	}))
	defer server.Close()
	dir := t.TempDir()
	for _, row := range []struct {
		args string
		want int
		said string
	}{
		{"--only two-keys --servers redis -- bash ../../docs/examples/grade/lease-redis.sh", 0, "holds"},
		{"--http " + server.URL + " --only work-outlasts-lease --lease 100ms", exitFailing, "oversells"},
		{"--http " + server.URL + "/odd --only two-keys", exitUngraded, `is "granted": the first word is none`},
		{"--only two-keys --servers redis -- ./no-such-lock", exitUngraded, "start the lock: "},
		{"", exitUngraded, "name the lock"},
		{"--http http://x -- true", exitUngraded, "only one of them"},
		{"--http ftp://x", exitUngraded, "--http must be"},
		{"--http http://127.0.0.1:1", exitUngraded, "the lock at http://127.0.0.1:1 cannot be reached"},
		{"--only nonsense -- true", exitUngraded, `unknown scenario "nonsense"; there are thirty-at-once, `},
		{"--servers etcd -- true", exitUngraded, "--servers: etcd is none of [redis zookeeper mysql]"},
		{"--lease 1ms -- true", exitUngraded, "lease"},
		{"--wait 1ms -- true", exitUngraded, "wait"},
		{"--waiters 1 -- true", exitUngraded, "waiters"},
		{"--bogus -- true", exitUngraded, "bogus"},
		{"--html " + dir + "/no/page.html -- true", exitUngraded, "no such file"},
		{"--go ./no-such-package", exitUngraded, "build ./no-such-package: "},
		{"--list --only two-keys", 0, "Two keys in two orders"},
	} {
		got, said := command(t, append([]string{"lab", "grade"}, strings.Fields(row.args)...)...)
		if strings.Contains(row.said, "cannot be reached") && !strings.HasPrefix(said, "the lock at") {
			t.Errorf("a lock that cannot be reached has grades:\n%s", said)
		}
		if got != row.want || !strings.Contains(said, row.said) {
			t.Errorf("%s: exit status %d, want %d\n%s\nwant %s", row.args, got, row.want, said, row.said)
		}
	}
}

// The files have the grades, and the page is in the language of the command.
func TestGradeFiles(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok t\n"))
	}))
	defer server.Close()
	dir := t.TempDir()
	_, _, _ = run(t.Context(), "lab", "grade", "--lang", "zh", "--http", server.URL, "--only",
		"thirty-at-once,holder-killed", "--json", dir+"/g.json", "--html", dir+"/g.html")
	text, err := os.ReadFile(filepath.Join(dir, "g.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report grade.Report
	if err := json.Unmarshal(text, &report); err != nil || len(report.Results) != 2 {
		t.Fatalf("%d results, %v", len(report.Results), err)
	}
	r := report.Results[0]
	if r.Grade != grade.Oversells || len(r.Orders) < 2 || r.Verdict == nil || len(r.Verdict.Certificates) == 0 {
		t.Errorf("%s, %d orders, %+v", r.Grade, len(r.Orders), r.Verdict)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "g.html")); err != nil || !strings.Contains(string(page), "超卖") {
		t.Errorf("%v: %.200s", err, page)
	}
}

// An interrupt is neither a grade nor a failure.
func TestGradeInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		_, _ = w.Write([]byte("ok t\n"))
	}))
	defer server.Close()
	_, _, err := run(ctx, "lab", "grade", "--http", server.URL)
	if status, _ := ended(err); status != exitInterrupted {
		t.Errorf("%v", err)
	}
}
