package main

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/tools/runbook"
)

// sections are the headings of every runbook, in English and in Chinese.
var sections = map[string][]string{
	".md":       {"What customers see", "Confirm it", "What to do", "What not to do", "When it is over"},
	".zh-CN.md": {"顾客看到什么", "确认", "怎么办", "不要做什么", "怎样算恢复"},
}

// byRunbook returns the names of the alerts by the file with what to do. Four pages have no alert of their own: other
// pages and the documents lead to them.
func byRunbook() map[string][]string {
	books := map[string][]string{"books-do-not-balance": nil, "hot-sku": nil, "fail-over": nil, "bad-deploy": nil}
	for _, a := range catalogue() {
		if a.Runbook != "" {
			books[a.Runbook] = append(books[a.Runbook], a.Name)
		}
	}
	return books
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A runbook names its alerts, has the five sections, none of them empty, and two commands that confirm the alert.
func TestRunbooksHaveTheirSections(t *testing.T) {
	for book, alerts := range byRunbook() {
		for suffix, want := range sections {
			text := readFile(t, "docs/runbooks/"+book+suffix)
			parts := strings.Split(text, "\n## ")
			named := regexp.MustCompile("`(Stock[A-Za-z0-9]+)`").FindAllStringSubmatch(parts[0], -1)
			var names []string
			for _, m := range named {
				names = append(names, m[1])
			}
			if !slices.Equal(names, alerts) {
				t.Errorf("%s%s names %q at its top, want %q", book, suffix, names, alerts)
			}
			var got []string
			for _, part := range parts[1:] {
				heading, body, _ := strings.Cut(part, "\n")
				got = append(got, heading)
				if strings.TrimSpace(body) == "" {
					t.Errorf("%s%s: nothing under %q", book, suffix, heading)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s%s has the headings %q, want %q", book, suffix, got, want)
				continue
			}
			if n := len(runbook.Commands(parts[2])); n != 2 {
				t.Errorf("%s%s confirms the alert with %d commands, want 2", book, suffix, n)
			}
		}
	}
}

func TestEveryRunbookIsKnown(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root, "docs/runbooks/*.md"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	books := byRunbook()
	for _, path := range found {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		if _, known := books[name]; !known {
			t.Errorf("no alert has the runbook %s", name)
		}
	}
}

var (
	curlURL = regexp.MustCompile(`http://(?:localhost:8080|127\.0\.0\.1:(?:8088|9090))(/[^'" ]*)`)
	dataOf  = regexp.MustCompile(`-d '([^']*)'`)
)

// Every command of a runbook exists: stock accepts its subcommand and its flags, and curl asks for a path of the
// service. Nothing is executed.
func TestCommandsOfRunbooksExist(t *testing.T) {
	program, err := buildStock()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for book := range byRunbook() {
		for suffix := range sections {
			for _, line := range runbook.Commands(readFile(t, "docs/runbooks/"+book+suffix)) {
				checked++
				switch {
				case strings.HasPrefix(line, "stock "):
					args := append(strings.Fields(strings.TrimPrefix(line, "stock ")), "--help")
					help, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
					words, _, _ := strings.Cut(string(help), "Flags:")
					if err != nil || !strings.Contains(words, "stock "+strings.Join(subcommand(args), " ")) {
						t.Errorf("%s%s: %s: %v\n%s", book, suffix, line, err, help)
					}
				case strings.HasPrefix(line, "curl "):
					m := curlURL.FindStringSubmatch(line)
					if m == nil || !inDocument(t, line, m[1]) {
						t.Errorf("%s%s: the service has no such path: %s", book, suffix, line)
					}
					if d := dataOf.FindStringSubmatch(line); d != nil && !json.Valid([]byte(d[1])) {
						t.Errorf("%s%s: %s is no JSON", book, suffix, d[1])
					}
				default:
					t.Errorf("%s%s: %q is neither stock nor curl", book, suffix, line)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d commands were checked, which cannot be all", checked)
	}
}

// subcommand returns the words of a command that are names of commands, as far as the runbooks have some with two.
func subcommand(args []string) []string {
	if slices.Contains([]string{"relay", "lock"}, args[0]) && slices.Contains(
		[]string{"dead", "retry", "skip", "ls", "evict"}, args[1]) {
		return args[:2]
	}
	return args[:1]
}

// inDocument reports whether the OpenAPI document has the path, with the method of the command.
func inDocument(t *testing.T, command, path string) bool {
	t.Helper()
	method := "get"
	if m := regexp.MustCompile(`-X ([A-Z]+)`).FindStringSubmatch(command); m != nil {
		method = strings.ToLower(m[1])
	}
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(readFile(t, "handler/openapi.json")), &document); err != nil {
		t.Fatal(err)
	}
	asked, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	for known, methods := range document.Paths {
		pattern := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(known, "[^/]+")
		if regexp.MustCompile("^"+pattern+"$").MatchString(asked.Path) && methods[method] != nil {
			return true
		}
	}
	return false
}
