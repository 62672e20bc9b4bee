package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// The command prints its address, warns of what others can reach, and leaves nothing behind.
func TestClass(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := startShow(t, "class", "--dir", filepath.Join(t.TempDir(), "runs"), "--bind", "127.0.0.1:0")
	wall := regexp.MustCompile(`http://127\.0\.0\.1:\d+/#[A-Z2-7]{26}`)
	servertest.Eventually(t, time.Minute, "it prints its addresses", func() (bool, string) {
		return wall.MatchString(s.out.String()) && strings.Contains(s.out.String(), "/join#"), s.errs.String()
	})
	address, _, _ := strings.Cut(wall.FindString(s.out.String()), "#")
	if status, body := get(t, address); status != http.StatusOK || !strings.Contains(body, "wall.js") {
		t.Errorf("%s: %d %s", address, status, body)
	}
	if status, _ := get(t, address+"api/class"); status != http.StatusUnauthorized {
		t.Errorf("without the key it answers %d", status)
	}
	if !strings.Contains(s.errs.String(), "Warning: everybody in this network") {
		t.Errorf("no warning: %s", s.errs.String())
	}
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(t); status != 0 {
		t.Errorf("status %d\n%s", status, s.errs.String())
	}
	s.gone(t)
}

// Mistakes are named before anything starts.
func TestClassRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ args, want string }{
		{"--export x.html", "--export: is for --replay FILE"},
		{"--replay x --bind 127.0.0.1:0", "--bind: nobody can buy"},
		{"--replay /nowhere/run.jsonl", "--replay: open"},
		{"--replay class_test.go", "--replay: class_test.go: line 1: "},
		{"--replay class_test.go --export /nowhere/at/all.html", "--export: "},
	} {
		_, _, err := run(t.Context(), append([]string{"class"}, strings.Fields(row.args)...)...)
		says(t, err, row.want)
	}
}

// A recording becomes one file.
func TestClassExports(t *testing.T) {
	t.Parallel()
	from := file(t, "run.jsonl", `{"at":1000,"from":"class","seq":1,"kind":"run","run":1,"plan":{"strategy":"none"}}
{"at":2000,"from":"class","seq":2,"kind":"fired","run":1,"req":"r1.1","who":"</script><b>"}
`)
	to := filepath.Join(t.TempDir(), "run.html")
	if _, _, err := run(t.Context(), "class", "--replay", from, "--export", to); err != nil {
		t.Fatal(err)
	}
	page := content(t, to)
	if !strings.Contains(page, `id="recording"`) || strings.Contains(page, "</script><b>") ||
		strings.Contains(page, `src="wall.js"`) {
		t.Error("it is no page of its own, or a name ends its script")
	}
}
