package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A screen makes visible what a terminal would obey, and lets through what the commands themselves draw.
func TestScreen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		writes []string
		want   string
	}{
		{[]string{"plain\ttext\n", "中文，é\n"}, "plain\ttext\n中文，é\n"},
		{[]string{"a\x1b]0;owned\x07b"}, `a\u001b]0;owned\u0007b`},
		{[]string{"a\x1b[2Jb\rc\x7fd\b"}, `a\u001b[2Jb\u000dc\u007fd\u0008`},
		{[]string{"a\u009b2Jb\u202ec\u2066d\u200fe\u2028f"}, `a\u009b2Jb\u202ec\u2066d\u200fe\u2028f`},
		{[]string{"a\x9bb"}, "a\ufffdb"},
		{[]string{"a\xc2", "\x9bb\xe4\xb8", "\xad"}, `a\u009bb中`},
		{[]string{"\r\x1b[K  running", "\r\x1b[K", "x\r\x1b[K"}, "\r\x1b[K  running\r\x1b[Kx" + `\u000d\u001b[K`},
		{[]string{"\x1b[1;31mbad\x1b[0m \x1b[5mblink"}, "\x1b[1;31mbad\x1b[0m " + `\u001b[5mblink`},
	} {
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{file: file}
		for _, text := range row.writes {
			if n, err := io.WriteString(s, text); n != len(text) || err != nil {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, file.Name()); got != row.want {
			t.Errorf("%q: %q, want %q", row.writes, got, row.want)
		}
	}
}

// What an instance answers reaches the terminal without its escapes, as a name in a table and as an error.
func TestNoEscapesOfOthers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "refused") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, `{"type":"/problems/odd","detail":"evil\u001b]0;t\u0007\u202e"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"holder":{"who":"evil\u001b[2J\nfake \u202e\u009b1m","fence":7}}`)
	}))
	t.Cleanup(server.Close)
	for key, want := range map[string]string{
		"book":    `evil\u001b[2J\u000afake \u202e\u009b1m`,
		"refused": `evil\u001b]0;t\u0007\u202e`,
	} {
		out, _ := exec.Command(program.Path(t), "lock", "ls", "redis-watchdog", key, "--url", server.URL).
			CombinedOutput()
		if !strings.Contains(string(out), want) || strings.ContainsAny(string(out), "\x1b\x07\u202e\u009b") {
			t.Errorf("%s: %q, want %q in it", key, out, want)
		}
	}
}
