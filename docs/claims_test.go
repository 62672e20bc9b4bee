package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

var writeClaims = flag.Bool("write-claims", false, "write the pages that are made from notes.yaml")

// numberOfClaims is how many claims the five notes have. Later numbers are of claims from elsewhere.
const numberOfClaims = 91

// A subject has claims, or questions of interviews. Texts are by language.
type subject struct {
	Title     map[string]string
	Claims    []claim
	Questions []struct {
		Q, A map[string]string
		Run  string
	}
}

type claim struct {
	ID             int
	Verdict        string
	Said, Measured map[string]string
	Evidence       [][3]string // scenario, case, outcome
	See, Run       []string
}

var lessonNumber = regexp.MustCompile(`^lessons/(\d+)`)

// places links to what shows a claim: rows of the matrix, sections of documents in the language, commands.
func places(c claim, language, lesson string) string {
	var list []string
	for _, e := range c.Evidence {
		if place := fmt.Sprintf("[%s](failure-modes.md#%[1]s)", e[0]); !slices.Contains(list, place) {
			list = append(list, place)
		}
	}
	for _, to := range c.See {
		file, anchor, _ := strings.Cut(to, "#")
		label := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(file, "../"), ".md"), "/README")
		if page, ok := strings.CutPrefix(file, "https://"); ok {
			label, _, _ = strings.Cut(page, "/")
		} else if m := lessonNumber.FindStringSubmatch(file); m != nil {
			n, _ := strconv.Atoi(m[1])
			label = fmt.Sprintf(lesson, n)
		}
		list = append(list, fmt.Sprintf("[%s](%s)", label, translated(file, anchor, language)))
	}
	for _, command := range c.Run {
		list = append(list, "`"+command+"`")
	}
	return strings.Join(list, ", ")
}

// translated returns a section of a document, or of its translation if there is one: both have the same headings.
func translated(file, anchor, language string) string {
	other := strings.TrimSuffix(file, ".md") + language + ".md"
	if twin, err := os.ReadFile(other); err == nil && other != file {
		text, _ := os.ReadFile(file)
		at, names := slices.Index(anchors(string(text)), anchor), anchors(string(twin))
		if file = other; at >= 0 && at < len(names) {
			anchor = names[at]
		}
	}
	if anchor == "" {
		return file
	}
	return file + "#" + anchor
}

func readClaims(t *testing.T) (subjects []subject) {
	t.Helper()
	in := yaml.NewDecoder(strings.NewReader(document(t, "docs/notes.yaml")))
	in.KnownFields(true)
	if err := in.Decode(&subjects); err != nil {
		t.Fatal(err)
	}
	return subjects
}

// Every claim has a verdict and a place, and the lab has seen its evidence.
func TestClaims(t *testing.T) {
	seen, ids := map[[2]string]string{}, map[int]bool{}
	for _, w := range words(t) {
		seen[[2]string{w.Scenario, w.Case}] = string(w.Observed)
	}
	for _, s := range readClaims(t) {
		for _, c := range s.Claims {
			known := slices.Contains([]string{"confirmed", "half", "refuted", "untestable"}, c.Verdict)
			if ids[c.ID] || !known || len(c.Evidence)+len(c.See)+len(c.Run) == 0 {
				t.Errorf("claim %d: its number is not its own, or it has no verdict, or no place", c.ID)
			}
			ids[c.ID] = true
			for _, e := range c.Evidence {
				if got := seen[[2]string{e[0], e[1]}]; got != e[2] {
					t.Errorf("claim %d: %v: the lab sees %q: is its verdict still right?", c.ID, e, got)
				}
			}
		}
	}
	for n := 1; n <= numberOfClaims; n++ {
		if !ids[n] {
			t.Errorf("claim %d of the notes is missing", n)
		}
	}
}

// The pages of claims are what notes.yaml says.
func TestClaimsAreWritten(t *testing.T) {
	subjects := readClaims(t)
	for _, name := range []string{"claims", "claims.zh-CN"} {
		page, err := template.New(name + ".tmpl").Funcs(template.FuncMap{"places": places}).ParseFiles(name + ".tmpl")
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		if err := page.Execute(&want, subjects); err != nil {
			t.Fatal(err)
		}
		if *writeClaims {
			if err := os.WriteFile(name+".md", []byte(want.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if document(t, filepath.Join("docs", name+".md")) != want.String() {
			t.Errorf("%s.md is not what notes.yaml says: docs/refresh claims", name)
		}
	}
}
